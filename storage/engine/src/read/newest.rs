//! Finds the best event of each group: the newest, or the oldest if requested (F28, F50). The
//! search reads the splits with the best ticks first, so that later splits rarely have a better
//! event.
//!
//! ```text
//!   splits, best ticks first ─► candidates: better than the best so far ─► best of each group
//! ```

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::interleave,
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt32Type},
};
use futures::{StreamExt, TryStreamExt, stream};
use stratalog_model::{
    Error, Result,
    ipc::array_bytes,
    newest::{Best, GroupNumbers, NewestOf, sort_from_end},
    tier::{BatchStream, ScanMemory, ScanRequest, Split},
};

use crate::events::{
    column::Column,
    keys::{Groups, KeyBytes},
    numberings::LentNumbers,
    runs::compacted,
    shape::KeyColumns,
};

/// Number of splits after which the task yields.
const PIECES_IN_A_ROW: usize = 16;

/// Bytes of unused buffer memory that a candidate column may keep alive before the column is
/// copied.
const SHARED_BYTES_MAX: usize = 16 << 10;

/// Maximum number of candidates in memory that are no longer the best of their group.
const BEATEN_MAX: usize = 1 << 16;

/// Candidates: rows of a batch or part that are better than the best known events of their groups.
#[derive(Debug, Default)]
pub struct EdgeCandidates {
    /// The row numbers.
    pub rows: Vec<u32>,
    ticks: Vec<i64>,
    groups: Vec<u32>,
}

impl EdgeCandidates {
    /// Finds the best row of each group, and keeps the rows that are better than `best`.
    pub fn among(
        best: &Best,
        groups: &Groups,
        rows: impl Iterator<Item = u32>,
        tick_of: impl Fn(u32) -> i64,
    ) -> Self {
        let mut own: Vec<Option<(u32, i64)>> = vec![None; groups.keys.len()];
        for row in rows {
            let tick = tick_of(row);
            if let Some(known) = own.get_mut(groups.group(row as usize))
                && known.is_none_or(|(_, known)| best.of().better(tick, known))
            {
                *known = Some((row, tick));
            }
        }
        let numbers = best.numbers().of(groups.keys.iter().map(AsRef::as_ref));
        let found = numbers.into_iter().zip(own);
        let found = found.filter_map(|(number, own)| own.map(|(row, tick)| (row, number, tick)));
        Self::improving(best, found.collect())
    }

    /// Keeps the rows that are better than `best`. `numbers` has the group number of each row.
    /// Several rows may be in the same group.
    pub fn of_series(
        best: &Best,
        numbers: &[u32],
        rows: impl Iterator<Item = u32>,
        tick_of: impl Fn(u32) -> i64,
    ) -> Self {
        let number_of = |row: u32| {
            debug_assert!((row as usize) < numbers.len(), "a row has no group number");
            numbers.get(row as usize).copied()
        };
        let found = rows.filter_map(|row| Some((row, number_of(row)?, tick_of(row))));
        Self::improving(best, found.collect())
    }

    /// Keeps the entries of `found` (row, group number, tick) that are better than `best`.
    fn improving(best: &Best, found: Vec<(u32, u32, i64)>) -> Self {
        let improved = best.improved(found.iter().map(|(_, number, tick)| (*number, *tick)));
        debug_assert_eq!(improved.len(), found.len(), "an event has no answer");
        let mut better: Vec<(u32, i64, u32)> = found
            .into_iter()
            .zip(improved)
            .filter_map(|((row, _, tick), group)| group.map(|group| (row, tick, group)))
            .collect();
        better.sort_unstable_by_key(|(row, ..)| *row);
        debug_assert!(better.is_sorted_by(|a, b| a.0 < b.0), "a row is offered twice");
        let mut candidates = Self::default();
        for (row, tick, group) in better {
            candidates.rows.push(row);
            candidates.ticks.push(tick);
            candidates.groups.push(group);
        }
        candidates
    }

