//! What was found of groups: a row each, column by column.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchOptions},
    compute::cast,
};
use stratalog_model::{
    Error, Result,
    aggregate::{AggregateRequest, Statistic},
};

use super::kernel::Number;

/// Numbers of groups that are found one after another.
#[derive(Debug)]
pub struct Tally {
    windows: Vec<i64>,
    columns: Vec<Found>,
    rows: usize,
}

/// One statistic of each group.
#[derive(Debug)]
enum Found {
    Counts(Vec<i64>),
    Sums(Vec<Option<f64>>),
    Numbers(Vec<Option<Number>>),
}

impl Tally {
    /// An empty one.
    pub fn new(request: &AggregateRequest) -> Self {
        let columns = request.wanted.iter().map(|wanted| match wanted.statistic {
            Statistic::Rows | Statistic::Count => Found::Counts(Vec::new()),
            Statistic::Sum => Found::Sums(Vec::new()),
            Statistic::Min | Statistic::Max => Found::Numbers(Vec::new()),
        });
        Self { windows: Vec::new(), columns: columns.collect(), rows: 0 }
    }

    /// Groups so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Begins the next group, whose window begins at a tick.
    pub fn group(&mut self, window: i64) {
        self.windows.push(window);
        self.rows += 1;
    }

    /// The statistic at a place of the request, of the group that was begun last.
    pub fn count(&mut self, at: usize, count: i64) {
        if let Some(Found::Counts(counts)) = self.columns.get_mut(at) {
            counts.push(count);
        }
    }

    /// As [`Self::count`], a sum.
    pub fn sum(&mut self, at: usize, sum: Option<f64>) {
        if let Some(Found::Sums(sums)) = self.columns.get_mut(at) {
            sums.push(sum);
        }
    }

    /// As [`Self::count`], the least or greatest value.
    pub fn number(&mut self, at: usize, number: Option<Number>) {
        if let Some(Found::Numbers(numbers)) = self.columns.get_mut(at) {
            numbers.push(number);
        }
    }

    /// All groups, with their keys.
    ///
    /// # Errors
    /// `Internal` when a group lacks a statistic.
    pub fn batch(self, request: &AggregateRequest, keys: Vec<ArrayRef>) -> Result<RecordBatch> {
        let schema = request.schema();
        let mut arrays = keys;
        if request.windows.is_some() {
            arrays.push(Arc::new(Int64Array::from(self.windows)));
        }
        for found in self.columns {
            let missing = || Error::internal("an aggregate has more columns than are wanted");
            let of = schema.fields().get(arrays.len()).ok_or_else(missing)?.data_type();
            arrays.push(match found {
                Found::Counts(counts) => Arc::new(Int64Array::from(counts)),
                Found::Sums(sums) => Arc::new(Float64Array::from(sums)),
                Found::Numbers(numbers) => cast(&plain(&numbers, of.is_floating()), of)?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
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
