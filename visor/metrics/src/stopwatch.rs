//! Measures durations for histograms.

use std::time::{Duration, Instant};

/// Measures a duration by the machine's monotonic clock. The database's master clock is not used,
/// because it supplies the times of events.
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
