//! The DataFusion state shared by all sessions: memory and disk budgets, and the optimizer rules
//! for Stratalog's storage, in addition to the functions and rules for PostgreSQL compatibility.

use std::sync::Arc;

use datafusion::{
    execution::{
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::TrackConsumersPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
        session_state::SessionState,
    },
    prelude::SessionConfig,
};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_postgres::state::{self, EngineParts};

use crate::{QuerySettings, as_of::WithAsOf, rules::physical, service::memory::StatementPool};

/// The number of memory consumers that an out-of-memory error lists.
const CONSUMERS_NAMED: usize = 3;

/// The base state of every session.
///
/// # Errors
/// `Io` if the spill directory cannot be created.
pub fn build(settings: &QuerySettings) -> Result<SessionState> {
    let config = SessionConfig::new()
        // Scans already return several streams; a round-robin repartition of one stream would lose
        // its order.
        .with_round_robin_repartition(false)
        .with_batch_size(settings.batch_rows_max)
        .with_target_partitions(settings.parallel_streams_max.max(1));
    state::build(EngineParts {
        config,
        runtime: runtime(settings)?,
        query_planner: Arc::new(WithAsOf),
        physical_rules: physical::rules(),
    })
}

fn runtime(settings: &QuerySettings) -> Result<Arc<RuntimeEnv>> {
    let disk = match &settings.spill_directory {
        Some(directory) => DiskManagerBuilder::default()
            .with_mode(DiskManagerMode::Directories(vec![directory.clone()]))
            .with_max_temp_directory_size(settings.spill_bytes_max),
        None => DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
    };
    let named = std::num::NonZeroUsize::new(CONSUMERS_NAMED).unwrap_or(std::num::NonZeroUsize::MIN);
    let pool = TrackConsumersPool::new(StatementPool::new(settings.memory_bytes_max), named);
    RuntimeEnvBuilder::new()
        .with_disk_manager_builder(disk)
        .with_memory_pool(Arc::new(pool))
        .build_arc()
        .map_err(|error| {
            Error::new(
                ErrorKind::Io,
                format!("cannot use the spill directory {:?}: {error}", settings.spill_directory),
            )
        })
}
