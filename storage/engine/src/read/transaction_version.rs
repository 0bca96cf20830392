//! The version of a chronicle as a transaction reads it after its own writes: the snapshot of the
//! transaction, plus its uncommitted events and deletes.
//!
//! ```text
//!   snapshot: [batch][batch] pieces          at gsn 90
//!   own:                     [chunk][chunk]  as if committed next, at 91 …
//!   last:     replaced rows are marked in private copies, which other readers do not see
//!   delete:   a fence that hides earlier rows
//! ```

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::{HashMap, HashSet};
use stratalog_model::{Gsn, Result, TickRange};

use crate::{
    events::{
        batch::{MemoryBatch, Run, SupersededRow},
        budget::Budget,
        keys::Groups,
    },
    ingest::{chunk::Chunk, delete::deletion::Deletion, step::Step},
    read::pieces::lookup::StoredKeys,
    version::{fence::Fence, published_versions::PinnedVersion},
};

/// A version for a single transaction, and its highest visible gsn.
#[derive(Debug, Clone)]
pub struct TransactionVersion {
    /// The version.
    pub pinned: PinnedVersion,
    /// Highest gsn of the view. The transaction's own events have temporary gsn's up to this gsn,
    /// which events of other transactions may really get later.
    pub visible: Gsn,
    /// True if the transaction has uncommitted events in the chronicle.
    pub wrote: bool,
}

/// For each key and tick: the temporary gsn of the transaction's last event.
type Latest = HashMap<Box<[u8]>, HashMap<i64, u64, RandomState>, RandomState>;

/// Applies `steps` (all of one chronicle) to the version `below`, as seen at `visible`. `below` is
/// `None` if the chronicle has no version yet.
///
/// # Errors
/// The errors of reads of tablets and stories.
pub async fn over(
    below: Option<&PinnedVersion>,
    visible: Gsn,
    steps: &[Step<&Chunk, &Deletion>],
    budget: &Arc<Budget>,
) -> Result<Option<TransactionVersion>> {
    let Some(first) = steps.first() else { return Ok(None) };
    let chronicle = Arc::clone(first.chronicle());
    debug_assert!(
        steps.iter().all(|step| step.chronicle().id() == chronicle.id()),
        "the steps belong to several chronicles"
    );
    let base = below.map(|pinned| Arc::clone(&pinned.version)).unwrap_or_default();
    let mut gsn = visible.0;
    let mut own = Vec::with_capacity(steps.len());
    let mut fences = base.fences().to_vec();
    for step in steps {
        let chunk = match step {
            Step::Events(chunk) => chunk,
            Step::Delete(deletion) => {
                fences.push(Fence { ticks: deletion.ticks, gsn: Gsn(gsn), raised: None });
                continue;
            }
        };
        let run = Run { row: 0, seq: chunk.reserved.first_seq, gsn: gsn + 1 };
        gsn += chunk.rows() as u64;
        let (shape, columns, ticks) = (&chunk.shape, &chunk.columns, &chunk.ticks);
        // The chunk has already claimed the memory.
        let claim = budget.claim_anyway(0);
        let batch =
            MemoryBatch::new(shape.clone(), columns.clone(), ticks.clone(), vec![run], claim);
        own.push(Arc::new(batch));
    }
    debug_assert!(
        own.last().is_none_or(|last| last.last_gsn() == gsn),
        "the own events end at another gsn"
    );
    let mut batches: Vec<Arc<MemoryBatch>> = base.batches().cloned().collect();
    let mut pieces = base.pieces().as_ref().clone();
    if chronicle.collision().replaces() {
        for batch in &mut batches {
            *batch = Arc::new(batch.private(visible.0, budget));
        }
        let mut latest = Latest::default();
        let mut replaced = Vec::new();
        for batch in &own {
            // The list may be long: yields, so that other tasks run and the statement can be
            // cancelled.
            tokio::task::yield_now().await;
            let groups = groups_of(batch)?;
            let stored_keys = StoredKeys::find(&base, &groups, batch.ticks(), false).await?;
            for (row, tick) in batch.ticks().iter().enumerate() {
                let seq = stored_keys.seq(groups.group(row), *tick);
                replaced.extend(seq.map(|seq| (seq, batch.gsn(row))));
            }
            enter(&mut latest, batch, &groups);
        }
        pieces = pieces.with_replaced(replaced);
        let hull = own.iter().fold(TickRange::EMPTY, |hull, batch| hull.hull(&batch.hull()));
        let marked = |_: &&Arc<MemoryBatch>| !crate::sabotage::active("own-marks-lost");
        for batch in
            batches.iter().chain(&own).filter(marked).filter(|batch| batch.hull().overlaps(&hull))
        {
            tokio::task::yield_now().await;
            mark(batch, &latest)?;
        }
    }
    let wrote = !own.is_empty();
    batches.extend(own);
    let version = Arc::new(base.private(batches, pieces, fences));
    Ok(Some(TransactionVersion {
        pinned: PinnedVersion { chronicle, version },
        visible: Gsn(gsn),
        wrote,
    }))
}

fn groups_of(batch: &MemoryBatch) -> Result<Groups> {
    Groups::of(batch.columns(), &batch.shape().keys, batch.rows())
}

fn enter(latest: &mut Latest, batch: &MemoryBatch, groups: &Groups) {
    for (row, tick) in batch.ticks().iter().enumerate() {
        let Some(key) = groups.keys.get(groups.group(row)) else { continue };
        let ticks = match latest.get_mut(key) {
            Some(ticks) => ticks,
            None => latest.entry(key.clone()).or_default(),
        };
        let before = ticks.insert(*tick, batch.gsn(row));
        debug_assert!(
            before.is_none_or(|before| before < batch.gsn(row)),
            "an earlier event replaces a later event"
        );
    }
}

/// Marks the rows of a private batch that a later event with the same key and tick replaces.
fn mark(batch: &MemoryBatch, latest: &Latest) -> Result<()> {
    let groups = groups_of(batch)?;
    let by_group: Vec<_> = groups.keys.iter().map(|key| latest.get(key.as_ref())).collect();
    let mut marks = batch.superseded().as_ref().clone();
    let known: HashSet<u32, RandomState> = marks.iter().map(|mark| mark.row).collect();
    for (row, tick) in batch.ticks().iter().enumerate() {
        let later = by_group.get(groups.group(row)).copied().flatten();
        let later = later.and_then(|ticks| ticks.get(tick)).copied();
        if let Some(gsn) = later.filter(|gsn| *gsn > batch.gsn(row))
            && !known.contains(&(row as u32))
        {
            marks.push(SupersededRow { row: row as u32, gsn });
        }
    }
    batch.set_superseded(marks);
    Ok(())
}