    /// True if there are no candidates.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Converts the candidates into a batch in the format of [`Split::newest`]. `columns` are the
    /// columns of the request, with a row per candidate.
    ///
    /// # Errors
    /// `Internal` if the columns have a different number of rows.
    pub fn batch(self, schema: &Schema, mut columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        debug_assert_eq!(columns.len(), schema.fields().len(), "candidates have other columns");
        debug_assert!(
            self.ticks.len() == self.rows.len() && self.groups.len() == self.rows.len(),
            "a candidate has no tick or group"
        );
        let rows = self.rows.len();
        columns.push(Arc::new(Int64Array::from(self.ticks)));
        columns.push(Arc::new(UInt32Array::from(self.groups)));
        let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new("_tick", DataType::Int64, false)));
        fields.push(Arc::new(Field::new("_number", DataType::UInt32, false)));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::new(Schema::new(fields));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}

/// Returns the group number of each row. `keys` are the columns that form the groups.
///
/// # Errors
/// `Internal` if a column has a type that is not a key type.
pub fn numbers_of(numbers: &GroupNumbers, keys: &[Column], rows: usize) -> Result<Vec<u32>> {
    debug_assert!(keys.iter().all(|column| rows <= column.len()), "a row has no key");
    let all = KeyColumns::all(keys.len());
    if keys.iter().any(|column| matches!(column, Column::Plain(_))) {
        // A separate numbering of the batch's own keys would save little: most keys occur once, or
        // in consecutive rows.
        let (mut lookup, mut key) = (numbers.lookup(), KeyBytes::new(all.fixed));
        let number = |row| {
            key.clear(all.fixed);
            for column in keys {
                key.push_of(column, row)?;
            }
            Ok(lookup.number(key.as_bytes()))
        };
        return (0..rows).map(number).collect();
    }
    let groups = Groups::of(keys, &all, rows)?;
    let of_group = numbers.of(groups.keys.iter().map(AsRef::as_ref));
    let number = |row| of_group.get(groups.group(row)).copied().unwrap_or_default();
    Ok((0..rows).map(number).collect())
}

/// Streams the best event of each group among the events of `splits`. `lent_numbers` has the group
/// numbers of the chronicle.
pub fn scan(
    mut splits: Vec<Box<dyn Split>>,
    request: &Arc<ScanRequest>,
    of: &NewestOf,
    lent_numbers: LentNumbers,
) -> BatchStream {
    sort_from_end(&mut splits, of.oldest, |split| split.ticks());
    let best = Arc::new(Best::new(of.clone(), Arc::clone(&lent_numbers.numbers)));
    let request = Arc::clone(request);
    let found = async move {
        let _lent = lent_numbers;
        let mut found = NewestRows::new(request.schema(), best.of().clone());
        found.memory = request.memory.clone();
        for (number, split) in splits.into_iter().enumerate() {
            if number % PIECES_IN_A_ROW == PIECES_IN_A_ROW - 1 {
                tokio::task::yield_now().await;
            }
            let mut candidates = split.newest(&best);
            while let Some(batch) = candidates.next().await {
                found.add(&batch?)?;
            }
        }
        let (all, rows_max) = (found.best()?, request.batch_rows_max.max(1));
        let starts = (0..all.num_rows()).step_by(rows_max);
        // The claim lives until the caller has taken the last batch.
        let memory = found.memory.take();
        let slice = move |at: usize| {
            let _memory = &memory;
            all.slice(at, rows_max.min(all.num_rows() - at))
        };
        Ok::<_, Error>(stream::iter(starts.map(move |at| Ok(slice(at)))))
    };
    Box::pin(stream::once(found).try_flatten())
}

/// Copies a column if it keeps buffers in memory that are much larger than the column.
fn unshared(column: &ArrayRef) -> ArrayRef {
    match column.get_buffer_memory_size() > 2 * array_bytes(column) + SHARED_BYTES_MAX {
        true => compacted(column),
        false => Arc::clone(column),
    }
}

