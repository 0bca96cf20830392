//! Collects the statistics of groups, column by column, with a row per group.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::DataType,
};
use stratalog_model::{
    Error, Result,
    aggregate::{AggregateRequest, Statistic, WHOLE_SUM},
};

use stratalog_story::kernel::{Number, Total};

/// The statistics of groups. The caller adds values to one group at a time, the current group.
#[derive(Debug)]
pub struct GroupTally {
    windows: Vec<i64>,
    columns: Vec<GroupStatistic>,
    /// Number of the current group.
    current: usize,
}

/// One statistic, with a value per group.
#[derive(Debug)]
enum GroupStatistic {
    Counts(Vec<i64>),
    Sums(Vec<Option<Total>>),
    Numbers(Vec<Option<Number>>, Greatest),
}

impl GroupStatistic {
    /// Number of groups.
    fn groups(&self) -> usize {
        match self {
            Self::Counts(counts) => counts.len(),
            Self::Sums(sums) => sums.len(),
            Self::Numbers(numbers, _) => numbers.len(),
        }
    }
}

/// True for the greatest value, false for the least value.
type Greatest = bool;

impl GroupTally {
    /// A tally without groups.
    pub fn new(request: &AggregateRequest) -> Self {
        let columns = request.statistics.iter().map(|wanted| match wanted.statistic {
            Statistic::Rows | Statistic::Count => GroupStatistic::Counts(Vec::new()),
            Statistic::Sum => GroupStatistic::Sums(Vec::new()),
            Statistic::Min => GroupStatistic::Numbers(Vec::new(), false),
            Statistic::Max => GroupStatistic::Numbers(Vec::new(), true),
        });
        Self { windows: Vec::new(), columns: columns.collect(), current: 0 }
    }

    fn assert_consistent(&self) {
        debug_assert!(
            self.columns.iter().all(|found| found.groups() == self.windows.len()),
            "a statistic lacks a group"
        );
        debug_assert!(self.current < self.windows.len(), "the current group does not exist");
    }

    /// Number of groups so far.
    pub fn rows(&self) -> usize {
        self.windows.len()
    }

    /// Begins a new group, which becomes the current group, and returns its number. `window` is the
    /// start of the group's window.
    pub fn group(&mut self, window: i64) -> usize {
        self.current = self.windows.len();
        self.windows.push(window);
        for found in &mut self.columns {
            match found {
                GroupStatistic::Counts(counts) => counts.push(0),
                GroupStatistic::Sums(sums) => sums.push(None),
                GroupStatistic::Numbers(numbers, _) => numbers.push(None),
            }
        }
        self.assert_consistent();
        self.current
    }

    /// Start of the window of a group.
    pub fn window(&self, group: usize) -> Option<i64> {
        self.windows.get(group).copied()
    }

    /// Makes the earlier group `group` the current group again.
    pub fn resume(&mut self, group: usize) {
        debug_assert!(group < self.windows.len(), "an unknown group goes on");
        self.current = group;
    }

    /// Adds a count to a statistic of the current group. `at` is the position of the statistic in
    /// the request.
    pub fn count(&mut self, at: usize, count: i64) {
        debug_assert!(self.current < self.windows.len(), "a count before the first group");
        debug_assert!(
            matches!(self.columns.get(at), Some(GroupStatistic::Counts(_))),
            "a count for another statistic"
        );
        if let Some(GroupStatistic::Counts(counts)) = self.columns.get_mut(at)
            && let Some(known) = counts.get_mut(self.current)
        {
            *known += count;
        }
    }

    /// Like [`Self::count`], for a sum.
    pub fn sum(&mut self, at: usize, sum: Option<Total>) {
        debug_assert!(
            matches!(self.columns.get(at), Some(GroupStatistic::Sums(_))),
            "a sum for another statistic"
        );
        if let Some(GroupStatistic::Sums(sums)) = self.columns.get_mut(at)
            && let (Some(known), Some(sum)) = (sums.get_mut(self.current), sum)
        {
            *known = Some(known.map_or(sum, |known| known.plus(sum)));
        }
    }

    /// Like [`Self::count`], for the least or greatest value.
    pub fn number(&mut self, at: usize, number: Option<Number>) {
        debug_assert!(
            matches!(self.columns.get(at), Some(GroupStatistic::Numbers(..))),
            "a number for another statistic"
        );
        if let Some(GroupStatistic::Numbers(numbers, greatest)) = self.columns.get_mut(at)
            && let (Some(known), Some(number)) = (numbers.get_mut(self.current), number)
        {
            *known = Some(known.map_or(number, |known| known.better(number, *greatest)));
        }
    }

    /// Converts all groups into a batch. `keys` are the key columns, with a row per group.
    ///
    /// # Errors
    /// `Internal` if a group lacks a statistic.
    pub fn batch(self, request: &AggregateRequest, keys: Vec<ArrayRef>) -> Result<RecordBatch> {
        let (schema, rows) = (request.schema(), self.rows());
        debug_assert_eq!(keys.len(), request.keys.len(), "the keys are not the wanted keys");
        debug_assert!(keys.iter().all(|key| key.len() == rows), "a group has no key");
        debug_assert_eq!(
            self.columns.len(),
            request.statistics.len(),
            "the statistics belong to another request"
        );
        let mut arrays = keys;
        if request.windows.is_some() {
            arrays.push(Arc::new(Int64Array::from(self.windows)));
        }
        for found in self.columns {
            let missing = || Error::internal("an aggregate has more columns than are wanted");
            let of = schema.fields().get(arrays.len()).ok_or_else(missing)?.data_type();
            arrays.push(match found {
                GroupStatistic::Counts(counts) => Arc::new(Int64Array::from(counts)),
                GroupStatistic::Sums(sums) => totals(&sums, of)?,
                GroupStatistic::Numbers(numbers, _) => {
                    cast(&plain(&numbers, of.is_floating()), of)?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}

/// Converts sums into an array of the data type `of`.
fn totals(sums: &[Option<Total>], of: &DataType) -> Result<ArrayRef> {
    if of.is_floating() {
        return Ok(Arc::new(Float64Array::from_iter(sums.iter().map(|sum| match sum {
            Some(Total::Float(sum)) => Some(*sum),
            Some(Total::Whole(_)) | None => None,
        }))));
    }
    let whole = sums.iter().map(|sum| match sum {
        Some(Total::Whole(sum)) => Some(*sum),
        Some(Total::Float(_)) | None => None,
    });
    Ok(Arc::new(Decimal128Array::from_iter(whole).with_data_type(WHOLE_SUM)))
}

/// Converts numbers into an array of floats if `floats` is set, otherwise of integers.
fn plain(numbers: &[Option<Number>], floats: bool) -> ArrayRef {
    debug_assert!(
        numbers.iter().flatten().all(|number| matches!(number, Number::Float(_)) == floats),
        "a number of another type becomes NULL"
    );
    if floats {
        return Arc::new(Float64Array::from_iter(numbers.iter().map(|number| match number {
            Some(Number::Float(value)) => Some(*value),
            Some(Number::Integer(_)) | None => None,
        })));
    }
    Arc::new(Int64Array::from_iter(numbers.iter().map(|number| match number {
        Some(Number::Integer(value)) => Some(*value),
        Some(Number::Float(_)) | None => None,
    })))
}
