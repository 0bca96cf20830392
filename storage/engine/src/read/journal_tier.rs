//! The journal tier for reads: the batches that the keeper has in memory.

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, Gsn, Result, TickRanges, Tier, TierName,
    tier::{Extent, ScanRequest, Split},
};

use super::{
    journal_split::{JournalSplit, SharedRequest},
    key_lookup,
};
use crate::{
    events::batch::MemoryBatch, read::pieces::system_columns::seqs_of,
    version::published_versions::PinnedVersion,
};

/// True if a batch may have an event with an arrival number from `low` to `high`, both inclusive.
fn has_seqs(batch: &MemoryBatch, (low, high): (i64, i64)) -> bool {
    batch.runs_with_rows().any(|(run, rows)| {
        let (first, last) = (run.seq.cast_signed(), (run.seq + rows).cast_signed() - 1);
        first <= high && low <= last
    })
}

/// The batches in memory of one version of a chronicle.
#[derive(Debug)]
pub struct JournalTier {
    pinned: PinnedVersion,
}

impl JournalTier {
    /// The journal tier of a pinned version.
    pub fn new(pinned: PinnedVersion) -> Self {
        Self { pinned }
    }
}

impl Tier for JournalTier {
    fn name(&self) -> TierName {
        TierName::Journal
    }

    fn extent(
        &self,
        _chronicle: &ChronicleDefinition,
        ranges: &TickRanges,
        visible: Gsn,
    ) -> Option<Extent> {
        Some(self.pinned.version.extent(ranges, visible))
    }

    fn splits(&self, request: &Arc<ScanRequest>, visible: Gsn) -> Result<Vec<Box<dyn Split>>> {
        let version = &self.pinned.version;
        let shared = Arc::new(SharedRequest::new(request, Arc::clone(version), visible)?);
        let split = |batch: Arc<MemoryBatch>, rows: Option<Vec<u32>>| -> Box<dyn Split> {
            Box::new(JournalSplit { batch, rows, shared: Arc::clone(&shared) })
        };
        let seqs = seqs_of(request);
        // The key index knows no gsn's, and cannot answer requests that restrict gsn's.
        let by_key = if request.keys.is_empty() || !request.gsns.is_all() {
            None
        } else {
            key_lookup::rows_by_key(request, &self.pinned.chronicle, version, visible.0)?
        };
        let splits: Vec<Box<dyn Split>> = match by_key {
            Some(found) => {
                found.into_iter().map(|(batch, rows)| split(batch, Some(rows))).collect()
            }
            None => version
                .batches()
                .filter(|batch| {
                    batch.first_gsn() <= visible.0
                        && request.ticks.overlaps(&batch.hull())
                        && request.gsns.overlaps(&batch.gsns())
                        && seqs.is_none_or(|seqs| has_seqs(batch, seqs))
                })
                .map(|batch| split(Arc::clone(batch), None))
                .collect(),
        };
        debug_assert!(splits.len() <= version.batches().count(), "a batch is read twice");
        let pruned = version.batches().count().saturating_sub(splits.len());
        request.metrics.journal.pruned(pruned as u64);
        Ok(splits)
    }
}
