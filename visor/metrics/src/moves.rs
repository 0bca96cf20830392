//! Moves of events between the tiers.

use prometheus_client::metrics::counter::Counter;
use stratalog_model::store::MoveKind;

use crate::{
    Histogram, catalogue,
    registrar::{Instrument as _, Registrar},
};

/// Every kind of moves, in the order of the declaration.
const KINDS: [MoveKind; 5] =
    [MoveKind::Flush, MoveKind::Merge, MoveKind::Archive, MoveKind::Retention, MoveKind::Index];

/// The metrics of moves. The default metrics belong to no registry.
#[derive(Debug, Clone)]
pub struct MoveMetrics {
    /// By kind.
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

    /// Records a move that wrote `bytes`.
    pub fn moved(&self, kind: MoveKind, took_ns: i64, bytes: u64) {
        self.took(kind, took_ns);
        if let Some(histogram) = self.bytes.get(kind as usize) {
            histogram.observe(bytes);
        }
    }

    /// Records a failed move.
    pub fn failed(&self, kind: MoveKind, took_ns: i64) {
        self.took(kind, took_ns);
        if let Some(failures) = self.failures.get(kind as usize) {
            failures.inc();
        }
    }

    fn took(&self, kind: MoveKind, took_ns: i64) {
        if let Some(histogram) = self.seconds.get(kind as usize) {
            histogram.observe(u64::try_from(took_ns).unwrap_or(0));
        }
    }
}
