//! Time, as a thing that is handed in, and as another machine sees it.

mod estimate;

pub use estimate::{ClockRates, Estimator, RoundTrip, Told};

use serde::{Deserialize, Serialize};

use crate::Result;

/// The rate of a clock that goes as fast as its machine's.
pub const RATE_ONE_PPB: u64 = 1_000_000_000;

/// The master clock (F23). Implementations keep CL-8: what they hand out never goes
/// backwards, across restarts and clock steps.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Nanoseconds since 1970-01-01T00:00:00Z; every call returns at least what the call before did.
    fn now_ns(&self) -> i64;

    /// The latest time, in nanoseconds since 1970, that has certainly been reached: retention deletes
    /// by this time. It is behind [`Self::now_ns`] while the machine's clock is behind, and after a
    /// start whose clock was far ahead of the last run, until an operator confirms that clock.
    fn confirmed_ns(&self) -> i64 {
        self.now_ns()
    }

    /// Nanoseconds of a clock that only measures durations.
    fn monotonic_ns(&self) -> u64;

    /// What is told to those who want to know what this clock shows without asking it for each
    /// event (F3).
    fn reading(&self) -> ClockReading {
        ClockReading { now_ns: self.now_ns(), ..ClockReading::default() }
    }

    /// What operators see of it.
    fn status(&self) -> ClockStatus {
        let reading = self.reading();
        ClockStatus { reading, wall_ns: reading.now_ns, ..ClockStatus::default() }
    }

    /// Follows the machine's clock again, which jumped ahead and was not followed, and confirms its
    /// lead at a start. Returns the nanoseconds of both; `None` when there was neither.
    ///
    /// # Errors
    /// `Io` when it cannot be made durable: then nothing changes.
    fn accept_jump(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// Between two changes of it, the master clock goes on at one rate: readings of one line lie on
/// a straight line, but for the drift of the machines' oscillators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct TimeLine {
    /// Counts starts and fences; durable, and never the same again.
    pub epoch: u64,
    /// Counts steps of the machine's clock within the epoch, and ends of catching up after them.
    pub steps: u64,
}

/// A reading of the master clock: what `sync_clock` answers (F3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// The time that it shows: nanoseconds since 1970. The *base* of the paper.
    pub now_ns: i64,
    /// How fast it goes now, in billionths of its machine's monotonic clock: half while it waits
    /// for a clock that was set back. The *rate* of the paper.
    pub rate_ppb: u64,
    /// How far apart the machine's two clocks may have been looked at for it.
    pub uncertainty_ns: u64,
    /// Which line the reading is of.
    #[serde(flatten)]
    pub line: TimeLine,
}

impl Default for ClockReading {
    fn default() -> Self {
        Self { now_ns: 0, rate_ppb: RATE_ONE_PPB, uncertainty_ns: 0, line: TimeLine::default() }
    }
}

/// A master clock's numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClockStatus {
    /// What it shows.
    pub reading: ClockReading,
    /// What the machine's clock shows.
    pub wall_ns: i64,
    /// How much faster the machine's clock is than its monotonic one, in billionths, since one of
    /// them was stepped last.
    pub drift_ppb: i64,
    /// By how much the machine's clock jumped ahead and is not followed; 0 when it is.
    pub held_ns: u64,
    /// By how much the machine's clock was ahead of the last run at starts, as far as no operator has
    /// confirmed it: retention waits for so long.
    pub unconfirmed_ns: u64,
    /// How often it jumped ahead so far since the start that it was not followed.
    pub jumps_held: u64,
    /// Time is not issued beyond, until a later lease is durable.
    pub lease_ns: i64,
    /// What an operator should look at, and how to mend it.
    pub alarms: Vec<String>,
}
