//! The master clock as a trait, and the estimate of the master clock on another machine.

mod estimate;

pub use estimate::{ClockRates, EstimatedTime, Estimator, RoundTrip};

use serde::{Deserialize, Serialize};

use crate::Result;

/// The rate of a clock with the same speed as the monotonic clock of its machine.
pub const RATE_ONE_PPB: u64 = 1_000_000_000;

/// The master clock (F23). Implementations keep CL-8: the time never goes backwards, across
/// restarts and clock steps.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Nanoseconds since 1970-01-01T00:00:00Z; never less than the result of an earlier call.
    fn now_ns(&self) -> i64;

    /// The latest time, in nanoseconds since 1970, that real time has certainly reached. Retention
    /// deletes by this time. The confirmed time is behind [`Self::now_ns`] in two cases: while the
    /// clock of the machine is behind, and after a start with a clock far ahead of the last run,
    /// until an operator confirms the clock.
    fn confirmed_ns(&self) -> i64 {
        self.now_ns()
    }

    /// Nanoseconds of a monotonic clock, for durations only.
    fn monotonic_ns(&self) -> u64;

    /// A reading of the clock for clients that estimate the time between readings (F3).
    fn reading(&self) -> ClockReading {
        ClockReading { now_ns: self.now_ns(), ..ClockReading::default() }
    }

    /// The status for operators.
    fn status(&self) -> ClockStatus {
        let reading = self.reading();
        ClockStatus { reading, wall_ns: reading.now_ns, ..ClockStatus::default() }
    }

    /// Follows the clock of the machine again after a jump ahead, and confirms the lead of the
    /// clock at a start. Returns the sum of both in nanoseconds; `None` if the clock had neither.
    ///
    /// # Errors
    /// `Io` if the change cannot be made durable: then nothing changes.
    fn accept_jump(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// A period in which the master clock keeps one rate. Readings of one line lie on a straight line,
/// apart from the drift of the machines' oscillators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct TimeLine {
    /// Counts starts and fences; durable, and never repeated.
    pub epoch: u64,
    /// Counts the steps of the machine's clock within the epoch, and the ends of catching up after
    /// steps.
    pub steps: u64,
}

/// A reading of the master clock: the answer of `sync_clock` (F3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// The time of the reading: nanoseconds since 1970. The *base* of the paper.
    pub now_ns: i64,
    /// The current rate, in billionths of the rate of the machine's monotonic clock: half while the
    /// master clock waits for a clock that was set back. The *rate* of the paper.
    pub rate_ppb: u64,
    /// The maximum time between the two reads of the machine's two clocks for this reading.
    pub uncertainty_ns: u64,
    /// The line of the reading.
    #[serde(flatten)]
    pub line: TimeLine,
}

impl Default for ClockReading {
    fn default() -> Self {
        Self { now_ns: 0, rate_ppb: RATE_ONE_PPB, uncertainty_ns: 0, line: TimeLine::default() }
    }
}

/// The status of a master clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClockStatus {
    /// The current reading.
    pub reading: ClockReading,
    /// The time of the machine's clock, in nanoseconds since 1970.
    pub wall_ns: i64,
    /// The lead of the machine's clock over the monotonic clock, in billionths, since the last step
    /// of either clock.
    pub drift_ppb: i64,
    /// The jump ahead of the machine's clock that the master clock does not follow, in nanoseconds;
    /// 0 without a jump.
    pub held_ns: u64,
    /// The unconfirmed lead of the machine's clock over the last run, summed over starts, in
    /// nanoseconds. Retention waits for this time.
    pub unconfirmed_ns: u64,
    /// The number of jumps since the start that the master clock did not follow.
    pub jumps_held: u64,
    /// The end of the lease: the clock issues no later time before the next lease is durable.
    pub lease_ns: i64,
    /// Problems for an operator, each with the remedy.
    pub alarms: Vec<String>,
}
