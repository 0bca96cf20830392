//! The steps of an append.

use std::sync::Arc;

use super::{chronicle::Chronicle, chunk::Chunk};
use crate::ingest::delete::deletion::Deletion;

/// A step of an append: events to store, or a range to delete.
#[derive(Debug)]
pub enum Step<E = Chunk, D = Deletion> {
    /// Events of one chronicle.
    Events(E),
    /// A delete of earlier events of one chronicle.
    Delete(D),
}

impl Step<&Chunk, &Deletion> {
    /// The chronicle of the step.
    pub fn chronicle(&self) -> &Arc<Chronicle> {
        match self {
            Step::Events(chunk) => &chunk.reserved.chronicle,
            Step::Delete(deletion) => &deletion.chronicle,
        }
    }
}
