//! Chronicles whose batches are worth a merge or a copy.

use std::sync::atomic::{AtomicBool, Ordering};

use ahash::RandomState;
use hashbrown::HashSet;
use parking_lot::Mutex;
use stratalog_model::ChronicleId;

/// Chronicles worth tidying.
#[derive(Debug, Default)]
pub struct UntidyChronicles {
    ids: Mutex<HashSet<ChronicleId, RandomState>>,
    /// True while a task tidies.
    tidying: AtomicBool,
}

impl UntidyChronicles {
    /// Adds chronicles.
    pub fn add(&self, ids: Vec<ChronicleId>) {
        self.ids.lock().extend(ids);
    }

    /// Begins a run over the chronicles; `None` without a chronicle, or during another run.
    pub fn begin(&self) -> Option<TidyRun<'_>> {
        if self.ids.lock().is_empty() || self.tidying.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(TidyRun(self))
    }
}

/// The running merge. The drop ends the run, also after a panic: the next run may succeed.
pub struct TidyRun<'a>(&'a UntidyChronicles);

impl TidyRun<'_> {
    /// Takes the chronicles.
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
