//! Ticks that an append has deleted.

use stratalog_model::TickRange;

/// Ticks of events deleted by an append: later events of the append may reuse the keys.
#[derive(Debug, Clone, Copy)]
pub struct VacatedTicks {
    /// The ticks.
    pub ticks: TickRange,
    /// Events of the append from this arrival number onward came after the delete.
    pub before_seq: u64,
}
