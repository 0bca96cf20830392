//! An immutable batch of committed events.
//!
//! ```text
//!   rows are in commit order:   gsn ascends, and a snapshot sees a prefix of the rows
//!   runs:       [row 0, seq 17, gsn 90] [row 3, seq 40, gsn 95] …   seq and gsn grow by 1 in a run
//!   superseded: row 1 at gsn 99         snapshots before 99 still see row 1
//! ```

use std::sync::{Arc, OnceLock};

use arrow::buffer::ScalarBuffer;
use parking_lot::RwLock;
use stratalog_model::{Gsn, GsnRange, Result, Tick, TickRange};

use super::{column::Column, shape::Shape};
use crate::events::{
    budget::{Budget, Claim},
    keys::groups_of_rows,
    numberings::SeriesNumbers,
};

/// Bytes of a row of usual width, which has weight 1. See [`MemoryBatch::weight`].
const WEIGHED_ROW_BYTES: usize = 128;

/// A run of consecutive rows in which seq and gsn both grow by 1 from row to row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First row.
    pub row: u32,
    /// Arrival number of the first row.
    pub seq: u64,
    /// Commit number of the first row.
    pub gsn: u64,
}

/// A mark of a row that a later event with the same collision key has replaced (`collision =
/// 'last'` and `'merge'`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupersededRow {
    /// The row.
    pub row: u32,
    /// gsn of the later event.
    pub gsn: u64,
}

/// The newest row of each series in a batch.
#[derive(Debug)]
pub struct Newest {
    /// Row numbers, ascending.
    pub rows: Box<[u32]>,
    /// The group number of the series of each row.
    pub numbered: SeriesNumbers,
    _claim: Claim,
}

/// A batch in memory of committed events of one chronicle and one schema version. Only the marks of
/// replaced rows can change.
#[derive(Debug)]
pub struct MemoryBatch {
    shape: Arc<Shape>,
    columns: Vec<Column>,
    ticks: ScalarBuffer<i64>,
    runs: Vec<Run>,
    last_gsn: u64,
    hull: TickRange,
    weight: usize,
    ordered: bool,
    permutation: OnceLock<Arc<[u32]>>,
    newest: OnceLock<Arc<Newest>>,
    superseded: RwLock<Arc<Vec<SupersededRow>>>,
    claim: Claim,
}

impl MemoryBatch {
    /// Creates a batch. `runs` has the arrival and commit numbers of the rows; the first run begins
    /// with row 0.
    pub fn new(
        shape: Arc<Shape>,
        columns: Vec<Column>,
        ticks: ScalarBuffer<i64>,
        runs: Vec<Run>,
        claim: Claim,
    ) -> Self {
        debug_assert!(u32::try_from(ticks.len()).is_ok(), "a row has no row number");
        debug_assert!(ticks.is_empty() || !runs.is_empty(), "rows without numbers");
        debug_assert!(
            runs.last().is_none_or(|run| run.row as usize <= ticks.len()),
            "a run begins behind the last row"
        );
        let last_gsn =
            runs.last().map_or(0, |run| run.gsn + (ticks.len() as u64 - u64::from(run.row)) - 1);
        let hull = hull_of(&ticks);
        debug_assert!(
            runs.first().is_none_or(|run| run.row == 0)
                && runs.is_sorted_by(|a, b| a.row < b.row && a.gsn < b.gsn)
        );
        let bytes: usize = columns.iter().map(Column::bytes).sum();
        let weight = ticks.len().max(bytes / WEIGHED_ROW_BYTES);
        let mut batch = Self {
            shape,
            columns,
            ticks,
            runs,
            last_gsn,
            hull,
            weight,
            ordered: false,
            permutation: OnceLock::new(),
            newest: OnceLock::new(),
            superseded: RwLock::default(),
            claim,
        };
        batch.ordered = batch.is_ordered();
        batch
    }

