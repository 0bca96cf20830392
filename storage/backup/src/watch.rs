//! How far it is, and whether anybody still wants it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use stratalog_model::{Error, ErrorKind, Result};

/// What the one who works and the one who waits share.
#[derive(Debug, Default)]
pub struct Watch {
    bytes: AtomicU64,
    done: AtomicU64,
    cancelled: AtomicBool,
}

impl Watch {
    /// Bytes of all files, once that is known; 0 before.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the files that are done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Nobody wants it any more: it ends before the next part of a file.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn begin(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// # Errors
    /// `QueryCanceled`.
    pub(crate) fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::new(
                ErrorKind::QueryCanceled,
                "canceling statement due to user request",
            )
            .with_detail("what the backup has stored so far is used by the next one"));
        }
        Ok(())
    }
}
