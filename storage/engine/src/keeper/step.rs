//! What an append does, in its order.

use std::sync::Arc;

use stratalog_model::TickRange;

use super::{chronicle::Chronicle, chunk::Chunk};
use crate::delete::deletion::Deletion;

/// Events that an append takes, or a range that it deletes.
#[derive(Debug)]
pub enum Step<E = Chunk, D = Deletion> {
    /// Events of one chronicle.
    Events(E),
    /// A delete of events before it.
    Delete(D),
}

impl Step<&Chunk, &Deletion> {
    /// The chronicle concerned.
    pub fn chronicle(&self) -> &Arc<Chronicle> {
        match self {
            Step::Events(chunk) => &chunk.reserved.chronicle,
            Step::Delete(deletion) => &deletion.chronicle,
        }
    }
}

/// Ticks whose events an append has deleted: their keys are free for the events that it takes next.
#[derive(Debug, Clone, Copy)]
pub struct Vacated {
    /// The ticks.
    pub ticks: TickRange,
    /// Events of the same append with this arrival number, or a higher one, came after the delete.
    pub before_seq: u64,
}
