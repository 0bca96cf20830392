//! How a chronicle is acquired, and what its handle does.

use std::time::Duration;

use stratalog_model::Durability;

use super::range::Range;
use crate::error::Result;

/// For how long the server keeps what a client has acquired that is gone, if it is not said.
const LEASE: Duration = Duration::from_secs(30);
/// How often an event is given another tick, if it is not said.
const NEW_TICKS: u32 = 8;

/// The flags of `acquire` (F8–F11): exclusive or shared, all of the chronicle or a part, until it is
/// released or for a time; and how events are recorded.
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

/// What is done where others have the chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    InTurn,
    AtMost(Duration),
    Not,
}

impl Acquire {
    /// Together with others who share it.
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

    /// Nobody else writes to it; all may read.
    pub fn exclusive() -> Self {
        Self { exclusive: true, ..Self::shared() }
    }

    /// Only a part of it, by time or by tick (F9): the handle sees no other events, and records no
    /// other ones. Whoever is exclusive is so with this part.
    #[must_use]
    pub fn range(mut self, range: Range) -> Self {
        self.range = range;
        self
    }

    /// For this time and not longer (F10): then it is released, and the handle of no use any more.
    #[must_use]
    pub fn timed(mut self, time: Duration) -> Self {
        (self.lease, self.timed) = (time, true);
        self
    }

    /// For how long others wait if this process dies without releasing it; 30 seconds if it is not
    /// said. The handle renews it in time, and it goes on until it is released.
    #[must_use]
    pub fn lease(mut self, time: Duration) -> Self {
        (self.lease, self.timed) = (time, false);
        self
    }

    /// Fails with SQLSTATE 55P03 where others have it, instead of waiting for them in turn.
    #[must_use]
    pub fn no_wait(mut self) -> Self {
        self.wait = Wait::Not;
        self
    }

    /// The same after having waited for so long.
    #[must_use]
    pub fn wait_at_most(mut self, time: Duration) -> Self {
        self.wait = Wait::AtMost(time);
        self
    }

    /// How often an event is recorded with a new tick when the server finds its own too old or too far
    /// ahead (SQLSTATE SL001); 8 if it is not said, and 0 for never.
    #[must_use]
    pub fn new_ticks(mut self, times: u32) -> Self {
        self.new_ticks = times;
        self
    }

    /// Records an event with a new tick, as often as [`Self::new_ticks`] says, also when its own is
    /// another event's (SQLSTATE SL002, in a chronicle with `collision = 'first'`). Without this it fails.
    #[must_use]
    pub fn retry_collisions(mut self) -> Self {
        self.retries_collisions = true;
        self
    }

    /// What an acknowledgement means; what the chronicle says if it is not said.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// The statement, without its time. `table` is quoted.
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
