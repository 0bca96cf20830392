//! The set of chronicles whose batches in memory are worth a merge or a copy.

use std::sync::atomic::{AtomicBool, Ordering};

use ahash::RandomState;
use hashbrown::HashSet;
use parking_lot::Mutex;
use stratalog_model::ChronicleId;

/// The chronicles to process next, and a mark that a run is in progress.
#[derive(Debug, Default)]
pub struct UntidyChronicles {
    ids: Mutex<HashSet<ChronicleId, RandomState>>,
    /// True while a run is in progress.
    tidying: AtomicBool,
}

impl UntidyChronicles {
    /// Adds chronicles to the set.
    pub fn add(&self, ids: Vec<ChronicleId>) {
        self.ids.lock().extend(ids);
    }

    /// Begins a run over the chronicles. `None` if there is no chronicle, or if another run is in
    /// progress.
    pub fn begin(&self) -> Option<TidyRun<'_>> {
        if self.ids.lock().is_empty() || self.tidying.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(TidyRun(self))
    }
}

/// A run in progress. Its drop ends the run, even after a panic, so that another run can begin.
pub struct TidyRun<'a>(&'a UntidyChronicles);

impl TidyRun<'_> {
    /// Removes and returns the chronicles of the set.
    pub fn ids(&self) -> Vec<ChronicleId> {
        self.0.ids.lock().drain().collect()
    }
}

impl Drop for TidyRun<'_> {
    fn drop(&mut self) {
        debug_assert!(self.0.tidying.load(Ordering::Relaxed), "two runs at the same time");
        self.0.tidying.store(false, Ordering::Release);
    }
}
