//! The metrics of moves of events between the tiers.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use stratalog_model::store::MoveKind;

use crate::{
    Histogram, catalogue,
    registrar::{Instrument as _, Registrar},
};

/// Every kind of moves, in the order of the declaration.
const KINDS: [MoveKind; 5] =
    [MoveKind::Flush, MoveKind::Merge, MoveKind::Archive, MoveKind::Retention, MoveKind::Index];

/// The metrics of moves. If made by `default`, they are not part of any registry, and appear on no
/// page.
#[derive(Debug, Clone)]
pub struct MoveMetrics {
    /// Durations, by kind of move.
    seconds: Vec<Histogram>,
    bytes: Vec<Histogram>,
    failures: Vec<Counter>,
}

impl Default for MoveMetrics {
    fn default() -> Self {
        Self {
            seconds: KINDS.map(|_| Histogram::of(&catalogue::MOVE_SECONDS)).into(),
            bytes: KINDS.map(|_| Histogram::of(&catalogue::MOVED_BYTES)).into(),
            failures: KINDS.map(|_| Counter::default()).into(),
        }
    }
}

impl MoveMetrics {
    pub(crate) fn register(registrar: &mut Registrar) -> Self {
        let kinds = || KINDS.map(|kind| [kind.to_string()]);
        Self {
            seconds: registrar.each(&catalogue::MOVE_SECONDS, kinds()),
            bytes: registrar.each(&catalogue::MOVED_BYTES, kinds()),
            failures: registrar.each(&catalogue::MOVE_FAILURES, kinds()),
        }
    }

    /// Records a successful move that took the time `took` and wrote `bytes` bytes.
    pub fn moved(&self, kind: MoveKind, took: Duration, bytes: u64) {
        self.observe_duration(kind, took);
        if let Some(histogram) = self.bytes.get(kind as usize) {
            histogram.observe(bytes);
        }
    }

    /// Records a failed move that took the time `took`.
    pub fn failed(&self, kind: MoveKind, took: Duration) {
        self.observe_duration(kind, took);
        if let Some(failures) = self.failures.get(kind as usize) {
            failures.inc();
        }
    }

    fn observe_duration(&self, kind: MoveKind, took: Duration) {
        if let Some(histogram) = self.seconds.get(kind as usize) {
            histogram.observe_duration(took);
        }
    }
}
