//! Merges small batches in memory into large batches, and copies batches without their replaced
//! rows if most of their rows were replaced.

use std::sync::Arc;

use stratalog_model::Result;

use crate::{
    events::batch::MemoryBatch,
    ingest::chronicle::Chronicle,
    settings::EngineSettings,
    version::{Version, compact, published_versions::PinnedVersion, publisher::Publisher},
};

impl Publisher {
    /// Runs the merges and copies that recent commits have made worthwhile: a little work, on the
    /// thread of an append. Only one run at a time.
    pub fn tidy(&self) {
        let Some(run) = self.untidy.begin() else { return };
        for id in run.ids() {
            if let Some(chronicle) = self.chronicles.known(id)
                && let Err(error) = self
                    .renew_worn(&chronicle)
                    .and_then(|()| self.merge_small(&chronicle, Version::tail))
            {
                tracing::error!(chronicle = %id, %error, "cannot merge small batches");
            }
        }
    }

    /// Copies the batches of which most rows were replaced, without these rows. The memory becomes
    /// free when no snapshot needs the rows any more.
    fn renew_worn(&self, chronicle: &Arc<Chronicle>) -> Result<()> {
        if !chronicle.take_worn() {
            return Ok(());
        }
        // Read before the version below: every later snapshot of this version has at least this
        // gsn.
        let snapshot_gsn = self.published().gsn;
        let version = Arc::clone(&chronicle.state().version);
        let rows_sealed = self.settings.compaction_rows_max;
        let stays = |batch: &&Arc<MemoryBatch>| batch.first_gsn() > chronicle.leaving();
        let large = version.tail().iter().filter(|batch| batch.weight() >= rows_sealed);
        for batch in version.sealed().iter().chain(large).filter(stays) {
            if compact::is_worn(batch.rows(), batch.superseded_through(snapshot_gsn.0)) {
                let old = [Arc::clone(batch)];
                let merged = compact::merge(&old, version.fences(), snapshot_gsn, &self.budget)?;
                self.replace(chronicle, &old, merged);
            } else if compact::is_worn(batch.rows(), batch.superseded().len()) {
                // Some replacements are not visible yet: tries again later.
                chronicle.set_worn();
            }
        }
        // The copies are small, and are merged.
        self.merge_small(chronicle, Version::sealed)
    }

    fn merge_small(
        &self,
        chronicle: &Arc<Chronicle>,
        list: fn(&Version) -> &[Arc<MemoryBatch>],
    ) -> Result<()> {
        loop {
            // Read before the version below: every later snapshot of this version has at least this
            // gsn.
            let snapshot_gsn = self.published().gsn;
            let version = Arc::clone(&chronicle.state().version);
            let old = choose_neighbours(chronicle.staying(list(&version)), &self.settings);
            let Some(old) = old else { return Ok(()) };
            let merged = compact::merge(&old, version.fences(), snapshot_gsn, &self.budget)?;
            if !self.replace(chronicle, &old, merged) {
                return Ok(());
            }
        }
    }

    /// Replaces the batches `old` with a merged batch; returns `false` if the version no longer has
    /// the batches.
    pub fn replace(
        &self,
        chronicle: &Arc<Chronicle>,
        old: &[Arc<MemoryBatch>],
        merged: Option<MemoryBatch>,
    ) -> bool {
        self.change(|_| match chronicle.replace(old, merged) {
            Some(version) => {
                (Some(PinnedVersion { chronicle: Arc::clone(chronicle), version }), true)
            }
            None => (None, false),
        })
    }
}

/// Finds adjacent batches of one shape that are worth a merge.
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
