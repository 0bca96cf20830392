//! Small batches become large ones, and those of which most rows were replaced are copied
//! without them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use stratalog_model::{ChronicleId, Result};

use crate::{
    engine::Core,
    keeper::chronicle::Chronicle,
    memtable::{batch::MemoryBatch, compact},
    settings::EngineSettings,
    version::{Version, published::Pinned},
};

impl Core {
    /// Merges small batches where commits left many: a little work of the appender that
    /// happens to find it. One at a time.
    pub fn tidy(&self) {
        if self.untidy.lock().is_empty() || self.tidying.swap(true, Ordering::Acquire) {
            return;
        }
        // Also when a merge panics: the next one may succeed.
        let _turn = TidyTurn(&self.tidying);
        let ids: Vec<ChronicleId> = self.untidy.lock().drain().collect();
        for id in ids {
            if let Some(chronicle) = self.known(id)
                && let Err(error) = self
                    .renew_worn(&chronicle)
                    .and_then(|()| self.merge_small(&chronicle, Version::tail))
            {
                tracing::error!(chronicle = %id, %error, "small batches stay unmerged");
            }
        }
    }

    /// Copies the batches of which most rows were replaced, so that those rows are freed
    /// once no snapshot needs them.
    fn renew_worn(&self, chronicle: &Arc<Chronicle>) -> Result<()> {
        if !chronicle.take_worn() {
            return Ok(());
        }
        // Read first: every snapshot of the version below has at least this gsn.
        let shown = self.published().gsn;
        let version = Arc::clone(&chronicle.state().version);
        let rows_sealed = self.settings.compaction_rows_max;
        let stays = |batch: &&Arc<MemoryBatch>| batch.first_gsn() > chronicle.leaving();
        let large = version.tail().iter().filter(|batch| batch.weight() >= rows_sealed);
        for batch in version.sealed().iter().chain(large).filter(stays) {
            if compact::is_worn(batch.rows(), batch.superseded_through(shown.0)) {
                let old = [Arc::clone(batch)];
                let merged = compact::merge(&old, version.fences(), shown, &self.budget)?;
                self.replace(chronicle, &old, merged);
            } else if compact::is_worn(batch.rows(), batch.superseded().len()) {
                // What was replaced is not visible yet.
                chronicle.set_worn();
            }
        }
        // What is left of them is small.
        self.merge_small(chronicle, Version::sealed)
    }

    fn merge_small(
        &self,
        chronicle: &Arc<Chronicle>,
        list: fn(&Version) -> &[Arc<MemoryBatch>],
    ) -> Result<()> {
        loop {
            // Read first: every snapshot of the version below has at least this gsn.
            let shown = self.published().gsn;
            let version = Arc::clone(&chronicle.state().version);
            let old = choose_neighbours(chronicle.staying(list(&version)), &self.settings);
            let Some(old) = old else { return Ok(()) };
            let merged = compact::merge(&old, version.fences(), shown, &self.budget)?;
            if !self.replace(chronicle, &old, merged) {
                return Ok(());
            }
        }
    }

    /// Puts a merged batch in the place of others; `false` when they are gone.
    pub fn replace(
        &self,
        chronicle: &Arc<Chronicle>,
        old: &[Arc<MemoryBatch>],
        merged: Option<MemoryBatch>,
    ) -> bool {
        self.change(|_| match chronicle.replace(old, merged) {
            Some(version) => (Some(Pinned { chronicle: Arc::clone(chronicle), version }), true),
            None => (None, false),
        })
    }
}

/// The one who tidies.
struct TidyTurn<'a>(&'a AtomicBool);

impl Drop for TidyTurn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Neighbours of one shape that are worth merging.
fn choose_neighbours(
    tail: &[Arc<MemoryBatch>],
    settings: &EngineSettings,
) -> Option<Vec<Arc<MemoryBatch>>> {
    tail.chunk_by(|a, b| a.shape() == b.shape()).find_map(|alike| {
        let weights: Vec<usize> = alike.iter().map(|batch| batch.weight()).collect();
        let range = compact::choose(&weights, settings)?;
        alike.get(range).map(<[_]>::to_vec)
    })
}
