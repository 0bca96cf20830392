//! How far a COPY has come, for `pg_stat_progress_copy`.

use std::sync::atomic::{AtomicU64, Ordering};

use stratalog_model::ChronicleId;

/// How far one COPY has come. Those who carry it out count; others look.
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

    /// The table; `None` for a query.
    pub fn table(&self) -> Option<ChronicleId> {
        self.table
    }

    /// Counts bytes of data that came in or went out.
    pub fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts rows that were taken or sent.
    pub fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// How many rows are left out so far.
    pub fn set_excluded(&self, rows: u64) {
        self.excluded.store(rows, Ordering::Relaxed);
    }

    /// Bytes, rows, and rows that were left out.
    pub fn counts(&self) -> (u64, u64, u64) {
        let [bytes, rows, excluded] =
            [&self.bytes, &self.rows, &self.excluded].map(|count| count.load(Ordering::Relaxed));
        (bytes, rows, excluded)
    }
}