/// The candidates of all splits read so far.
struct NewestRows {
    of: NewestOf,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// For each group number: tick, batch and row of the best event.
    groups: Vec<Option<(i64, u32, u32)>>,
    /// Number of candidates.
    rows: usize,
    /// Bytes of the candidate batches.
    bytes: usize,
    /// Claim for the candidate batches and for the final copy of the best events.
    memory: Option<Arc<dyn ScanMemory>>,
}

impl NewestRows {
    fn new(schema: SchemaRef, of: NewestOf) -> Self {
        Self {
            of,
            schema,
            batches: Vec::new(),
            groups: Vec::new(),
            rows: 0,
            bytes: 0,
            memory: None,
        }
    }

    fn add(&mut self, candidates: &RecordBatch) -> Result<()> {
        let missing = || Error::internal("candidates lack their ticks and groups");
        let (columns, numbers) = candidates
            .columns()
            .split_at_checked(self.schema.fields().len())
            .ok_or_else(missing)?;
        let [ticks, groups] = numbers else { return Err(missing()) };
        let ticks = ticks.as_primitive_opt::<Int64Type>().ok_or_else(missing)?.values();
        let groups = groups.as_primitive_opt::<UInt32Type>().ok_or_else(missing)?.values();
        let batch = self.batches.len() as u32;
        for (row, (tick, group)) in ticks.iter().zip(groups).enumerate() {
            let group = *group as usize;
            if group >= self.groups.len() {
                self.groups.resize(group + 1, None);
            }
            if let Some(known) = self.groups.get_mut(group)
                && known.is_none_or(|(known, ..)| self.of.better(*tick, known))
            {
                *known = Some((*tick, batch, row as u32));
            }
        }
        self.rows += candidates.num_rows();
        let columns: Vec<ArrayRef> = columns.iter().map(unshared).collect();
        self.bytes += columns.iter().map(array_bytes).sum::<usize>();
        self.take()?;
        self.batches.push(self.of_columns(columns, candidates.num_rows())?);
        if self.rows > 2 * self.groups.len() + BEATEN_MAX {
            self.forget_beaten()?;
        }
        Ok(())
    }

    fn of_columns(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Adjusts the claim to the size of the candidates.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn take(&self) -> Result<()> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let groups = self.groups.capacity() * size_of::<Option<(i64, u32, u32)>>();
        memory.resize(2 * self.bytes + groups)
    }

    fn forget_beaten(&mut self) -> Result<()> {
        let best = self.best()?;
        debug_assert!(best.num_rows() <= self.rows, "a best event is no candidate");
        self.rows = best.num_rows();
        self.bytes = best.columns().iter().map(array_bytes).sum();
        self.take()?;
        self.batches = vec![best];
        for (row, (_, place, own)) in self.groups.iter_mut().flatten().enumerate() {
            (*place, *own) = (0, row as u32);
        }
        Ok(())
    }

    /// Collects the best event of each group in one batch.
    fn best(&self) -> Result<RecordBatch> {
        let places: Vec<(usize, usize)> = self
            .groups
            .iter()
            .flatten()
            .map(|(_, batch, row)| (*batch as usize, *row as usize))
            .collect();
        debug_assert!(
            places.iter().all(|(batch, row)| {
                self.batches.get(*batch).is_some_and(|batch| *row < batch.num_rows())
            }),
            "a best event lies outside of its batch"
        );
        if let [batch] = self.batches.as_slice()
            && batch.num_rows() == places.len()
            && places.iter().enumerate().all(|(at, (_, row))| at == *row)
        {
            return Ok(batch.clone());
        }
        let columns = (0..self.schema.fields().len()).map(|at| {
            let of_batch: Vec<&dyn Array> = self
                .batches
                .iter()
                .filter_map(|batch| batch.columns().get(at))
                .map(AsRef::as_ref)
                .collect();
            match of_batch.is_empty() {
                true => {
                    let data_type = self.schema.fields().get(at).map(|field| field.data_type());
                    Ok(arrow::array::new_empty_array(data_type.unwrap_or(&DataType::Null)))
                }
                false => Ok(interleave(&of_batch, &places)?),
            }
        });
        self.of_columns(columns.collect::<Result<_>>()?, places.len())
    }
}

#[cfg(test)]
mod tests;
