//! Selects the rows of a batch in memory that are visible and match a request. The selection
//! depends only on the batch, the request and the snapshot.

use std::ops::Range;

use ahash::RandomState;
use hashbrown::HashSet;
use stratalog_model::{Gsn, GsnRange, Result, Tick, TickRange, TickRanges};

use super::key_set::KeySet;
use crate::{
    events::{batch::MemoryBatch, column::Column},
    version::fence::Fence,
};

/// The selected rows of a batch, in stored order or, if sorted, in (tick, seq) order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Ranges of consecutive rows.
    Slices(Vec<Range<usize>>),
    /// Numbers of single rows.
    Rows(Vec<u32>),
}

/// The criteria by which rows are selected.
#[derive(Debug)]
pub struct Criteria<'a> {
    /// Wanted ticks.
    pub ticks: &'a TickRanges,
    /// Wanted gsns.
    pub gsns: GsnRange,
    /// The key filters, each with its column in the batch.
    pub keys: Vec<(&'a KeySet, &'a Column)>,
    /// The deletes of the version.
    pub fences: &'a [Fence],
    /// Highest gsn that the snapshot sees.
    pub visible: Gsn,
    /// True if the rows must be in (tick, seq) order.
    pub ordered: bool,
}

impl Selection {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Slices(slices) => slices.iter().map(ExactSizeIterator::len).sum(),
            Self::Rows(rows) => rows.len(),
        }
    }
}

/// Selects the rows of `batch` that match the criteria.
pub fn select(batch: &MemoryBatch, criteria: &Criteria<'_>) -> Result<Selection> {
    debug_assert!(
        criteria.keys.iter().all(|(_, column)| column.len() == batch.rows()),
        "a key column has other rows than its batch"
    );
    // The rows are in gsn order: the visible rows are a range.
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
    debug_assert!(first <= seen && seen <= batch.rows());
    let marks = batch.superseded_through(criteria.visible.0);
    let in_place = batch.ordered() || !criteria.ordered;

    // Ranges of rows without a test of each row: the whole range if the criteria include all ticks
    // of the batch, and binary search if the rows are sorted.
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

    let hidden = HiddenRows::new(batch, marks, &fences);
    if !criteria.keys.is_empty() {
        let mut rows = rows_of_keys(&criteria.keys)?;
        let tick = |row: u32| batch.ticks().get(row as usize).copied().unwrap_or_default();
        rows.retain(|row| {
            (first..seen).contains(&(*row as usize))
                && criteria.ticks.contains(Tick(tick(*row)))
                && !hidden.hides(*row, tick(*row))
        });
        if !in_place {
            rows.sort_unstable_by_key(|row| (tick(*row), batch.seq(*row as usize)));
        }
        return Ok(Selection::Rows(rows));
    }

    // The general case: tests row by row.
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
    for ((row, keep), tick) in (0..).zip(&mut keep).zip(batch.ticks().iter()) {
        *keep = *keep && !hidden.hides(row, *tick);
    }
    let kept = |row: &u32| keep.get(*row as usize).copied().unwrap_or(false);
    Ok(Selection::Rows(if in_place {
        (0..batch.rows() as u32).filter(kept).collect()
    } else {
        batch.permutation().iter().copied().filter(kept).collect()
    }))
}

/// The rows whose values match every key filter, ascending.
fn rows_of_keys(keys: &[(&KeySet, &Column)]) -> Result<Vec<u32>> {
    let Some(((set, column), others)) = keys.split_first() else { return Ok(Vec::new()) };
    let mut rows = set.rows(column)?;
    for (set, column) in others {
        set.retain(column, &mut rows)?;
    }
    Ok(rows)
}

/// The rows that replacements and deletes hide.
struct HiddenRows<'a> {
    replaced: HashSet<u32, RandomState>,
    /// For each delete: the number of leading rows that the delete may hide, and its ticks.
    fences: &'a [(usize, TickRange)],
}

impl<'a> HiddenRows<'a> {
    fn new(batch: &MemoryBatch, marks: usize, fences: &'a [(usize, TickRange)]) -> Self {
        let replaced = batch.superseded().iter().take(marks).map(|mark| mark.row).collect();
        Self { replaced, fences }
    }

    fn hides(&self, row: u32, tick: i64) -> bool {
        let behind = |(rows, ticks): &(usize, TickRange)| {
            (row as usize) < *rows && ticks.contains(Tick(tick))
        };
        (!self.replaced.is_empty() && self.replaced.contains(&row))
            || self.fences.iter().any(behind)
    }
}

fn slices_of(ticks: &[i64], ranges: &TickRanges, seen: Range<usize>) -> Vec<Range<usize>> {
    let first = seen.start;
    debug_assert!(seen.end <= ticks.len(), "a snapshot sees more rows than the batch has");
    let seen_ticks = ticks.get(seen).unwrap_or(&[]);
    let slices: Vec<Range<usize>> = ranges
        .as_slice()
        .iter()
        .map(|range| {
            let start = seen_ticks.partition_point(|tick| *tick < range.start.0);
            let end = seen_ticks.partition_point(|tick| *tick < range.end.0);
            first + start..first + end
        })
        .collect();
    debug_assert!(slices.is_sorted_by(|a, b| a.end <= b.start), "the slices of a batch overlap");
    slices
}

#[cfg(test)]
mod tests;
