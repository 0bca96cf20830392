//! What `CALL stratalog.check()` asks for, and from whom.

use std::fmt;

use futures::future::BoxFuture;
use stratalog_model::Result;

/// Looks at everything that is kept, while it is in use. Whoever has the files does that.
pub trait Inspector: Send + Sync + fmt::Debug {
    /// Verifies every checksum and every count of what is visible now. Ends soon when the
    /// returned future is dropped.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure` when it cannot be looked at; what is damaged is a row.
    fn inspect(&self) -> BoxFuture<'static, Result<Vec<Inspected>>>;
}

/// One part that was looked at, or one thing that is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspected {
    /// Kind of file: `journal`, `tablets` and the like.
    pub part: String,
    /// The file or folder.
    pub path: String,
    /// The table concerned.
    pub table_name: Option<String>,
    /// Events: those of the part, or those concerned.
    pub rows: Option<u64>,
    /// Bytes, likewise.
    pub bytes: Option<u64>,
    /// `sound`, `warning`, `unchecked` or `damaged`.
    pub state: String,
    /// Counts, or what is wrong and what mends it.
    pub detail: String,
}
