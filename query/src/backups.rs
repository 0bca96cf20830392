//! The interface through which CALL makes backups of the database.

use std::fmt;

use stratalog_model::{BoxFuture, Result};

/// Makes backups.
pub trait Backups: Send + Sync + fmt::Debug {
    /// Makes a backup at a URL or path. If the returned future is dropped, the backup stops soon.
    ///
    /// # Errors
    /// `InvalidParameterValue` if the text is no URL or path; `ObjectInUse` while another backup to
    /// the same place runs; `DataCorrupted`, `DiskFull`, `Io`, `ConnectionFailure`.
    fn backup<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<FinishedBackup>>;
}

/// A finished backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedBackup {
    /// The backup's name.
    pub name: String,
    /// The number of the backup's files.
    pub files: u64,
    /// The total size of the backup's files, in bytes.
    pub bytes: u64,
    /// The number of new files, which the destination did not have before.
    pub stored_files: u64,
    /// The total size of the new files, in bytes.
    pub stored_bytes: u64,
}
