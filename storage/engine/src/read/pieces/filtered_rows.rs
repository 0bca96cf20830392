//! Reads rows of a story by filters on numbers. The filtered columns are compared first, and stay
//! decoded in memory; the remaining columns are then read only for the selected rows.
//!
//! ```text
//!   usage_user    12  95  40  91  7 …      compared first ─► rows 1, 3, …
//!   other columns  ·   x   ·   x  · …      read for these rows only
//! ```

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::{concat, take},
    datatypes::{DataType, Field, Float64Type, Int16Type, Int32Type, Int64Type, Schema},
};
use stratalog_model::{
    Error, Result,
    values::{OrderedValue, ValuePredicate},
};
use stratalog_story::{CHUNK_ROWS, Selection, Source, Story};

use super::reader::PieceReader;
use crate::{events::part_events::PartEvents, version::piece::Part};

/// Single rows are read only if at most `1 / SHARE` of the rows match. Otherwise all rows are read.
const SHARE: usize = 3;

/// Number of rows decompressed at a time.
const BATCH_ROWS: usize = 8_192;

/// The rows of a row group that match the number filters.
#[derive(Debug)]
pub struct FilteredRows {
    /// Row numbers, ascending.
    rows: Vec<u32>,
    /// The rows that were compared with the filters.
    selection: Selection,
    read_bytes: u64,
}

/// An inclusive range of numbers; a bound of `None` is open.
enum NumberRange {
    Floats(Option<f64>, Option<f64>),
    Whole(Option<i128>, Option<i128>),
}

