//! The metrics of a running statement.

use stratalog_metrics::{QueryMetrics, StatementClass, Stopwatch};
use stratalog_model::Error;

/// Measures a statement from the start of its execution to its last row. A drop records the
/// duration.
#[derive(Debug)]
pub(crate) struct Measurement {
    metrics: Option<QueryMetrics>,
    class: StatementClass,
    stopwatch: Stopwatch,
    /// Number of result rows; `None` for a statement without rows.
    rows: Option<u64>,
}

impl Measurement {
    /// Starts a measurement now.
    pub(crate) fn start(metrics: &QueryMetrics, class: StatementClass) -> Self {
        let metrics = Some(metrics.clone());
        Self { metrics, class, stopwatch: Stopwatch::start(), rows: None }
    }

    /// Adds to the number of result rows.
    pub(crate) fn add_rows(&mut self, rows: u64) {
        self.rows = Some(self.rows.unwrap_or(0).saturating_add(rows));
    }

    /// Records that the statement failed with `error`.
    pub(crate) fn fail(self, error: &Error) {
        if let Some(metrics) = &self.metrics {
            metrics.failed(error.kind());
        }
    }

    /// Ends the measurement without recording anything.
    pub(crate) fn discard(mut self) {
        self.metrics = None;
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        let Some(metrics) = &self.metrics else { return };
        metrics.executed(self.class, self.stopwatch);
        if let Some(rows) = self.rows {
            metrics.returned(rows);
        }
    }
}
