//! A DELETE within an append: the commit frame of the append makes the DELETE count.
//!
//! ```text
//!   Events (n), StatementDelete (n), Events (n + 1) … ─► Transaction n, n + 1
//!      └ deleted         └ fence                └ stay
//! ```
//! The fence is raised between the gsn's of the events before and after the DELETE.

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, Frame, FrameKind, Gsn, Result, SchemaVersion, StatementId, TickRange,
};

use super::{SurveyedPositions, fence_off, frame};
use crate::{
    engine::Core,
    ingest::{
        chronicle::{Chronicle, DeleteReservation},
        outcome::Outcome,
    },
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
    /// A deletion of the events of `ticks`, with the positions of these events in the log.
    ///
    /// # Errors
    /// `UndefinedTable` after the chronicle was dropped; `DataCorrupted`, `Io`, `ConnectionFailure`
    /// when pieces cannot be read; `DeadlockDetected` when a merge of these ticks waits for the
    /// append.
    pub async fn new(
        core: &Core,
        definition: &ChronicleDefinition,
        ticks: TickRange,
        outcome: &Arc<Outcome>,
    ) -> Result<Self> {
        let chronicle = core.chronicle(definition)?;
        let reservation = chronicle.reserve_delete(ticks, outcome, &core.wait_graph).await?;
        let positions = SurveyedPositions::now(core, definition.id, ticks).await?;
        let before_seq = chronicle.next_seq();
        let schema_version = definition.schema_version;
        Ok(Self {
            chronicle,
            ticks,
            before_seq,
            schema_version,
            positions,
            _reservation: reservation,
        })
    }

    /// The frame that stores the DELETE for a statement.
    pub fn frame(&self, statement: StatementId) -> Frame {
        let kind = (FrameKind::StatementDelete, self.schema_version);
        let (ticks, payload) = (self.ticks, self.positions.encode());
        Frame { statement, ticks, payload, ..frame(self.chronicle.id(), kind) }
    }

    /// Hides the events of the range committed at or before `gsn`, the highest committed gsn;
    /// `None` for a dropped chronicle. Only under the publisher's lock.
    pub fn carry_out(&self, gsn: Gsn) -> Option<PinnedVersion> {
        self.chronicle.version()?;
        let (pinned, _) = fence_off(&self.chronicle, self.ticks, Some(self.positions), gsn);
        Some(pinned)
    }
}
