//! Descriptions of a story: for the manifest, of its row groups, and of its annexes.

use std::ops::Range;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stratalog_model::{ChronicleId, SchemaVersion, Tick, TickRange};

use crate::shelf::{StoryId, StoryName};

/// The summary of a row group. All values are exact.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupSummary {
    /// Events, at least one.
    pub rows: u64,
    /// Lowest and highest tick.
    pub ticks: (i64, i64),
    /// Lowest and highest gsn.
    pub gsns: (u64, u64),
    /// Keys of the first and the last event, as the builder's caller encodes them.
    pub keys: (Bytes, Bytes),
}

impl GroupSummary {
    /// The smallest range around the ticks.
    pub fn hull(&self) -> TickRange {
        TickRange::new(Tick(self.ticks.0), Tick(self.ticks.1).next())
    }
}

/// The manifest's description of a complete story. Readers compare the file with this description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltStory {
    /// Number of the story.
    pub id: StoryId,
    /// Chronicle of the events.
    pub chronicle: ChronicleId,
    /// Schema version of the events.
    pub schema_version: SchemaVersion,
    /// Length of the file.
    pub bytes: u64,
    /// File offset where the rows end, and page index, footer and block checksums begin.
    pub tail_at: u64,
    /// Number of events.
    pub rows: u64,
    /// Number of row groups.
    pub groups: u32,
    /// Lowest and highest tick.
    pub ticks: (i64, i64),
    /// Lowest and highest gsn.
    pub gsns: (u64, u64),
    /// CRC32C of the bytes from `tail_at` on. These bytes contain the checksums of all earlier
    /// bytes.
    pub checksum: u32,
}

impl BuiltStory {
    /// The name of the story on its shelf.
    pub fn name(&self) -> StoryName {
        StoryName { chronicle: self.chronicle, id: self.id }
    }

    /// The smallest range around the ticks.
    pub fn hull(&self) -> TickRange {
        TickRange::new(Tick(self.ticks.0), Tick(self.ticks.1).next())
    }
}

/// Where an annex is in the file of its story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnnexPlace {
    /// File offset.
    pub(crate) at: u64,
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// Length of the footer at the end of the annex.
    pub(crate) footer_bytes: u64,
}

impl AnnexPlace {
    /// Whether the annex ends at or before the offset `end`, and is at least as long as its footer.
    pub(crate) fn is_before(&self, end: u64) -> bool {
        self.at.checked_add(self.bytes).is_some_and(|own| own <= end)
            && self.footer_bytes <= self.bytes
    }

    pub(crate) fn range(&self) -> Range<u64> {
        debug_assert!(self.at.checked_add(self.bytes).is_some(), "the annex ends nowhere");
        self.at..self.at.saturating_add(self.bytes)
    }
}

/// Where the cells are in the file of a story, and how they were built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CellsPlace {
    #[serde(flatten)]
    pub(crate) annex: AnnexPlace,
    /// The value of [`crate::StorySettings::cell_rows`] when the story was written.
    pub(crate) cell_rows: usize,
    /// Version of the columns of the cells: [`crate::cells::LAYOUT`].
    pub(crate) layout: u32,
}
