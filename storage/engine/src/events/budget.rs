//! The byte budget for events in memory (CL-10).
//!
//! ```text
//!   push ─► claim ─► pending ─► batch of a version ─► last snapshot drops the batch ─► released
//!                       └► rolled back ─► released
//! ```

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use stratalog_model::{Error, ErrorKind, Result, invariant};

/// A byte budget: the bytes in use, and the limit.
#[derive(Debug)]
pub struct Budget {
    used: AtomicU64,
    bytes_max: u64,
}

impl Budget {
    /// A budget of `bytes_max` bytes, without claims.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), bytes_max })
    }

    /// Bytes claimed now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The limit of all claims, in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes left for further claims.
    pub fn left(&self) -> u64 {
        self.bytes_max.saturating_sub(self.used())
    }

    /// Claims `bytes`.
    ///
    /// # Errors
    /// `OutOfMemory` if fewer bytes are left; nothing is claimed then.
    pub fn claim(self: &Arc<Self>, bytes: usize) -> Result<Claim> {
        let wanted = bytes as u64;
        let taken = self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(wanted).filter(|sum| *sum <= self.bytes_max)
        });
        match taken {
            Ok(before) => {
                invariant!(
                    FailuresContained,
                    before + wanted <= self.bytes_max,
                    "{wanted} bytes are claimed beyond the budget of {}",
                    self.bytes_max
                );
                Ok(Claim { budget: Arc::clone(self), bytes: wanted })
            }
            Err(used) => Err(self.exhausted(used, wanted)),
        }
    }

    /// Claims `bytes`, even if this exceeds the budget: for data that is durable already, or that
    /// will replace data of the same size.
    pub fn claim_anyway(self: &Arc<Self>, bytes: usize) -> Claim {
        let before = self.used.fetch_add(bytes as u64, Ordering::Relaxed);
        debug_assert!(before.checked_add(bytes as u64).is_some(), "the bytes in use overflow");
        Claim { budget: Arc::clone(self), bytes: bytes as u64 }
    }

    fn exhausted(&self, used: u64, wanted: u64) -> Error {
        debug_assert!(
            used.checked_add(wanted).is_none_or(|sum| sum > self.bytes_max),
            "a claim that fits is refused"
        );
        Error::new(
            ErrorKind::OutOfMemory,
            format!(
                "the memory budget for events is used up: {used} of {} bytes in use, {wanted} more needed",
                self.bytes_max
            ),
        )
        .with_hint(
            "nothing of this statement was kept; raise memory_bytes_max, or delete old events",
        )
    }
}

/// Bytes claimed from a [`Budget`]; the drop returns them to the budget.
#[derive(Debug)]
pub struct Claim {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Claim {
    /// The claimed bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Another claim on the same budget, even if this exceeds the budget: for data derived from the
    /// events.
    pub fn derived(&self, bytes: usize) -> Self {
        self.budget.claim_anyway(bytes)
    }

    /// Adds another claim on the same budget to this claim.
    pub fn join(&mut self, mut other: Claim) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget), "claims on two budgets are joined");
        debug_assert!(self.bytes.checked_add(other.bytes).is_some(), "the joined claim overflows");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Changes the claim to `bytes`, even if this exceeds the budget: replaces an estimate by the
    /// exact size.
    pub fn adjust(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        debug_assert!(self.bytes <= self.budget.used(), "a claim larger than the bytes in use");
        if bytes >= self.bytes {
            self.budget.used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            self.budget.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        debug_assert!(self.bytes <= self.budget.used(), "a claim larger than the bytes in use");
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
