//! The state that all followers share.

use std::sync::Arc;

use stratalog_model::Clock;
use tokio::sync::Semaphore;

use crate::{events::budget::Budget, version::publisher::Publisher};

/// Maximum number of concurrent sweeps (scans of history). Each sweep uses bounded memory, and
/// therefore also all sweeps together.
const SWEEPS_MAX: usize = 4;

/// The part of the engine that serves followers.
#[derive(Debug)]
pub struct Followers {
    /// The publisher of the commits.
    pub publisher: Arc<Publisher>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Permits for sweeps, which read history in commit order.
    pub sweeps: Arc<Semaphore>,
    /// Memory budget for history events that are read but not yet delivered.
    pub history_budget: Arc<Budget>,
}

impl Followers {
    /// No followers yet. `history_bytes_max` limits the memory of history events that are read but
    /// not yet delivered.
    pub fn new(publisher: &Arc<Publisher>, clock: Arc<dyn Clock>, history_bytes_max: u64) -> Self {
        Self {
            publisher: Arc::clone(publisher),
            clock,
            sweeps: Arc::new(Semaphore::new(SWEEPS_MAX)),
            history_budget: Budget::new(history_bytes_max),
        }
    }
}
