//! The part of the memory budget that one statement or one client holds.
//!
//! One budget counts for the whole server, `query_memory_bytes_max`: operators, values of
//! expressions, texts and plans of statements, messages of clients. Nobody takes more than half of
//! what the others leave, so that a large request fails, and not the next small one (CL-10).

use std::sync::{Arc, OnceLock};

use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use stratalog_model::{Error, ErrorKind, Result};

use super::real;

/// What one statement or client holds.
#[derive(Debug)]
pub struct Share {
    what: &'static str,
    pool: Arc<dyn MemoryPool>,
    /// Made with the first bytes: most statements and clients hold nothing that counts.
    reservation: OnceLock<MemoryReservation>,
}

/// Bytes of a share; the drop gives them back.
#[derive(Debug)]
pub struct Held {
    share: Arc<Share>,
    bytes: usize,
}

impl Share {
    /// An empty share; messages call it `what`.
    pub(crate) fn new(what: &'static str, pool: &Arc<dyn MemoryPool>) -> Arc<Self> {
        Arc::new(Self { what, pool: Arc::clone(pool), reservation: OnceLock::new() })
    }

    fn reservation(&self) -> &MemoryReservation {
        let register = || MemoryConsumer::new(self.what).register(&self.pool);
        self.reservation.get_or_init(register)
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// `OutOfMemory`; then nothing is taken.
    pub fn grow(&self, bytes: usize) -> Result<()> {
        let own = self.reservation();
        if let MemoryLimit::Finite(limit) = self.pool.memory_limit() {
            let others = self.pool.reserved().saturating_sub(own.size());
            let most = limit.saturating_sub(others) / 2;
            if own.size().saturating_add(bytes) > most {
                let detail = format!(
                    "{}: {} bytes are held and {bytes} more are needed, of at most {most}",
                    self.what,
                    own.size(),
                );
                return Err(Error::new(ErrorKind::OutOfMemory, "out of memory")
                    .with_detail(detail)
                    .with_hint(
                        "raise query_memory_bytes_max, or make the statement work on less at once",
                    ));
            }
        }
        if !real::has_memory(bytes) {
            let detail = format!("{bytes} bytes are needed, and the server has no memory for them");
            return Err(Error::new(ErrorKind::OutOfMemory, "out of memory")
                .with_detail(detail)
                .with_hint("send it again a little later, or make the statement work on less"));
        }
        own.try_grow(bytes).map_err(crate::errors::from_datafusion)
    }

    /// Bytes that are held.
    pub fn size(&self) -> usize {
        self.reservation.get().map_or(0, MemoryReservation::size)
    }

    /// Gives bytes back.
    pub fn shrink(&self, bytes: usize) {
        self.reservation().shrink(bytes);
    }

    /// Takes bytes until they are dropped.
    ///
    /// # Errors
    /// As [`Self::grow`].
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Result<Held> {
        self.grow(bytes)?;
        Ok(Held { share: Arc::clone(self), bytes })
    }
}

impl Held {
    /// Holds another number of bytes.
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

impl Drop for Held {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.share.shrink(self.bytes);
        }
    }
}

/// Copies of a text that its tree and its plan hold.
const COPIES: usize = 4;

/// What a byte of SQL becomes, as node of a tree and of a plan. The text of literals does not.
const NODE_BYTES: usize = 128;

/// The memory of a statement with this text, about: measured, and on the safe side for all but
/// rows of very short values.
pub fn statement_bytes(text: &str) -> usize {
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
