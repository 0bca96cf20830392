//! The state that all followers share.

use std::sync::Arc;

use stratalog_model::Clock;
use tokio::sync::Semaphore;

use crate::{events::budget::Budget, version::publisher::Publisher};

/// Maximum concurrent sweeps. The memory of each sweep is bounded, and therefore also the total.
const SWEEPS_MAX: usize = 4;

/// The part of the engine that serves followers.
#[derive(Debug)]
pub struct Followers {
    /// The publisher of the commits.
    pub publisher: Arc<Publisher>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Permits for readers of history in the order of commits.
    pub sweeps: Arc<Semaphore>,
    /// Memory for history not yet delivered to followers.
    pub history_budget: Arc<Budget>,
}

impl Followers {
    /// No followers. The history read for followers uses at most `history_bytes_max`.
    pub fn new(publisher: &Arc<Publisher>, clock: Arc<dyn Clock>, history_bytes_max: u64) -> Self {
        Self {
            publisher: Arc::clone(publisher),
            clock,
            sweeps: Arc::new(Semaphore::new(SWEEPS_MAX)),
            history_budget: Budget::new(history_bytes_max),
        }
    }
}