    /// A copy of the batch for one transaction, with only the marks that a snapshot at `visible`
    /// sees. The copy never receives the marks of later commits.
    pub fn private(&self, visible: u64, budget: &Arc<Budget>) -> Self {
        let mut marks = self.superseded().as_ref().clone();
        marks.retain(|mark| mark.gsn <= visible);
        debug_assert!(marks.is_sorted_by_key(|mark| mark.gsn), "the marks are not in order");
        Self {
            shape: Arc::clone(&self.shape),
            columns: self.columns.clone(),
            ticks: self.ticks.clone(),
            runs: self.runs.clone(),
            last_gsn: self.last_gsn,
            hull: self.hull,
            weight: self.weight,
            ordered: self.ordered,
            permutation: self.permutation.clone(),
            newest: self.newest.clone(),
            superseded: RwLock::new(Arc::new(marks)),
            // The copy shares memory that the budget already counts.
            claim: budget.claim_anyway(0),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ticks.len()
    }

    /// Size of the batch, measured in rows of usual width: the number of rows, or more if the rows
    /// are wide. Compaction uses the weight, because the cost of a copy depends on the bytes.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Columns and types of the events.
    pub fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The newest row of each series. The first call computes the result and caches it.
    ///
    /// # Errors
    /// `Internal`.
    pub fn newest(&self) -> Result<Arc<Newest>> {
        if let Some(known) = self.newest.get() {
            return Ok(Arc::clone(known));
        }
        let (groups, count) = groups_of_rows(&self.columns, &self.shape.keys, self.rows())?;
        debug_assert!(groups.is_empty() || groups.len() == self.rows(), "a row has no group");
        let mut newest: Vec<Option<(i64, u32)>> = vec![None; count];
        for (row, tick) in (0..).zip(self.ticks.iter()) {
            let group = groups.get(row as usize).copied().unwrap_or_default();
            if let Some(known) = newest.get_mut(group as usize)
                && known.is_none_or(|(known, _)| known < *tick)
            {
                *known = Some((*tick, row));
            }
        }
        let mut rows: Vec<u32> = newest.into_iter().flatten().map(|(_, row)| row).collect();
        rows.sort_unstable();
        debug_assert!(rows.len() <= count, "a series has two newest rows");
        // Two `u32` per series: a row and a group number.
        let claim = self.claim.derived(rows.len() * 2 * size_of::<u32>());
        let newest =
            || Newest { rows: rows.into(), numbered: SeriesNumbers::default(), _claim: claim };
        Ok(Arc::clone(self.newest.get_or_init(|| Arc::new(newest()))))
    }

    /// Tick of each row.
    pub fn ticks(&self) -> &ScalarBuffer<i64> {
        &self.ticks
    }

    /// The runs, which have the arrival and commit numbers of the rows.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The runs, each with its number of rows.
    pub fn runs_with_rows(&self) -> impl Iterator<Item = (Run, u64)> + '_ {
        let ends = self.runs.iter().skip(1).map(|run| run.row as usize).chain([self.rows()]);
        self.runs.iter().zip(ends).map(|(run, end)| (*run, (end - run.row as usize) as u64))
    }

    /// Smallest range that contains the ticks of all rows, including replaced rows (whose
    /// replacements have the same ticks).
    pub fn hull(&self) -> TickRange {
        self.hull
    }

    /// True if the rows are in (tick, seq) order.
    pub fn ordered(&self) -> bool {
        self.ordered
    }

    /// Bytes that the batch has claimed from the budget.
    pub fn bytes(&self) -> u64 {
        self.claim.bytes()
    }

