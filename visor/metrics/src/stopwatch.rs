//! Durations for histograms.

use std::time::{Duration, Instant};

/// Measures a duration. Histograms tell nothing about the time of events: a clock of the database
/// is not necessary.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "a duration for an operator, not a time to keep")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
