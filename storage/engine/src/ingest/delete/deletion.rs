//! A DELETE within an append: the commit frame of the append makes the DELETE count.
//!
//! ```text
//!   Events (n), StatementDelete (n), Events (n + 1) … ─► Transaction n, n + 1
//!      └ deleted         └ fence                └ stay
//! ```
//! The fence is raised between the gsn's of the events before and after the DELETE.

use std::sync::Arc;

use stratalog_model::{Frame, FrameKind, Gsn, SchemaVersion, StatementId, TickRange};

use super::fence::{SurveyedPositions, fence_off, frame};
use crate::{
    ingest::chronicle::{Chronicle, DeleteReservation},
    version::published_versions::PinnedVersion,
};

/// A range of a chronicle deleted by an append.
#[derive(Debug)]
pub struct Deletion {
    /// The chronicle.
    pub chronicle: Arc<Chronicle>,
    /// The ticks.
    pub ticks: TickRange,
    /// Events of the same append with lower arrival numbers came before the DELETE.
    pub before_seq: u64,
    schema_version: SchemaVersion,
    positions: SurveyedPositions,
    /// Keeps merges away from the deleted events.
    _reservation: Option<DeleteReservation>,
}

impl Deletion {
    /// A deletion of the events of `ticks`, at `positions` in the log.
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

    /// The frame that stores the DELETE for a statement.
    pub fn frame(&self, statement: StatementId) -> Frame {
        debug_assert_ne!(statement, StatementId(0), "a delete of a statement commits itself");
        let kind = (FrameKind::StatementDelete, self.schema_version);
        let (ticks, payload) = (self.ticks, self.positions.encode());
        Frame { statement, ticks, payload, ..frame(self.chronicle.id(), kind) }
    }

    /// Hides the events of the range committed at or before `gsn`, the highest committed gsn;
    /// `None` for a dropped chronicle. Only under the publisher's lock.
    pub fn carry_out(&self, gsn: Gsn) -> Option<PinnedVersion> {
        debug_assert!(self.positions.through <= gsn, "the survey saw later commits");
        self.chronicle.version()?;
        let (pinned, _) = fence_off(&self.chronicle, self.ticks, Some(self.positions), gsn);
        Some(pinned)
    }
}