    /// Gsn of the first row.
    pub fn first_gsn(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.gsn)
    }

    /// Gsn of the last row.
    pub fn last_gsn(&self) -> u64 {
        self.last_gsn
    }

    /// Smallest range that contains the gsn's of all rows.
    pub fn gsns(&self) -> GsnRange {
        debug_assert!(
            self.ticks.is_empty() || self.first_gsn() <= self.last_gsn,
            "the last gsn precedes the first gsn"
        );
        GsnRange::between(Gsn(self.first_gsn()), Gsn(self.last_gsn))
    }

    /// Number of rows with a gsn up to `gsn`. These rows are the first rows of the batch.
    pub fn rows_through(&self, gsn: u64) -> usize {
        if self.last_gsn <= gsn {
            return self.rows();
        }
        let after = self.runs.partition_point(|run| run.gsn <= gsn);
        let Some(run) = after.checked_sub(1).and_then(|at| self.runs.get(at)) else { return 0 };
        let end = self.runs.get(after).map_or(self.rows(), |next| next.row as usize);
        let rows = usize::try_from(gsn - run.gsn + 1).unwrap_or(usize::MAX);
        debug_assert!((run.row as usize) < end, "a run without rows");
        end.min((run.row as usize).saturating_add(rows))
    }

    /// The row with this gsn; `None` if the batch has no such row.
    pub fn row_of(&self, gsn: u64) -> Option<usize> {
        let at = self.runs.partition_point(|run| run.gsn <= gsn).checked_sub(1)?;
        let run = self.runs.get(at)?;
        let end = self.runs.get(at + 1).map_or(self.rows(), |next| next.row as usize);
        let row = (run.row as usize).checked_add(usize::try_from(gsn - run.gsn).ok()?)?;
        debug_assert!(row >= end || self.gsn(row) == gsn, "the row has another gsn");
        (row < end).then_some(row)
    }

    /// The run that contains `row`.
    fn run_of(&self, row: usize) -> Option<&Run> {
        let at = self.runs.partition_point(|run| run.row as usize <= row).checked_sub(1)?;
        self.runs.get(at)
    }

    /// Arrival number of a row.
    pub fn seq(&self, row: usize) -> u64 {
        debug_assert!(row < self.rows(), "the seq of a row behind the last row");
        self.run_of(row).map_or(0, |run| run.seq + (row as u64 - u64::from(run.row)))
    }

    /// Commit number of a row.
    pub fn gsn(&self, row: usize) -> u64 {
        debug_assert!(row < self.rows(), "the gsn of a row behind the last row");
        self.run_of(row).map_or(0, |run| run.gsn + (row as u64 - u64::from(run.row)))
    }

    /// Row numbers in (tick, seq) order; computed by the first call.
    pub fn permutation(&self) -> Arc<[u32]> {
        let order = self.permutation.get_or_init(|| {
            let mut rows: Vec<(i64, u64, u32)> = self
                .ticks
                .iter()
                .zip(self.seqs())
                .enumerate()
                .map(|(row, (tick, seq))| (*tick, seq, row as u32))
                .collect();
            rows.sort_unstable();
            rows.into_iter().map(|(_, _, row)| row).collect()
        });
        debug_assert_eq!(order.len(), self.rows(), "a row is missing in the permutation");
        Arc::clone(order)
    }

    /// Arrival numbers of all rows.
    pub fn seqs(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs_with_rows().flat_map(|(run, rows)| (0..rows).map(move |n| run.seq + n))
    }

    /// Marks of the rows replaced so far, in commit order.
    pub fn superseded(&self) -> Arc<Vec<SupersededRow>> {
        Arc::clone(&self.superseded.read())
    }

    /// Number of rows that events with a gsn up to `gsn` have replaced.
    pub fn superseded_through(&self, gsn: u64) -> usize {
        let superseded = self.superseded.read();
        let count = superseded.partition_point(|mark| mark.gsn <= gsn);
        debug_assert!(count <= self.rows(), "more replaced rows than rows");
        count
    }

    /// Marks `row` as replaced by the event with the gsn `gsn`. Returns the new number of marks.
    /// Call only under the publisher's lock, which keeps the marks in ascending order.
    pub fn supersede(&self, row: usize, gsn: u64) -> usize {
        let mut superseded = self.superseded.write();
        let marks = Arc::make_mut(&mut superseded);
        debug_assert!(row < self.rows() && marks.last().is_none_or(|last| last.gsn <= gsn));
        marks.push(SupersededRow { row: row as u32, gsn });
        marks.len()
    }

    /// Sets all marks of a batch that replaces other batches.
    pub fn set_superseded(&self, mut marks: Vec<SupersededRow>) {
        marks.sort_unstable_by_key(|mark| mark.gsn);
        debug_assert!(marks.iter().all(|mark| (mark.row as usize) < self.rows()));
        debug_assert!(marks.len() <= self.rows(), "a row is replaced twice");
        *self.superseded.write() = Arc::new(marks);
    }

    fn is_ordered(&self) -> bool {
        let mut seqs_ascend = true;
        for pair in self.runs.windows(2) {
            if let [a, b] = pair {
                seqs_ascend &= a.seq + u64::from(b.row - a.row) <= b.seq;
            }
        }
        if seqs_ascend {
            return self.ticks.is_sorted();
        }
        self.ticks.iter().zip(self.seqs()).is_sorted()
    }
}

/// The smallest range that contains all `ticks`.
pub fn hull_of(ticks: &[i64]) -> TickRange {
    let hull = match (ticks.iter().min(), ticks.iter().max()) {
        (Some(min), Some(max)) => TickRange::new(Tick(*min), Tick(*max).next()),
        _ => TickRange::EMPTY,
    };
    debug_assert!(
        ticks.last().is_none_or(|tick| hull.start.0 <= *tick && *tick <= hull.end.0),
        "a tick outside of the hull"
    );
    hull
}

#[cfg(test)]
mod tests;
