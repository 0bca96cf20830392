//! Progress and cancellation of a running backup or restore.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use stratalog_model::{Error, ErrorKind, Result};

/// State shared by the copying task and the waiting caller.
#[derive(Debug, Default)]
pub struct Watch {
    bytes: AtomicU64,
    done: AtomicU64,
    cancelled: AtomicBool,
}

impl Watch {
    /// Total bytes of all files; 0 until the total is known.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the files copied so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Cancels the copy. The copy stops before it reads the next part of a file.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn begin(&self, bytes: u64) {
        debug_assert_eq!(self.done(), 0, "the work begins twice");
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn advance(&self, bytes: u64) {
        let before = self.done.fetch_add(bytes, Ordering::Relaxed);
        debug_assert!(
            before.saturating_add(bytes) <= self.bytes(),
            "more bytes are done than the work has"
        );
    }

    /// # Errors
    /// `QueryCanceled`.
    pub(crate) fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::new(
                ErrorKind::QueryCanceled,
                "canceling statement due to user request",
            )
            .with_detail("the next backup uses the files stored by this backup"));
        }
        Ok(())
    }
}
