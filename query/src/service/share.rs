//! The memory account of one statement or one client.
//!
//! The server has one memory budget, `query_memory_bytes_max`, for operators, values of
//! expressions, texts and plans of statements, and messages of clients. A share can grow to at most
//! half of the memory that other users of the budget leave: a large request fails, and the next
//! small request succeeds (CL-10).

use std::sync::{Arc, OnceLock};

use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_postgres::errors::from_datafusion;

/// The memory that one statement or client has taken from the budget.
#[derive(Debug)]
pub struct Share {
    what: &'static str,
    pool: Arc<dyn MemoryPool>,
    /// Created by the first request: most statements and clients need no significant memory.
    reservation: OnceLock<MemoryReservation>,
}

/// A number of bytes in a share; a drop returns the bytes to the budget.
#[derive(Debug)]
pub struct ShareReservation {
    share: Arc<Share>,
    bytes: usize,
}

impl Share {
    /// An empty share; `what` describes the share in error messages.
    pub(crate) fn new(what: &'static str, pool: &Arc<dyn MemoryPool>) -> Arc<Self> {
        Arc::new(Self { what, pool: Arc::clone(pool), reservation: OnceLock::new() })
    }

    fn reservation(&self) -> &MemoryReservation {
        let register = || MemoryConsumer::new(self.what).register(&self.pool);
        self.reservation.get_or_init(register)
    }

    /// Takes bytes from the budget.
    ///
    /// # Errors
    /// `OutOfMemory`; after an error the share is unchanged.
    pub fn grow(&self, bytes: usize) -> Result<()> {
        let own = self.reservation();
        if let MemoryLimit::Finite(limit) = self.pool.memory_limit() {
            let others = self.pool.reserved().saturating_sub(own.size());
            let most = limit.saturating_sub(others) / 2;
            if own.size().saturating_add(bytes) > most {
                let detail = format!(
                    "{}: {} bytes are in use and {bytes} more are needed, of at most {most}",
                    self.what,
                    own.size(),
                );
                return Err(Error::new(ErrorKind::OutOfMemory, "out of memory")
                    .with_detail(detail)
                    .with_hint(
                        "raise query_memory_bytes_max, or process fewer rows in one statement",
                    ));
            }
        }
        own.try_grow(bytes).map_err(from_datafusion)
    }

    /// The number of bytes in the share.
    pub fn size(&self) -> usize {
        self.reservation.get().map_or(0, MemoryReservation::size)
    }

    /// Returns bytes to the budget.
    pub fn shrink(&self, bytes: usize) {
        self.reservation().shrink(bytes);
    }

    /// Takes bytes from the budget; a drop of the result returns the bytes.
    ///
    /// # Errors
    /// As [`Self::grow`].
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Result<ShareReservation> {
        self.grow(bytes)?;
        Ok(ShareReservation { share: Arc::clone(self), bytes })
    }
}

impl ShareReservation {
    /// Changes the reservation to `bytes`.
    ///
    /// # Errors
    /// As [`Share::grow`].
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.share.grow(more)?,
            None => self.share.shrink(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for ShareReservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.share.shrink(self.bytes);
        }
    }
}

/// The assumed number of copies of the text in the syntax tree and the plan.
const COPIES: usize = 4;

/// Assumed bytes of tree and plan nodes for each byte of SQL outside of literals.
const NODE_BYTES: usize = 128;

/// Estimates the memory of a statement from its text, in bytes. The factors come from measurements.
/// The estimate is an upper bound, except for rows of very short values.
pub(crate) fn statement_bytes(text: &str) -> usize {
    let mut quoted = false;
    let mut bytes = text.len().saturating_mul(COPIES);
    for byte in text.bytes() {
        if byte == b'\'' {
            quoted = !quoted;
        } else if !quoted {
            bytes = bytes.saturating_add(NODE_BYTES);
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
