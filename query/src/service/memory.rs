//! The memory budget of running statements.
//!
//! ```text
//!   0                                                      7/8            1
//!   ├── sorts, aggregates, joins that can spill ────────────┤              │
//!   └── everything else: values of expressions, keys … ────────────────────┘
//! ```
//! Operators that can spill to disk may use 7/8 of the budget; the rest is reserved for other
//! operators. Without the reserved part, one large sort would make every other statement fail
//! instead of spilling.

use std::fmt;

use datafusion::{
    common::{DataFusionError, Result},
    execution::memory_pool::{
        FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
    },
};

use super::resident_memory;

/// A substring of the names under which grouping operators (hash aggregates) request memory.
const GROUPING: &str = "HashAggregateStream";

/// Minimum size of a grouping operator, in bytes, for which the pool checks the doubling of the
/// hash table.
const DOUBLING_BYTES_MIN: usize = 32 << 20;

/// A memory pool that reserves a part of the budget for consumers that cannot spill.
#[derive(Debug)]
pub struct StatementPool {
    fair: FairSpillPool,
    bytes_max: usize,
    spilling_bytes_max: usize,
}

impl StatementPool {
    /// A pool of `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            fair: FairSpillPool::new(bytes_max),
            bytes_max,
            spilling_bytes_max: bytes_max - bytes_max / 8,
        }
    }
}

/// The temporary bytes of the doubling of a grouping operator's hash table: the old and the new
/// entries exist at once, and the operator reports its size only afterwards. 0 for small groupings
/// and for other operators.
fn doubling_bytes(reservation: &MemoryReservation, additional: usize) -> usize {
    let bytes = reservation.size().saturating_add(additional);
    let doubles = reservation.consumer().name().contains(GROUPING)
        && bytes >= DOUBLING_BYTES_MIN
        && additional > 0;
    if doubles { bytes.saturating_add(bytes / 2) } else { 0 }
}

impl fmt::Display for StatementPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fair.fmt(f)
    }
}

impl MemoryPool for StatementPool {
    fn name(&self) -> &str {
        self.fair.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.fair.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.fair.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.fair.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        resident_memory::release_promise(shrink);
        self.fair.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        // A consumer without memory has nothing to spill yet.
        let spills = reservation.consumer().can_spill() && reservation.size() > 0;
        if spills && self.fair.reserved().saturating_add(additional) > self.spilling_bytes_max {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{} must spill: {} of {} bytes are in use",
                reservation.consumer().name(),
                self.fair.reserved(),
                self.bytes_max,
            )));
        }
        let room = doubling_bytes(reservation, additional);
        if room > 0
            && self.fair.reserved().saturating_add(additional).saturating_add(room) > self.bytes_max
        {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{} must spill: {} of {} bytes are in use, and the hash tables would double",
                reservation.consumer().name(),
                self.fair.reserved(),
                self.bytes_max,
            )));
        }
        if !resident_memory::has_memory(additional.saturating_add(room)) {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{} needs {additional} bytes, and the server has too little memory",
                reservation.consumer().name(),
            )));
        }
        let grown = self.fair.try_grow(reservation, additional);
        grown.inspect_err(|_| resident_memory::release_promise(additional.saturating_add(room)))
    }

    fn reserved(&self) -> usize {
        self.fair.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes_max)
    }
}

#[cfg(test)]
mod tests;
