//! The options of acquiring a chronicle and of recording events in it.

use std::time::Duration;

use stratalog_model::Durability;

use super::range::Range;
use crate::error::Result;

/// Default of [`Acquire::lease`].
const LEASE: Duration = Duration::from_secs(30);
/// Default of [`Acquire::new_ticks`].
const NEW_TICKS: u32 = 8;

/// The options of [`Chronolog::acquire`](crate::Chronolog::acquire) (F8–F11): whether the
/// acquisition is exclusive or shared, covers the whole chronicle or a range, and lasts until the
/// release or for a limited time. Further options apply to the events that the handle records.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use stratalog_client::{Acquire, Range};
///
/// let alone = Acquire::exclusive();
/// let a_part_for_a_minute = Acquire::shared().range(Range::ticks(1_000..)).timed(Duration::from_secs(60));
/// # let _ = (alone, a_part_for_a_minute);
/// ```
#[derive(Debug, Clone)]
pub struct Acquire {
    exclusive: bool,
    range: Range,
    pub(crate) lease: Duration,
    pub(crate) timed: bool,
    pub(crate) wait: Wait,
    pub(crate) new_ticks: u32,
    pub(crate) retries_collisions: bool,
    pub(crate) durability: Option<Durability>,
}

/// Whether `acquire` waits while other sessions keep the chronicle acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    InTurn,
    AtMost(Duration),
    Not,
}

impl Acquire {
    /// A shared acquisition: any number of sessions may acquire the chronicle at the same time and
    /// write to the chronicle.
    pub fn shared() -> Self {
        Self {
            exclusive: false,
            range: Range::all(),
            lease: LEASE,
            timed: false,
            wait: Wait::InTurn,
            new_ticks: NEW_TICKS,
            retries_collisions: false,
            durability: None,
        }
    }

    /// An exclusive acquisition: no other session may write to the chronicle, but all sessions may
    /// read the chronicle.
    pub fn exclusive() -> Self {
        Self { exclusive: true, ..Self::shared() }
    }

    /// Acquires only a range of the chronicle, by time or by tick (F9): the handle can neither read
    /// nor record events outside of the range. An exclusive acquisition excludes other writers only
    /// from the range.
    #[must_use]
    pub fn range(mut self, range: Range) -> Self {
        self.range = range;
        self
    }

    /// Limits the acquisition to `time` (F10). Afterwards the server releases the chronicle, and
    /// the handle becomes unusable.
    #[must_use]
    pub fn timed(mut self, time: Duration) -> Self {
        (self.lease, self.timed) = (time, true);
        self
    }

    /// Sets the lease: if this process dies without a release, the server releases the chronicle
    /// after this time. The handle renews the lease until the release. Default: 30 seconds.
    #[must_use]
    pub fn lease(mut self, time: Duration) -> Self {
        (self.lease, self.timed) = (time, false);
        self
    }

    /// Makes `acquire` fail with SQLSTATE 55P03 if the acquisitions of other sessions conflict.
    /// Without this option the call waits in a queue.
    #[must_use]
    pub fn no_wait(mut self) -> Self {
        self.wait = Wait::Not;
        self
    }

    /// Makes `acquire` wait at most `time` for other sessions, and then fail with SQLSTATE 55P03.
    #[must_use]
    pub fn wait_at_most(mut self, time: Duration) -> Self {
        self.wait = Wait::AtMost(time);
        self
    }

    /// The maximal number of new ticks that the handle assigns to one event. The handle assigns a
    /// new tick if the server refuses a tick as too old or too far ahead (SQLSTATE SL001). Default:
    /// 8; with 0 such an event fails.
    #[must_use]
    pub fn new_ticks(mut self, times: u32) -> Self {
        self.new_ticks = times;
        self
    }

    /// Also assigns a new tick, up to [`Self::new_ticks`] times, if another event already has the
    /// tick (SQLSTATE SL002, in a chronicle with `collision = 'first'`). Without this option such
    /// an event fails.
    #[must_use]
    pub fn retry_collisions(mut self) -> Self {
        self.retries_collisions = true;
        self
    }

    /// The durability of acknowledgements; default: the durability of the chronicle.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// The ACQUIRE statement without its FOR clause. `table` is a quoted SQL name.
    ///
    /// # Errors
    /// As [`Range::projection`].
    pub(crate) fn statement(&self, table: &str) -> Result<String> {
        let mode = if self.exclusive { "EXCLUSIVE" } else { "SHARED" };
        Ok(format!("ACQUIRE CHRONICLE {table} {mode}{}", self.range.projection()?))
    }
}

impl Default for Acquire {
    fn default() -> Self {
        Self::shared()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_a_statement() {
        let alone = Acquire::exclusive().range(Range::ticks(..9));
        assert_eq!(alone.statement("\"t\"").unwrap(), "ACQUIRE CHRONICLE \"t\" EXCLUSIVE UNTIL 9");
        let all = Acquire::default();
        assert_eq!(all.statement("\"t\"").unwrap(), "ACQUIRE CHRONICLE \"t\" SHARED");
        assert!(all.clone().range(Range::gsns(1..)).statement("\"t\"").is_err());
        let timed = all.timed(Duration::from_secs(5));
        assert!(timed.timed && !timed.lease(Duration::from_secs(5)).timed);
    }
}
