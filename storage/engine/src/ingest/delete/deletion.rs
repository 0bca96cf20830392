//! A DELETE within an append: the commit frame of the append makes the DELETE count.
//!
//! ```text
//!   Events (n), StatementDelete (n), Events (n + 1) … ─► Transaction n, n + 1
//!      └ deleted         └ fence                └ stay
//! ```
//! The fence gets a position between the gsn's of the events before the DELETE and the gsn's of the
//! events after it.

use std::sync::Arc;

use stratalog_model::{Frame, FrameKind, Gsn, SchemaVersion, StatementId, TickRange};

use super::fence::{SurveyedPositions, fence_off, frame};
use crate::{
    ingest::chronicle::{Chronicle, DeleteReservation},
    version::published_versions::PinnedVersion,
};

/// A range of ticks that an append deletes from a chronicle.
#[derive(Debug)]
pub struct Deletion {
    /// The chronicle.
    pub chronicle: Arc<Chronicle>,
    /// The deleted ticks.
    pub ticks: TickRange,
    /// Events of the same append with lower arrival numbers came before the DELETE, and are
    /// deleted.
    pub before_seq: u64,
    schema_version: SchemaVersion,
    positions: SurveyedPositions,
    /// Blocks merges with the deleted events until the append ends.
    _reservation: Option<DeleteReservation>,
}

impl Deletion {
    /// A deletion of the events with `ticks`; `positions` are the gsn's of these events at the time
    /// of the DELETE.
    pub fn new(
        chronicle: Arc<Chronicle>,
        ticks: TickRange,
        schema_version: SchemaVersion,
        positions: SurveyedPositions,
        reservation: Option<DeleteReservation>,
    ) -> Self {
        let before_seq = chronicle.next_seq();
        Self { chronicle, ticks, before_seq, schema_version, positions, _reservation: reservation }
    }

    /// The journal frame of the DELETE, as part of a statement.
    pub fn frame(&self, statement: StatementId) -> Frame {
        debug_assert_ne!(statement, StatementId(0), "a delete of a statement commits itself");
        let kind = (FrameKind::StatementDelete, self.schema_version);
        let (ticks, payload) = (self.ticks, self.positions.encode());
        Frame { statement, ticks, payload, ..frame(self.chronicle.id(), kind) }
    }

    /// Raises the fence: hides the events of the range with a gsn up to `gsn`, the highest
    /// committed gsn. Returns the version before the delete and the fence; `None` for a dropped
    /// chronicle. Call only under the publisher's lock.
    pub fn carry_out(&self, gsn: Gsn) -> Option<PinnedVersion> {
        debug_assert!(self.positions.through <= gsn, "the survey saw later commits");
        self.chronicle.version()?;
        let (pinned, _) = fence_off(&self.chronicle, self.ticks, Some(self.positions), gsn);
        Some(pinned)
    }
}
