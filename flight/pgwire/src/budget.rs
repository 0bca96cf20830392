//! Budgets that limit the memory for data of clients (CL-10). A claim is a reservation of bytes
//! from a budget.
//!
//! ```text
//!   named statement, named portal ─► budget of the connection ─┐
//!                                                              ├─► dropping the claim frees
//!   incoming message      ─────────► budget of the server ─────┘   its bytes
//! ```

use std::{any::Any, fmt, sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout},
};

/// The unit of a budget in bytes. A semaphore counts units, because its permits have 32 bits.
const UNIT_BYTES: usize = 1 << 10;

/// The interval at which a waiting claim asks the wider budget again.
const CLAIM_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A reservation from a wider budget. Dropping the value frees the bytes.
type WiderClaim = Box<dyn Any + Send + Sync>;

/// A limit for the sum of bytes of all claims. A wider budget may limit the same bytes, together
/// with other budgets.
#[derive(Clone)]
pub struct Budget {
    units: Arc<Semaphore>,
    units_max: u32,
    /// Claims the same bytes from a wider budget; returns `None` if the wider budget is exhausted.
    wider: Option<Arc<dyn Fn(usize) -> Option<WiderClaim> + Send + Sync>>,
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("bytes_max", &self.bytes_max()).finish_non_exhaustive()
    }
}

/// A reservation of bytes from a [`Budget`]. Dropping the claim frees the bytes.
#[derive(Debug)]
pub struct Claim {
    _permit: OwnedSemaphorePermit,
    _wider: Option<WiderClaim>,
}

impl Budget {
    /// Creates a budget of `bytes_max` bytes, all free.
    pub fn new(bytes_max: usize) -> Self {
        let units_max = units(bytes_max);
        Self { units: Arc::new(Semaphore::new(units_max as usize)), units_max, wider: None }
    }

    /// Makes each claim also reserve its bytes from a wider budget.
    pub fn within(
        self,
        wider: impl Fn(usize) -> Option<WiderClaim> + Send + Sync + 'static,
    ) -> Self {
        Self { wider: Some(Arc::new(wider)), ..self }
    }

    /// Maximum bytes of all claims together.
    pub fn bytes_max(&self) -> usize {
        self.units_max as usize * UNIT_BYTES
    }

    /// The number of claimed bytes.
    pub fn used(&self) -> usize {
        self.bytes_max().saturating_sub(self.units.available_permits() * UNIT_BYTES)
    }

    /// Reserves `bytes` if they are free; otherwise returns `None`. If `bytes` exceeds the budget,
    /// reserves the whole budget.
    pub fn claim(&self, bytes: usize) -> Option<Claim> {
        let wanted = units(bytes).min(self.units_max);
        let permit = Arc::clone(&self.units).try_acquire_many_owned(wanted).ok()?;
        let wider = match &self.wider {
            Some(wider) => Some(wider(bytes)?),
            None => None,
        };
        Some(Claim { _permit: permit, _wider: wider })
    }

    /// Reserves `bytes` as [`Self::claim`] does, but waits up to `patience` for free bytes. Waiting
    /// claims get their bytes in the order of the calls.
    pub async fn claim_within(&self, patience: Duration, bytes: usize) -> Option<Claim> {
        let until = Instant::now() + patience;
        let wanted = units(bytes).min(self.units_max);
        let permit = Arc::clone(&self.units).acquire_many_owned(wanted);
        let permit = timeout(patience, permit).await.ok()?.ok()?;
        let Some(wider) = &self.wider else { return Some(Claim { _permit: permit, _wider: None }) };
        loop {
            if let Some(held) = wider(bytes) {
                return Some(Claim { _permit: permit, _wider: Some(held) });
            }
            if Instant::now() >= until {
                return None;
            }
            sleep(CLAIM_RETRY_INTERVAL).await;
        }
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}
