//! The clock of a run, and the times that the run has measured.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

/// Counts nanoseconds from the beginning of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the beginning of the run.
    pub(crate) fn now(self) -> u64 {
        nanoseconds(self.0.elapsed())
    }
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Measured durations in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<u64>);

impl Samples {
    pub(crate) fn add(&mut self, value: u64) {
        self.0.push(value);
    }

    pub(crate) fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// Adds the median and the 99th percentile to `found`, in milliseconds.
    pub(crate) fn times(&mut self, name: &str, found: &mut Map<String, Value>) {
        self.0.sort_unstable();
        for percent in [50, 99] {
            let at = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
            let value = self.0.get(at).map_or(0.0, |value| *value as f64 / 1e6);
            found.insert(format!("{name}_p{percent}_ms"), json!(value));
        }
    }

    /// As `times`, with the rate per second.
    pub(crate) fn rate(&mut self, name: &str, seconds: f64, found: &mut Map<String, Value>) {
        found.insert(format!("{name}_per_second"), json!(self.0.len() as f64 / seconds));
        self.times(name, found);
    }
}
