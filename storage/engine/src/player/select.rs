//! Which rows of a batch a request sees. Pure: the batch, the request and the snapshot
//! decide alone.

use std::ops::Range;

use stratalog_model::{Gsn, GsnRange, Result, Tick, TickRange, TickRanges};

use super::keys::KeySet;
use crate::{
    memtable::{batch::MemoryBatch, column::Column},
    version::Fence,
};

/// Rows of a batch, in the order of the batch or of its permutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Neighbours.
    Slices(Vec<Range<usize>>),
    /// One by one.
    Rows(Vec<u32>),
}

/// What decides besides the batch.
#[derive(Debug)]
pub struct Criteria<'a> {
    /// Wanted ticks.
    pub ticks: &'a TickRanges,
    /// Wanted gsn's.
    pub gsns: GsnRange,
    /// Wanted keys, with the column of each in this batch.
    pub keys: Vec<(&'a KeySet, &'a Column)>,
    /// Deletes.
    pub fences: &'a [Fence],
    /// Head of the snapshot.
    pub visible: Gsn,
    /// Whether rows are wanted in (tick, seq) order.
    pub ordered: bool,
}

impl Selection {
    /// Rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Slices(slices) => slices.iter().map(ExactSizeIterator::len).sum(),
            Self::Rows(rows) => rows.len(),
        }
    }
}

/// The rows of `batch` that meet the criteria.
pub fn select(batch: &MemoryBatch, criteria: &Criteria<'_>) -> Result<Selection> {
    // Rows lie in the order of gsn's.
    let before = |gsn: Gsn| gsn.0.checked_sub(1).map_or(0, |last| batch.rows_through(last));
    let first = before(criteria.gsns.start);
    let seen = batch.rows_through(criteria.visible.0).min(before(criteria.gsns.end)).max(first);
    let fences: Vec<(usize, TickRange)> = criteria
        .fences
        .iter()
        .filter(|fence| fence.ticks.overlaps(&batch.hull()))
        .map(|fence| (batch.rows_through(fence.gsn.0), fence.ticks))
        .filter(|(before, _)| *before > 0)
        .collect();
    let marks = batch.superseded_through(criteria.visible.0);
    let in_place = batch.ordered() || !criteria.ordered;

    // Slices: by binary search where the rows are sorted, the whole where all ticks fit.
    let slices = if criteria.ticks.covers(&batch.hull()) {
        Some(std::iter::once(first..seen).collect())
    } else if batch.ordered() {
        Some(slices_of(batch.ticks(), criteria.ticks, first..seen))
    } else {
        None
    };
    if in_place
        && fences.is_empty()
        && marks == 0
        && criteria.keys.is_empty()
        && let Some(slices) = slices
    {
        let slices = slices.into_iter().filter(|slice| !slice.is_empty()).collect();
        return Ok(Selection::Slices(slices));
    }

    // Everything else row by row.
    let mut keep = match &slices {
        Some(slices) => {
            let mut keep = vec![false; batch.rows()];
            for slice in slices {
                if let Some(rows) = keep.get_mut(slice.clone()) {
                    rows.fill(true);
                }
            }
            keep
        }
        None => batch
            .ticks()
            .iter()
            .enumerate()
            .map(|(row, tick)| (first..seen).contains(&row) && criteria.ticks.contains(Tick(*tick)))
            .collect(),
    };
    for mark in batch.superseded().iter().take(marks) {
        if let Some(keep) = keep.get_mut(mark.row as usize) {
            *keep = false;
        }
    }
    for (before, ticks) in fences {
        for (keep, tick) in keep.iter_mut().zip(batch.ticks().iter()).take(before) {
            *keep &= !ticks.contains(Tick(*tick));
        }
    }
    for (set, column) in &criteria.keys {
        for (keep, matches) in keep.iter_mut().zip(set.matches(column)?) {
            *keep &= matches;
        }
    }
    let kept = |row: &u32| keep.get(*row as usize).copied().unwrap_or(false);
    Ok(Selection::Rows(if in_place {
        (0..batch.rows() as u32).filter(kept).collect()
    } else {
        batch.permutation().iter().copied().filter(kept).collect()
    }))
}

fn slices_of(ticks: &[i64], ranges: &TickRanges, seen: Range<usize>) -> Vec<Range<usize>> {
    let first = seen.start;
    let seen_ticks = ticks.get(seen).unwrap_or(&[]);
    ranges
        .as_slice()
        .iter()
        .map(|range| {
            let start = seen_ticks.partition_point(|tick| *tick < range.start.0);
            let end = seen_ticks.partition_point(|tick| *tick < range.end.0);
            first + start..first + end
        })
        .collect()
}

#[cfg(test)]
mod tests;
