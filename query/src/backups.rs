//! What makes backups of the database behind a service, as CALL sees it.

use std::fmt;

use stratalog_model::{BoxFuture, Result};

/// Makes backups.
pub trait Backups: Send + Sync + fmt::Debug {
    /// Makes one in the place of a URL or path; it ends soon after the returned future is dropped.
    ///
    /// # Errors
    /// `InvalidParameterValue` for another text; `ObjectInUse` while another one is made there;
    /// `DataCorrupted`, `DiskFull`, `Io`, `ConnectionFailure`.
    fn backup<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<BackedUp>>;
}

/// A backup that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackedUp {
    /// Its name.
    pub name: String,
    /// Files in it.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Files that the place did not have before.
    pub stored_files: u64,
    /// Bytes of these.
    pub stored_bytes: u64,
}
