//! Charges the memory that storage uses for a statement to the memory budget.

use std::sync::Arc;

use datafusion::execution::{
    TaskContext,
    memory_pool::{MemoryConsumer, MemoryReservation},
};
use stratalog_model::{Result, tier::ScanMemory};
use stratalog_postgres::errors::from_datafusion;

/// A reservation in the memory budget `query_memory_bytes_max`; a drop returns the memory.
#[derive(Debug)]
pub struct StatementMemory(MemoryReservation);

impl StatementMemory {
    /// Creates an empty reservation; `what` is its name in error messages.
    pub fn of(context: &TaskContext, what: &str) -> Arc<dyn ScanMemory> {
        Arc::new(Self(MemoryConsumer::new(what).register(context.memory_pool())))
    }
}

impl ScanMemory for StatementMemory {
    fn resize(&self, bytes: usize) -> Result<()> {
        self.0.try_resize(bytes).map_err(from_datafusion)
    }
}