impl FilteredRows {
    /// Finds the rows of `selection` that match the number filters of the request. Returns
    /// `selection` unchanged (as the inner `Err`) if the request has no usable number filter, or if
    /// more than `1 / SHARE` of the rows match.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn find(
        reader: &PieceReader,
        story: &Arc<Story>,
        part: &Part,
        selection: Selection,
    ) -> Result<Result<Self, Selection>> {
        let mut filters = Vec::new();
        for values in reader.column_values() {
            if let ValuePredicate::Between(low, high) = &values.predicate
                && let Some(between) = NumberRange::of(low.as_ref(), high.as_ref())
            {
                filters.push((Source::Column(values.column), between));
            }
        }
        for (source, low, high) in reader.numbers() {
            let whole = |number: &i64| Some(i128::from(*number));
            filters.push((*source, NumberRange::Whole(whole(low), whole(high))));
        }
        if filters.is_empty() {
            return Ok(Err(selection));
        }
        let mut read_bytes = 0;
        let mut rows: Option<Vec<u32>> = None;
        for (source, between) in filters {
            let columns = story
                .columns(part.number, std::slice::from_ref(&source), selection.ranges())
                .await?;
            read_bytes += columns.read_bytes();
            let Some(found) = between.rows_of(columns.chunks(0), selection.ranges())? else {
                continue;
            };
            rows = Some(match rows {
                Some(before) => common(&before, &found),
                None => found,
            });
        }
        match rows.filter(|rows| rows.len() * SHARE <= selection.rows()) {
            Some(rows) => Ok(Ok(Self { rows, selection, read_bytes })),
            None => Ok(Err(selection)),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Reads the columns that the request needs.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn events(
        &self,
        reader: &PieceReader,
        story: &Arc<Story>,
        part: &Part,
    ) -> Result<PartEvents> {
        debug_assert!(!self.rows.is_empty(), "a read without rows");
        let sources = reader.sources(&part.hull)?;
        let ranges = self.ranges();
        let in_memory = |source: &Source| story.is_decoded(part.number, *source, &ranges);
        let (kept, others): (Vec<Source>, Vec<Source>) =
            sources.iter().copied().partition(in_memory);
        let columns = story.columns(part.number, &kept, &ranges).await?;
        let mut read_bytes = self.read_bytes + columns.read_bytes();
        let mut kept_arrays = Vec::with_capacity(kept.len());
        for at in 0..kept.len() {
            kept_arrays.push(self.of_chunks(columns.chunks(at))?);
        }
        let mut other_arrays = Vec::new();
        if !others.is_empty() {
            let fetched = story.fetch(part.number, &others, Some(&self.selection)).await?;
            read_bytes += fetched.bytes() as u64;
            other_arrays = self.of_batches(fetched.decode(BATCH_ROWS)?, others.len())?;
        }
        let metrics = &reader.request().metrics.story;
        metrics.read(self.selection.rows() as u64, read_bytes);
        let (mut kept_arrays, mut other_arrays) =
            (kept_arrays.into_iter(), other_arrays.into_iter());
        let arrays = sources.iter().map(|source| {
            let array =
                if kept.contains(source) { kept_arrays.next() } else { other_arrays.next() };
            array.ok_or_else(|| Error::internal("a column was not read"))
        });
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let fields = arrays.iter().map(|array| Field::new("", array.data_type().clone(), true));
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
        reader.events(&batch, &part.hull)
    }

    /// A range of rows for each chunk of a column that has selected rows.
    fn ranges(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for row in &self.rows {
            let row = *row as usize;
            match ranges.last_mut() {
                Some(last) if row / CHUNK_ROWS == (last.end - 1) / CHUNK_ROWS => last.end = row + 1,
                _ => ranges.push(row..row + 1),
            }
        }
        debug_assert!(ranges.is_sorted_by(|a, b| a.end <= b.start), "the ranges of rows overlap");
        ranges
    }

    /// Copies the selected rows from the chunks of a column.
    fn of_chunks(&self, chunks: &[(u32, ArrayRef)]) -> Result<ArrayRef> {
        let mut picked = Vec::with_capacity(chunks.len());
        let mut rest = self.rows.as_slice();
        for (number, array) in chunks {
            let end = (number + 1) * CHUNK_ROWS as u32;
            let (own, behind) = rest.split_at(rest.partition_point(|row| *row < end));
            rest = behind;
            let start = number * CHUNK_ROWS as u32;
            debug_assert!(own.first().is_none_or(|row| start <= *row), "a row has no chunk");
            let own = own.iter().map(|row| row.saturating_sub(start));
            picked.push(take(array, &UInt32Array::from_iter_values(own), None)?);
        }
        debug_assert!(rest.is_empty(), "a row lies behind the chunks");
        concat_ranges(&picked)
    }

    /// Copies the selected rows from `batches`, which contain the rows of the selection one after
    /// another.
    fn of_batches(
        &self,
        batches: impl Iterator<Item = Result<RecordBatch>>,
        columns: usize,
    ) -> Result<Vec<ArrayRef>> {
        // Position of each selected row within the selection.
        let mut places = Vec::with_capacity(self.rows.len());
        let (mut rest, mut before) = (self.rows.as_slice(), 0_u32);
        for range in self.selection.ranges() {
            let (own, behind) =
                rest.split_at(rest.partition_point(|row| (*row as usize) < range.end));
            places.extend(own.iter().map(|row| row - range.start as u32 + before));
            (rest, before) = (behind, before + range.len() as u32);
        }
        debug_assert_eq!(places.len(), self.rows.len(), "a row lies outside of the selection");
        let mut picked: Vec<Vec<ArrayRef>> = vec![Vec::new(); columns];
        let (mut rest, mut start) = (places.as_slice(), 0_u32);
        for batch in batches {
            let batch = batch?;
            let end = start + batch.num_rows() as u32;
            let (own, behind) = rest.split_at(rest.partition_point(|place| *place < end));
            rest = behind;
            if !own.is_empty() {
                let own = UInt32Array::from_iter_values(own.iter().map(|place| place - start));
                for (array, picked) in batch.columns().iter().zip(&mut picked) {
                    picked.push(take(array, &own, None)?);
                }
            }
            start = end;
        }
        picked.iter().map(|picked| concat_ranges(picked)).collect()
    }
}

/// Concatenates arrays of the same type; the list must not be empty.
fn concat_ranges(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    if let [one] = arrays {
        return Ok(Arc::clone(one));
    }
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    Ok(concat(&arrays)?)
}

/// The numbers that are in both ascending lists.
fn common(one: &[u32], other: &[u32]) -> Vec<u32> {
    debug_assert!(one.is_sorted() && other.is_sorted(), "the rows of a filter are not in order");
    let mut other = other.iter().peekable();
    let both = |row: &&u32| {
        while other.next_if(|next| next < row).is_some() {}
        other.peek() == Some(row)
    };
    one.iter().filter(both).copied().collect()
}

impl NumberRange {
    fn of(low: Option<&OrderedValue>, high: Option<&OrderedValue>) -> Option<Self> {
        match (low, high) {
            (None, None) => None,
            (None | Some(OrderedValue::Float(_)), None | Some(OrderedValue::Float(_))) => {
                let float = |ranked: Option<&OrderedValue>| match ranked {
                    Some(OrderedValue::Float(value)) => Some(*value),
                    _ => None,
                };
                Some(Self::Floats(float(low), float(high)))
            }
            (None | Some(OrderedValue::Whole(_)), None | Some(OrderedValue::Whole(_))) => {
                let whole = |ranked: Option<&OrderedValue>| match ranked {
                    Some(OrderedValue::Whole(value)) => Some(*value),
                    _ => None,
                };
                Some(Self::Whole(whole(low), whole(high)))
            }
            _ => None,
        }
    }

    /// The rows of `ranges` with a value in the range. NULL never matches, and NaN always matches.
    /// `None` if the type of the values is not supported.
    fn rows_of(
        &self,
        chunks: &[(u32, ArrayRef)],
        ranges: &[Range<usize>],
    ) -> Result<Option<Vec<u32>>> {
        let mut rows = Vec::new();
        let mut chunks = chunks.iter().peekable();
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let number = at / CHUNK_ROWS;
                while chunks.next_if(|(chunk, _)| (*chunk as usize) < number).is_some() {}
                let Some((_, array)) = chunks.peek() else {
                    return Err(Error::internal("a chunk was not read"));
                };
                let start = at - number * CHUNK_ROWS;
                let len = (range.end - at).min(array.len().saturating_sub(start)).max(1);
                let first = number * CHUNK_ROWS;
                if !self.add(array, start..start + len, first as u32, &mut rows) {
                    return Ok(None);
                }
                at += len;
            }
        }
        debug_assert!(rows.is_sorted_by(|a, b| a < b), "the rows of a filter are not in order");
        Ok(Some(rows))
    }

    /// Appends the matching rows of a chunk to `rows`. `own` are the rows to compare, `first` the
    /// row number of the chunk's first row. Returns false if the type of the values is not
    /// supported.
    fn add(&self, array: &ArrayRef, own: Range<usize>, first: u32, rows: &mut Vec<u32>) -> bool {
        debug_assert!(own.end <= array.len(), "the rows end behind their chunk");
        /// Appends the rows whose value, of the Arrow type `$of`, lies in the wanted range.
        macro_rules! add {
            ($of:ty, $low:expr, $high:expr) => {{
                let values = array.as_primitive::<$of>();
                let (low, high) = ($low, $high);
                let nulls = values.nulls();
                let wanted = values.values().get(own.clone()).unwrap_or(&[]).iter().enumerate();
                rows.extend(
                    wanted
                        .filter(|(at, value)| {
                            let outside = **value < low || **value > high;
                            !outside && nulls.is_none_or(|nulls| nulls.is_valid(own.start + at))
                        })
                        .map(|(at, _)| first + (own.start + at) as u32),
                );
                true
            }};
        }
        /// Compares integers: clamps the range to the type `$native`.
        macro_rules! whole {
            ($of:ty, $native:ty, $low:expr, $high:expr) => {{
                let bound = |value: &Option<i128>, none: $native| match value {
                    Some(value) => {
                        (*value).clamp(<$native>::MIN.into(), <$native>::MAX.into()) as $native
                    }
                    None => none,
                };
                add!($of, bound($low, <$native>::MIN), bound($high, <$native>::MAX))
            }};
        }
        match (self, array.data_type()) {
            (Self::Floats(low, high), DataType::Float64) => {
                let (low, high) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
                add!(Float64Type, low, high)
            }
            (Self::Whole(low, high), DataType::Int16) => whole!(Int16Type, i16, low, high),
            (Self::Whole(low, high), DataType::Int32) => whole!(Int32Type, i32, low, high),
            (Self::Whole(low, high), DataType::Int64) => whole!(Int64Type, i64, low, high),
            _ => false,
        }
    }
}
