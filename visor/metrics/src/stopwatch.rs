//! Measures durations for histograms.

use std::time::{Duration, Instant};

/// Measures a duration by the monotonic clock of the machine. A duration does not need the
/// database's clock, which tells the time of events.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts a stopwatch.
    #[expect(clippy::disallowed_methods, reason = "a duration for an operator, not a time to keep")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
