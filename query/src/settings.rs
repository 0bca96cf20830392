//! Settings of the query service.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Limits and defaults that hold for every session; plain values, no behaviour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuerySettings {
    /// Bytes that all running statements may hold together before they spill or fail (53200).
    pub memory_bytes_max: usize,
    /// Directory for spilled intermediate results; `None` never spills, and a statement
    /// that would need to fails with 53200.
    pub spill_directory: Option<PathBuf>,
    /// Bytes that spilled intermediate results may take on disk together (53100).
    pub spill_bytes_max: u64,
    /// Bytes of one SQL string (54000).
    pub statement_bytes_max: usize,
    /// Statements that one session keeps prepared with PREPARE (54000).
    pub prepared_statements_max: usize,
    /// Default of `statement_timeout` in milliseconds; 0 means none.
    pub statement_timeout_ms: u64,
    /// Threads that one statement may use at a time.
    pub parallel_streams_max: usize,
    /// Rows of one batch, at most.
    pub batch_rows_max: usize,
    /// Sessions at a time (53300).
    pub sessions_max: usize,
}

impl Default for QuerySettings {
    fn default() -> Self {
        Self {
            memory_bytes_max: 1 << 30,
            spill_directory: None,
            spill_bytes_max: 16 << 30,
            statement_bytes_max: 16 << 20,
            prepared_statements_max: 1000,
            statement_timeout_ms: 0,
            parallel_streams_max: std::thread::available_parallelism().map_or(1, usize::from),
            batch_rows_max: 8192,
            sessions_max: 500,
        }
    }
}
