//! The interface behind `CALL stratalog.check()`.

use std::fmt;

use futures::future::BoxFuture;
use stratalog_model::Result;

/// Inspects all stored data while the database is in use. The owner of the files implements the
/// trait.
pub trait Inspector: Send + Sync + fmt::Debug {
    /// Verifies every checksum and every count of the data visible now. The work ends soon after
    /// the returned future is dropped.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure` if a read fails; damage is no error but a row.
    fn inspect(&self) -> BoxFuture<'static, Result<Vec<InspectionResult>>>;
}

/// One inspected part, or one fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InspectionResult {
    /// Kind of file: `journal`, `tablets` and the like.
    pub part: String,
    /// The file or folder.
    pub path: String,
    /// The affected table.
    pub table_name: Option<String>,
    /// The number of events of the part, or of affected events.
    pub rows: Option<u64>,
    /// The size of the part or of the affected data, in bytes.
    pub bytes: Option<u64>,
    /// `sound`, `warning`, `unchecked` or `damaged`.
    pub state: String,
    /// Counts, or the fault and its repair.
    pub detail: String,
}
