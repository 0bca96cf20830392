//! Settings of the engine.

use serde::{Deserialize, Serialize};
use stratalog_model::Tiering;

/// The operator's settings: plain numbers. The server reads the settings from the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// Budget in bytes for all events in memory, for the indexes of these events, and for the
    /// memory of uncommitted statements. An append beyond the budget fails with `OutOfMemory`
    /// (CL-10); no other operation does.
    pub memory_bytes_max: u64,
    /// Largest payload of a frame, in bytes; larger pushes are split. A single event may exceed
    /// this size, up to the limit of the log.
    pub frame_bytes_max: usize,
    /// Producers whose last sequence is remembered (F68). The producer with the longest silence is
    /// forgotten first.
    pub producers_max: usize,
    /// Least number of neighbouring small batches for one merge.
    pub compaction_fan_in: usize,
    /// Rows from which a batch is no longer merged with its neighbours; rows of more than 128 bytes
    /// lower the number.
    pub compaction_rows_max: usize,
    /// Budget for events in memory that have left the journal, in bytes; 0 keeps none (F29).
    pub backlog_bytes_max: u64,
    /// Percentage of the memory budget from which events move into tablets.
    pub move_from_percent: u64,
    /// Bytes of the journal from which events move into tablets, to let the journal begin later.
    pub journal_bytes_high: u64,
    /// Approximate bytes of batches in one move into tablets; the move needs the same memory again.
    pub move_bytes: u64,
    /// Limit of merges and stories, in written bytes per second; 0 for no limit. Moves for waiting
    /// appends have no limit.
    pub move_bytes_per_second_max: u64,
    /// Maximum number of events in a tablet.
    pub tablet_rows_max: usize,
    /// Maximum number of events in a block of a tablet.
    pub block_rows_max: usize,
    /// Approximate bytes of a block before compression.
    pub block_bytes: usize,
    /// Approximate events of a row group of a story: the unit in memory during a write or a read.
    pub slice_rows_max: usize,
    /// Approximate bytes of the events of a row group; wide events make a row group of fewer
    /// events.
    pub slice_bytes_max: usize,
    /// Intended number of events for each cell of a story: one series in one window of time (F86).
    pub cell_rows: usize,
    /// Events in the journal and in tablets before a move into a story (F35).
    pub story_rows_max: u64,
    /// Bytes in the journal (approximate compressed size) and in tablets from which the events move
    /// into a story (F35).
    pub story_bytes_max: u64,
    /// Age of events, in milliseconds after their commit, from which they move into a story (F35);
    /// a few rows wait longer.
    pub story_age_max_ms: u64,
}

impl EngineSettings {
    /// The settings for a chronicle: the chronicle's options override the engine's settings.
    #[must_use]
    pub fn for_chronicle(&self, tiering: &Tiering) -> Self {
        Self {
            story_rows_max: tiering.story_rows_max.unwrap_or(self.story_rows_max),
            story_bytes_max: tiering.story_bytes_max.unwrap_or(self.story_bytes_max),
            story_age_max_ms: tiering.story_age_max_ms.unwrap_or(self.story_age_max_ms),
            ..self.clone()
        }
    }
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            memory_bytes_max: 1 << 30,
            frame_bytes_max: 4 << 20,
            producers_max: 100_000,
            compaction_fan_in: 32,
            compaction_rows_max: 2048,
            backlog_bytes_max: 128 << 20,
            move_from_percent: 40,
            journal_bytes_high: 2 << 30,
            move_bytes: 64 << 20,
            move_bytes_per_second_max: 0,
            tablet_rows_max: 1 << 18,
            block_rows_max: 8192,
            block_bytes: 2 << 20,
            slice_rows_max: 1 << 19,
            slice_bytes_max: 128 << 20,
            cell_rows: 240,
            story_rows_max: 4 << 20,
            story_bytes_max: 256 << 20,
            story_age_max_ms: 60 * 60 * 1000,
        }
    }
}
