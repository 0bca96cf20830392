//! A DELETE that an append has taken: logged and made visible with the append, or not at all.
//!
//! ```text
//!   Events (n), StatementDelete (n), Events (n + 1) … ─► Transaction n, n + 1
//!      └ deleted, too    └ fence                └ stay
//! ```
//! The fence is raised between the gsn's of the events before and after the DELETE.

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, Frame, FrameKind, Gsn, Result, SchemaVersion, StatementId, TickRange,
};

use super::{Known, fence_off, frame};
use crate::{engine::Core, keeper::chronicle::Chronicle, version::published::Pinned};

/// A range of a chronicle that an append deletes.
#[derive(Debug)]
pub struct Deletion {
    /// The chronicle.
    pub chronicle: Arc<Chronicle>,
    /// The ticks.
    pub ticks: TickRange,
    /// Events of the same append with lower arrival numbers were taken before the DELETE.
    pub before_seq: u64,
    schema_version: SchemaVersion,
    known: Known,
}

impl Deletion {
    /// Looks where the events of `ticks` are.
    ///
    /// # Errors
    /// `UndefinedTable` after the chronicle was dropped; those of pieces that must be read.
    pub async fn new(
        core: &Core,
        definition: &ChronicleDefinition,
        ticks: TickRange,
    ) -> Result<Self> {
        let chronicle = core.chronicle(definition)?;
        let known = Known::now(core, definition.id, ticks).await?;
        let before_seq = chronicle.next_seq();
        let schema_version = definition.schema_version;
        Ok(Self { chronicle, ticks, before_seq, schema_version, known })
    }

    /// The frame that stores the DELETE, of a statement.
    pub fn frame(&self, statement: StatementId) -> Frame {
        Frame {
            schema_version: self.schema_version,
            statement,
            ticks: self.ticks,
            payload: self.known.encode(),
            ..frame(self.chronicle.id(), FrameKind::StatementDelete)
        }
    }

    /// Hides the events of the range that are committed at or before `gsn`, the highest that is
    /// committed; `None` when the chronicle was dropped. Only under the publisher's lock.
    pub fn carry_out(&self, gsn: Gsn) -> Option<Pinned> {
        self.chronicle.version()?;
        let (pinned, _) = fence_off(&self.chronicle, self.ticks, Some(self.known), gsn);
        Some(pinned)
    }
}
