//! Compaction: merges small adjacent batches in memory into larger batches. Without compaction, a
//! million inserts of one row would stay a million batches. `choose` selects the batches, and
//! `merge` merges them. The content of a snapshot never changes (CL-5).

use std::{ops::Range, sync::Arc};

use arrow::{array::BooleanArray, buffer::ScalarBuffer};
use stratalog_model::{Gsn, Result, Tick};

use crate::{
    events::{
        batch::{MemoryBatch, Run, SupersededRow},
        budget::Budget,
        column::Column,
    },
    settings::EngineSettings,
    version::fence::Fence,
};

/// Selects the adjacent batches to merge, given the weight of each batch (its size in rows).
/// Batches belong to size classes: the limit of each class is `compaction_fan_in` times the limit
/// of the class below, up to `compaction_rows_max`. Returns the first run of at least
/// `compaction_fan_in` batches that are all below the limit of a class and together reach it. A
/// merge thus lifts its rows into the next class, and each row is copied once per class.
pub fn choose(weights: &[usize], settings: &EngineSettings) -> Option<Range<usize>> {
    let fan_in = settings.compaction_fan_in.max(2);
    let mut class_rows_max = fan_in;
    loop {
        let limit = class_rows_max.min(settings.compaction_rows_max);
        let small = weights.chunk_by(|a, b| (*a < limit) == (*b < limit));
        let mut start = 0;
        for run in small {
            let sum: usize = run.iter().sum();
            let below = run.first().is_some_and(|weight| *weight < limit);
            if below && run.len() >= fan_in && sum >= limit {
                return Some(start..start + run.len());
            }
            start += run.len();
        }
        debug_assert_eq!(start, weights.len(), "a batch is in no run");
        if class_rows_max >= settings.compaction_rows_max {
            return None;
        }
        class_rows_max = class_rows_max.saturating_mul(fan_in);
    }
}

/// Merges adjacent batches of the same shape. The result omits rows that one of `fences` covers,
/// and rows replaced at or before `snapshot_gsn`; returns `None` if no row is left. Snapshots with
/// a lower gsn still use the old batches. The result has no marks of replaced rows: see
/// [`marks_of`].
pub fn merge(
    parts: &[Arc<MemoryBatch>],
    fences: &[Fence],
    snapshot_gsn: Gsn,
    budget: &Arc<Budget>,
) -> Result<Option<MemoryBatch>> {
    let Some(first) = parts.first() else { return Ok(None) };
    let shape = Arc::clone(first.shape());
    debug_assert!(
        parts.iter().all(|part| part.shape().version == shape.version),
        "the batches have several shapes"
    );
    debug_assert!(
        parts.is_sorted_by(|a, b| a.last_gsn() < b.first_gsn()),
        "the batches are not in commit order"
    );
    let mut stored: Vec<Vec<Column>> = vec![Vec::with_capacity(parts.len()); shape.columns.len()];
    let mut ticks: Vec<i64> = Vec::with_capacity(parts.iter().map(|part| part.rows()).sum());
    let mut runs: Vec<Run> = Vec::new();
    for part in parts {
        let mask = keep_mask(part, fences, snapshot_gsn);
        debug_assert!(
            mask.as_ref().is_none_or(|mask| mask.len() == part.rows()),
            "the mask has another length than the batch"
        );
        let seqs = part.seqs().enumerate();
        let mut cursor = part.runs().iter().peekable();
        let mut base = Run { row: 0, seq: 0, gsn: 0 };
        for (row, seq) in seqs {
            while let Some(run) = cursor.next_if(|run| run.row as usize <= row) {
                base = *run;
            }
            if mask.as_ref().and_then(|mask| mask.get(row)).is_some_and(|keep| !keep) {
                continue;
            }
            let gsn = base.gsn + (row as u64 - u64::from(base.row));
            let at = ticks.len() as u32;
            match runs.last() {
                Some(run)
                    if run.seq + u64::from(at - run.row) == seq
                        && run.gsn + u64::from(at - run.row) == gsn => {}
                _ => runs.push(Run { row: at, seq, gsn }),
            }
            ticks.extend(part.ticks().get(row));
        }
        let mask = mask.map(BooleanArray::from);
        for (stored, column) in stored.iter_mut().zip(part.columns()) {
            stored.push(match &mask {
                Some(mask) => column.filter(mask)?,
                None => column.clone(),
            });
        }
    }
    if ticks.is_empty() {
        return Ok(None);
    }
    let columns = stored.iter().map(|parts| Column::concat(parts)).collect::<Result<Vec<_>>>()?;
    let bytes = batch_bytes(columns.iter().map(Column::bytes).sum(), ticks.len(), columns.len())
        + runs.len() * size_of::<Run>();
    debug_assert!(ticks.len() <= parts.iter().map(|part| part.rows()).sum());
    debug_assert!(runs.is_sorted_by(|a, b| a.row < b.row && a.gsn < b.gsn));
    debug_assert!(
        columns.iter().all(|column| column.len() == ticks.len()),
        "the columns have other rows than the ticks"
    );
    let claim = budget.claim_anyway(bytes);
    let ticks: ScalarBuffer<i64> = ticks.into();
    Ok(Some(MemoryBatch::new(shape, columns, ticks, runs, claim)))
}

/// The marks of replaced rows in `parts`, converted to row numbers of the merged batch.
pub fn marks_of(parts: &[Arc<MemoryBatch>], merged: &MemoryBatch) -> Vec<SupersededRow> {
    let mut marks = Vec::new();
    for part in parts {
        for mark in part.superseded().iter() {
            let gsn = part.gsn(mark.row as usize);
            marks.extend(
                merged.row_of(gsn).map(|row| SupersededRow { row: row as u32, gsn: mark.gsn }),
            );
        }
    }
    marks
}

/// Bytes to claim for a batch: `stored` bytes of columns, the ticks, and the overhead of the
/// arrays. In a batch of one row, the overhead is the largest part.
pub fn batch_bytes(stored: usize, rows: usize, columns: usize) -> usize {
    const PER_BATCH: usize = 512;
    const PER_COLUMN: usize = 160;
    stored + rows * size_of::<i64>() + PER_BATCH + columns * PER_COLUMN
}

/// True if at least half of the rows are replaced: a copy without these rows is then worthwhile.
pub fn is_worn(rows: usize, replaced: usize) -> bool {
    debug_assert!(replaced <= rows, "more rows are replaced than there are");
    replaced > 0 && replaced * 2 >= rows
}

/// Returns a mask of the rows that no fence covers and that are not replaced at `snapshot_gsn`.
/// `None` means all rows.
pub fn keep_mask(part: &MemoryBatch, fences: &[Fence], snapshot_gsn: Gsn) -> Option<Vec<bool>> {
    let mut mask: Option<Vec<bool>> = None;
    let replaced = part.superseded();
    for mark in replaced.iter().take_while(|mark| mark.gsn <= snapshot_gsn.0) {
        if let Some(keep) =
            mask.get_or_insert_with(|| vec![true; part.rows()]).get_mut(mark.row as usize)
        {
            *keep = false;
        }
    }
    for fence in fences.iter().filter(|fence| fence.ticks.overlaps(&part.hull())) {
        let before = part.rows_through(fence.gsn.0);
        if before == 0 {
            continue;
        }
        let keep = mask.get_or_insert_with(|| vec![true; part.rows()]);
        for (keep, tick) in keep.iter_mut().zip(part.ticks().iter()).take(before) {
            *keep &= !fence.ticks.contains(Tick(*tick));
        }
    }
    mask
}

#[cfg(test)]
mod tests;
