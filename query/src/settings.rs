//! Settings of the query service.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stratalog_visor_core::access::ITERATIONS_DEFAULT;

/// Limits and defaults of every session; plain values without behaviour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuerySettings {
    /// The memory budget of all running statements in bytes; beyond the budget, statements spill or
    /// fail (53200).
    pub memory_bytes_max: usize,
    /// Directory for spilled intermediate results; with `None` no statement spills, and a statement
    /// beyond the memory budget fails with 53200.
    pub spill_directory: Option<PathBuf>,
    /// The maximum disk space of all spilled intermediate results in bytes (53100).
    pub spill_bytes_max: u64,
    /// The maximum length of an SQL string in bytes (54000).
    pub statement_bytes_max: usize,
    /// The maximum number of statements prepared with PREPARE in a session (54000).
    pub prepared_statements_max: usize,
    /// Default of `statement_timeout` in milliseconds; 0 means no timeout.
    pub statement_timeout_ms: u64,
    /// The maximum number of threads of one statement.
    pub parallel_streams_max: usize,
    /// The maximum number of rows in one batch.
    pub batch_rows_max: usize,
    /// The maximum number of sessions at a time (53300).
    pub sessions_max: usize,
    /// The retention time of audit records in milliseconds; `None` for no end.
    pub audit_retention_ms: Option<u64>,
    /// The number of iterations in the verifiers of new passwords: 4096 to 10 million.
    pub scram_iterations: u32,
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
            audit_retention_ms: None,
            scram_iterations: ITERATIONS_DEFAULT,
        }
    }
}
