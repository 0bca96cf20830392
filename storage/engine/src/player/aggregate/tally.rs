//! What was found of groups: a row each, column by column.

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

/// Numbers of groups that are found one after another.
#[derive(Debug)]
pub struct Tally {
    windows: Vec<i64>,
    columns: Vec<Found>,
    /// The group that is counted.
    current: usize,
}

/// One statistic of each group.
#[derive(Debug)]
enum Found {
    Counts(Vec<i64>),
    Sums(Vec<Option<Total>>),
    Numbers(Vec<Option<Number>>, Greatest),
}

/// Whether the greatest is looked for, or the least.
type Greatest = bool;

impl Tally {
    /// An empty one.
    pub fn new(request: &AggregateRequest) -> Self {
        let columns = request.wanted.iter().map(|wanted| match wanted.statistic {
            Statistic::Rows | Statistic::Count => Found::Counts(Vec::new()),
            Statistic::Sum => Found::Sums(Vec::new()),
            Statistic::Min => Found::Numbers(Vec::new(), false),
            Statistic::Max => Found::Numbers(Vec::new(), true),
        });
        Self { windows: Vec::new(), columns: columns.collect(), current: 0 }
    }

    /// Groups so far.
    pub fn rows(&self) -> usize {
        self.windows.len()
    }

    /// Begins the next group, whose window begins at a tick; its number.
    pub fn group(&mut self, window: i64) -> usize {
        self.current = self.windows.len();
        self.windows.push(window);
        for found in &mut self.columns {
            match found {
                Found::Counts(counts) => counts.push(0),
                Found::Sums(sums) => sums.push(None),
                Found::Numbers(numbers, _) => numbers.push(None),
            }
        }
        self.current
    }

    /// Where the window of a group begins.
    pub fn window(&self, group: usize) -> Option<i64> {
        self.windows.get(group).copied()
    }

    /// Goes on with a group, by its number.
    pub fn resume(&mut self, group: usize) {
        self.current = group;
    }

    /// More of the statistic at a place of the request, of the group that is counted.
    pub fn count(&mut self, at: usize, count: i64) {
        if let Some(Found::Counts(counts)) = self.columns.get_mut(at)
            && let Some(known) = counts.get_mut(self.current)
        {
            *known += count;
        }
    }

    /// As [`Self::count`], a sum.
    pub fn sum(&mut self, at: usize, sum: Option<Total>) {
        if let Some(Found::Sums(sums)) = self.columns.get_mut(at)
            && let (Some(known), Some(sum)) = (sums.get_mut(self.current), sum)
        {
            *known = Some(known.map_or(sum, |known| known.plus(sum)));
        }
    }

    /// As [`Self::count`], the least or greatest value.
    pub fn number(&mut self, at: usize, number: Option<Number>) {
        if let Some(Found::Numbers(numbers, greatest)) = self.columns.get_mut(at)
            && let (Some(known), Some(number)) = (numbers.get_mut(self.current), number)
        {
            *known = Some(known.map_or(number, |known| known.better(number, *greatest)));
        }
    }

    /// All groups, with their keys.
    ///
    /// # Errors
    /// `Internal` when a group lacks a statistic.
    pub fn batch(self, request: &AggregateRequest, keys: Vec<ArrayRef>) -> Result<RecordBatch> {
        let (schema, rows) = (request.schema(), self.rows());
        let mut arrays = keys;
        if request.windows.is_some() {
            arrays.push(Arc::new(Int64Array::from(self.windows)));
        }
        for found in self.columns {
            let missing = || Error::internal("an aggregate has more columns than are wanted");
            let of = schema.fields().get(arrays.len()).ok_or_else(missing)?.data_type();
            arrays.push(match found {
                Found::Counts(counts) => Arc::new(Int64Array::from(counts)),
                Found::Sums(sums) => totals(&sums, of)?,
                Found::Numbers(numbers, _) => cast(&plain(&numbers, of.is_floating()), of)?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}

/// Sums of one kind.
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

/// Numbers of one kind.
fn plain(numbers: &[Option<Number>], floats: bool) -> ArrayRef {
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
