//! Ticks that an append has deleted.

use stratalog_model::TickRange;

/// A range of ticks that an append has deleted: later events of the same append may reuse the keys.
#[derive(Debug, Clone, Copy)]
pub struct VacatedTicks {
    /// The ticks.
    pub ticks: TickRange,
    /// Of the events of the same append, only those with arrival numbers below this number are
    /// deleted.
    pub before_seq: u64,
}
