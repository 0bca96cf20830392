//! Settings of the engine.

use serde::{Deserialize, Serialize};
use stratalog_model::Tiering;

/// What an operator may set. Plain numbers; the server reads them from its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// Budget for all events in memory, their indexes and what uncommitted statements hold,
    /// in bytes. An append over it fails with `OutOfMemory` (CL-10); nothing else does.
    pub memory_bytes_max: u64,
    /// Largest payload of a frame, in bytes; larger pushes are split. A single event may
    /// exceed it, up to what the log takes.
    pub frame_bytes_max: usize,
    /// Producers whose last sequence is remembered (F68). The one that has been silent for
    /// longest is forgotten first.
    pub producers_max: usize,
    /// Neighbouring small batches that are merged into one, at least.
    pub compaction_fan_in: usize,
    /// Rows from which a batch is no longer merged with its neighbours; fewer of more than 128 bytes.
    pub compaction_rows_max: usize,
    /// Budget for events in memory that have left the journal, in bytes; 0 keeps none (F29).
    pub backlog_bytes_max: u64,
    /// Percentage of the memory budget from which on events become tablets.
    pub move_from_percent: u64,
    /// Bytes of the journal from which on events become tablets, so that it can begin later.
    pub journal_bytes_high: u64,
    /// Bytes of batches that become tablets at a time, about; as much again is needed meanwhile.
    pub move_bytes: u64,
    /// Bytes that merges and stories write in a second at most; 0 for no limit. What appends
    /// wait for is not held up.
    pub move_bytes_per_second_max: u64,
    /// Events of a tablet, at most.
    pub tablet_rows_max: usize,
    /// Events of a block of a tablet, at most.
    pub block_rows_max: usize,
    /// Bytes of a block before it is packed, about.
    pub block_bytes: usize,
    /// Events of a row group of a story, about: what is in memory when it is made or read.
    pub slice_rows_max: usize,
    /// Bytes of such events, about; fewer events are in a row group where they are wide.
    pub slice_bytes_max: usize,
    /// Events that a cell of a story is to stand for: one series in one window of time (F86).
    pub cell_rows: usize,
    /// Events in the journal and in tablets from which on they become a story (F35).
    pub story_rows_max: u64,
    /// Bytes in the journal, packed about, and in tablets from which on they become a story (F35).
    pub story_bytes_max: u64,
    /// Milliseconds after their commit at which events become a story (F35); a few rows wait longer.
    pub story_age_max_ms: u64,
}

impl EngineSettings {
    /// These, with what a chronicle's options say.
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
