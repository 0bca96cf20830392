//! The progress of a COPY, for `pg_stat_progress_copy`.

use std::sync::atomic::{AtomicU64, Ordering};

use stratalog_model::ChronicleId;

/// The progress of a COPY. The tasks of the COPY update the counts; other sessions read the counts.
#[derive(Debug)]
pub struct CopyProgress {
    command: &'static str,
    table: Option<ChronicleId>,
    bytes: AtomicU64,
    rows: AtomicU64,
    excluded: AtomicU64,
}

impl CopyProgress {
    pub(crate) fn new(command: &'static str, table: Option<ChronicleId>) -> Self {
        let [bytes, rows, excluded] = [0, 0, 0].map(AtomicU64::new);
        Self { command, table, bytes, rows, excluded }
    }

    /// `COPY FROM` or `COPY TO`.
    pub fn command(&self) -> &'static str {
        self.command
    }

    /// The table of the COPY; `None` for COPY of a query.
    pub fn table(&self) -> Option<ChronicleId> {
        self.table
    }

    /// Adds to the number of received or sent bytes.
    pub fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Adds to the number of accepted or sent rows.
    pub fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Sets the number of input rows that the COPY has skipped so far.
    pub fn set_excluded(&self, rows: u64) {
        self.excluded.store(rows, Ordering::Relaxed);
    }

    /// The numbers of bytes, rows, and excluded rows.
    pub fn counts(&self) -> (u64, u64, u64) {
        let [bytes, rows, excluded] =
            [&self.bytes, &self.rows, &self.excluded].map(|count| count.load(Ordering::Relaxed));
        (bytes, rows, excluded)
    }
}
