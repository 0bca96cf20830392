//! The master clock as a trait, and the estimate of the master clock on another machine.

mod estimate;

pub use estimate::{ClockRates, EstimatedTime, Estimator, RoundTrip};

use serde::{Deserialize, Serialize};

use crate::Result;

/// The `rate_ppb` of a master clock that runs as fast as the monotonic clock of its machine.
pub const RATE_ONE_PPB: u64 = 1_000_000_000;

/// The master clock (F23). Implementations keep CL-8: the time never goes backwards, even across
/// restarts and steps of the machine's clock.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Nanoseconds since 1970-01-01T00:00:00Z; never less than the result of an earlier call.
    fn now_ns(&self) -> i64;

    /// The latest time, in nanoseconds since 1970, that has certainly passed. Retention uses this
    /// time to delete events. The confirmed time is behind [`Self::now_ns`] in two cases: while the
    /// clock of the machine is behind, and after a start with a clock far ahead of the last run,
    /// until an operator confirms the clock.
    fn confirmed_ns(&self) -> i64 {
        self.now_ns()
    }

    /// Nanoseconds of a monotonic clock, for durations only.
    fn monotonic_ns(&self) -> u64;

    /// A reading of the clock. A client uses readings to estimate the master's time between
    /// requests (F3).
    fn reading(&self) -> ClockReading {
        ClockReading { now_ns: self.now_ns(), ..ClockReading::default() }
    }

    /// The status for operators.
    fn status(&self) -> ClockStatus {
        let reading = self.reading();
        ClockStatus { reading, wall_ns: reading.now_ns, ..ClockStatus::default() }
    }

    /// Accepts the time of the machine's clock: the master clock follows a jump ahead that it has
    /// not followed so far, and the lead over the last run counts as confirmed. Returns the sum of
    /// jump and lead in nanoseconds; `None` if the clock had neither.
    ///
    /// # Errors
    /// `Io` if the change cannot be made durable; then nothing changes.
    fn accept_jump(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// Identifies a period in which the master clock follows one straight line. All readings of a line
/// lie on this straight line, apart from the drift of the machines' oscillators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct TimeLine {
    /// The number of starts and fences of the clock; durable, and never repeated.
    pub epoch: u64,
    /// Within the epoch, the number of steps of the machine's clock, plus the number of times that
    /// the master clock finished catching up after a step.
    pub steps: u64,
}

/// A reading of the master clock: the answer of `sync_clock` (F3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// The time of the reading: nanoseconds since 1970. The *base* of the paper.
    pub now_ns: i64,
    /// The current rate, in billionths of the rate of the machine's monotonic clock. The rate is
    /// one half after the machine's clock was set back, until that clock has caught up. The *rate*
    /// of the paper.
    pub rate_ppb: u64,
    /// The maximum time between the read of the machine's wall clock and the read of its monotonic
    /// clock for this reading.
    pub uncertainty_ns: u64,
    /// The period of constant rate to which the reading belongs.
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
    /// How much faster the machine's wall clock runs than its monotonic clock, in billionths,
    /// measured since the last step of either clock.
    pub drift_ppb: i64,
    /// The jump ahead of the machine's clock that the master clock has not followed, in
    /// nanoseconds; 0 without a jump.
    pub held_ns: u64,
    /// The time by which the machine's clock was ahead of the last run at each start, summed, in
    /// nanoseconds, until an operator confirms the clock. Retention waits for this time.
    pub unconfirmed_ns: u64,
    /// The number of jumps since the start that the master clock did not follow.
    pub jumps_held: u64,
    /// The end of the current lease, in nanoseconds since 1970. The clock issues a later time only
    /// after the next lease is durable.
    pub lease_ns: i64,
    /// Problems for an operator; each text also states the remedy.
    pub alarms: Vec<String>,
}
