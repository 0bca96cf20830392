//! The interface behind `CALL stratalog.check()`.

use std::fmt;

use futures::future::BoxFuture;
use stratalog_model::Result;

/// Checks all stored data while the database is in use. The owner of the files implements the
/// trait.
pub trait Inspector: Send + Sync + fmt::Debug {
    /// Verifies every checksum and every count of the data visible now. If the returned future is
    /// dropped, the check stops soon.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure` if a read fails. Damaged data is not an error, but a result.
    fn inspect(&self) -> BoxFuture<'static, Result<Vec<InspectionResult>>>;
}

/// One row of the result: a checked group of files, or a fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InspectionResult {
    /// Kind of file: `journal`, `tablets` and the like.
    pub part: String,
    /// The file or folder.
    pub path: String,
    /// The affected table.
    pub table_name: Option<String>,
    /// The number of events in the checked files, or the number of affected events.
    pub rows: Option<u64>,
    /// The size of the checked files or of the affected data, in bytes.
    pub bytes: Option<u64>,
    /// `sound`, `warning`, `unchecked` or `damaged`.
    pub state: String,
    /// Counts, or the fault and its repair.
    pub detail: String,
}
