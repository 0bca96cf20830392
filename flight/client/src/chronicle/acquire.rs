//! The flags of acquiring a chronicle and of recording to it.

use std::time::Duration;

use stratalog_model::Durability;

use super::range::Range;
use crate::error::Result;

/// Default lease: for this time the server keeps the acquisition of a dead client.
const LEASE: Duration = Duration::from_secs(30);
/// Default number of new ticks for an event.
const NEW_TICKS: u32 = 8;

/// The flags of `acquire` (F8–F11): exclusive or shared, the whole chronicle or a range, until the
/// release or for a limited time; and the options of recording.
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

/// The behaviour if others hold the chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    InTurn,
    AtMost(Duration),
    Not,
}

impl Acquire {
    /// Shared with other sessions.
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

    /// No other session may write; all may read.
    pub fn exclusive() -> Self {
        Self { exclusive: true, ..Self::shared() }
    }

    /// Only a range of the chronicle, by time or by tick (F9): the handle can neither read nor
    /// record events outside of the range. An exclusive acquisition is exclusive for the range.
    #[must_use]
    pub fn range(mut self, range: Range) -> Self {
        self.range = range;
        self
    }

    /// Only for this time (F10): then the chronicle is released, and the handle becomes unusable.
    #[must_use]
    pub fn timed(mut self, time: Duration) -> Self {
        (self.lease, self.timed) = (time, true);
        self
    }

    /// The lease: if this process dies without a release, others wait for this time; default 30
    /// seconds. The handle renews the lease in time until the release.
    #[must_use]
    pub fn lease(mut self, time: Duration) -> Self {
        (self.lease, self.timed) = (time, false);
        self
    }

    /// Fails with SQLSTATE 55P03 if others hold the chronicle, instead of waiting in the queue.
    #[must_use]
    pub fn no_wait(mut self) -> Self {
        self.wait = Wait::Not;
        self
    }

    /// As [`Self::no_wait`], but only after waiting for this time.
    #[must_use]
    pub fn wait_at_most(mut self, time: Duration) -> Self {
        self.wait = Wait::AtMost(time);
        self
    }

    /// Maximal number of new ticks for an event whose tick is too old or too far ahead for the
    /// server (SQLSTATE SL001); default 8, and 0 disables new ticks.
    #[must_use]
    pub fn new_ticks(mut self, times: u32) -> Self {
        self.new_ticks = times;
        self
    }

    /// Also assigns a new tick, up to [`Self::new_ticks`] times, if the tick belongs to another
    /// event (SQLSTATE SL002, in a chronicle with `collision = 'first'`). Without this option such
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

    /// The ACQUIRE statement without its time. `table` is quoted.
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
