//! Charges memory that storage keeps for a statement to the statement.

use std::sync::Arc;

use datafusion::execution::{
    TaskContext,
    memory_pool::{MemoryConsumer, MemoryReservation},
};
use stratalog_model::{Result, tier::ScanMemory};
use stratalog_postgres::errors::from_datafusion;

/// A part of `query_memory_bytes_max`; a drop returns the part.
#[derive(Debug)]
pub struct StatementMemory(MemoryReservation);

impl StatementMemory {
    /// A reservation for `what`, the name in messages.
    pub fn of(context: &TaskContext, what: &str) -> Arc<dyn ScanMemory> {
        Arc::new(Self(MemoryConsumer::new(what).register(context.memory_pool())))
    }
}

impl ScanMemory for StatementMemory {
    fn resize(&self, bytes: usize) -> Result<()> {
        self.0.try_resize(bytes).map_err(from_datafusion)
    }
}
