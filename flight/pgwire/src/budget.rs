//! Bytes that clients may make the server hold (CL-10).
//!
//! ```text
//!   named statement, named portal ─► budget of the connection ─┐
//!                                                              ├─► given back when the
//!   message on its way in ─────────► budget of the server ─────┘   last user drops it
//! ```

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// What a budget counts in: 32 bits of these are enough.
const UNIT_BYTES: usize = 1 << 10;

/// A number of bytes, and who holds them.
#[derive(Debug, Clone)]
pub struct Budget {
    units: Arc<Semaphore>,
    units_max: u32,
}

/// Bytes claimed of a [`Budget`]; given back when it drops.
#[derive(Debug)]
pub struct Claim {
    _permit: OwnedSemaphorePermit,
}

impl Budget {
    /// An empty budget of `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        let units_max = units(bytes_max);
        Self { units: Arc::new(Semaphore::new(units_max as usize)), units_max }
    }

    /// Bytes that may be claimed in all.
    pub fn bytes_max(&self) -> usize {
        self.units_max as usize * UNIT_BYTES
    }

    /// Bytes claimed now.
    pub fn used(&self) -> usize {
        self.bytes_max().saturating_sub(self.units.available_permits() * UNIT_BYTES)
    }

    /// Claims `bytes`, when there are so many left. What is larger than the whole budget
    /// needs all of it.
    pub fn claim(&self, bytes: usize) -> Option<Claim> {
        let wanted = units(bytes).min(self.units_max);
        let permit = Arc::clone(&self.units).try_acquire_many_owned(wanted).ok()?;
        Some(Claim { _permit: permit })
    }

    /// As [`Self::claim`], and waits for room, in the order of asking.
    pub async fn claim_within(&self, patience: Duration, bytes: usize) -> Option<Claim> {
        let wanted = units(bytes).min(self.units_max);
        let permit = Arc::clone(&self.units).acquire_many_owned(wanted);
        let permit = timeout(patience, permit).await.ok()?.ok()?;
        Some(Claim { _permit: permit })
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}
