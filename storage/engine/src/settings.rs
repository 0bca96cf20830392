//! Settings of the engine.

use serde::{Deserialize, Serialize};
use stratalog_model::Tiering;

/// The operator's settings, as plain numbers. The server reads them from its configuration.
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
    /// Number of idempotent producers whose last statement number is remembered (F68). The producer
    /// whose last commit is the oldest is forgotten first.
    pub producers_max: usize,
    /// Minimum number of small adjacent batches for one merge in memory.
    pub compaction_fan_in: usize,
    /// A batch with at least this number of rows is not merged with other batches. For batches
    /// whose rows exceed 128 bytes, fewer rows are enough.
    pub compaction_rows_max: usize,
    /// Memory budget in bytes for events that have left the journal but also stay in memory; 0
    /// keeps none (F29).
    pub backlog_bytes_max: u64,
    /// Events move into tablets once this percentage of the memory budget is in use.
    pub move_from_percent: u64,
    /// Events move into tablets once the journal has this number of bytes, so that the journal can
    /// free segments.
    pub journal_bytes_high: u64,
    /// Approximate bytes of batches in one move into tablets; the move needs the same memory again.
    pub move_bytes: u64,
    /// Limit of the writes of merges and stories, in bytes per second; 0 for no limit. Moves for
    /// which appends wait have no limit.
    pub move_bytes_per_second_max: u64,
    /// Maximum number of events in a tablet.
    pub tablet_rows_max: usize,
    /// Maximum number of events in a block of a tablet.
    pub block_rows_max: usize,
    /// Approximate bytes of a block before compression.
    pub block_bytes: usize,
    /// Approximate number of events of a row group of a story, which is the unit in memory during a
    /// write or a read.
    pub slice_rows_max: usize,
    /// Approximate bytes of the events of a row group. If events are wide, a row group has fewer
    /// events.
    pub slice_bytes_max: usize,
    /// Intended number of events per cell of a story. A cell has the aggregates of one series in
    /// one window of time (F86).
    pub cell_rows: usize,
    /// Number of events in the journal and in tablets at which they move into a story (F35).
    pub story_rows_max: u64,
    /// Bytes of events in the journal (estimated after compression) and in tablets at which they
    /// move into a story (F35).
    pub story_bytes_max: u64,
    /// Age of events after their commit, in milliseconds, at which they move into a story (F35). A
    /// few rows wait longer.
    pub story_age_max_ms: u64,
}

impl EngineSettings {
    /// The settings for one chronicle: the options of the chronicle override the settings of the
    /// engine.
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
