//! The splits (units of reading) of the journal tier: a batch in memory, or some rows of a batch
//! that the key index has found.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{
        ArrayRef, Int16Array, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray,
        UInt32Array,
    },
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use stratalog_model::{
    Error, Gsn, Result, TickRange,
    aggregate::AggregateRequest,
    newest::Best,
    tier::{BatchStream, ScanOrder, ScanRequest, Split, TierName},
};

use super::{
    aggregate,
    key_set::KeySet,
    newest::{EdgeCandidates, numbers_of},
    select::{Criteria, Selection, select},
    stream,
};
use crate::{
    events::{
        batch::{MemoryBatch, Newest},
        column::Column,
        keys::Groups,
        shape::KeyColumns,
    },
    version::Version,
};

/// A batch of a version, and the request that reads it.
pub struct JournalSplit {
    /// The batch.
    pub batch: Arc<MemoryBatch>,
    /// The rows that the key index has found, in (tick, seq) order for ordered requests; `None` if
    /// the split must select the rows itself.
    pub rows: Option<Vec<u32>>,
    /// State shared by all splits of the request.
    pub shared: Arc<SharedRequest>,
}

/// A scan request, with everything prepared that its splits share.
pub struct SharedRequest {
    /// The request.
    pub request: Arc<ScanRequest>,
    /// The key filters of the request, in prepared form.
    pub keys: Arc<[KeySet]>,
    /// The version that the request reads.
    pub version: Arc<Version>,
    /// Highest gsn that the snapshot sees.
    pub visible: Gsn,
    /// Schema of the batches that splits return.
    pub schema: SchemaRef,
}

impl SharedRequest {
    /// Prepares a request.
    pub fn new(request: &Arc<ScanRequest>, version: Arc<Version>, visible: Gsn) -> Result<Self> {
        Ok(Self {
            keys: KeySet::of(request)?,
            schema: split_schema(request),
            request: Arc::clone(request),
            version,
            visible,
        })
    }
}

/// The schema of the batches that splits return: the request's schema, plus `_tick` and `_seq` for
/// ordered requests.
pub fn split_schema(request: &ScanRequest) -> SchemaRef {
    let schema = request.schema();
    if request.order == ScanOrder::Any {
        return schema;
    }
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("_tick", DataType::Int64, false)));
    fields.push(Arc::new(Field::new("_seq", DataType::Int64, false)));
    Arc::new(Schema::new(fields))
}

impl Split for JournalSplit {
    fn ticks(&self) -> TickRange {
        self.batch.hull()
    }

    fn rows_max(&self) -> usize {
        self.rows.as_ref().map_or(self.batch.rows(), Vec::len)
    }

    fn read(self: Box<Self>) -> BatchStream {
        self.shared.request.metrics.journal.read(self.rows_max() as u64, self.batch.bytes());
        match BatchReader::new(*self) {
            Ok(reader) => stream::of_iterator(reader),
            Err(error) => stream::of_iterator([Err(error)].into_iter()),
        }
    }

    fn newest(self: Box<Self>, best: &Arc<Best>) -> BatchStream {
        self.shared.request.metrics.journal.read(self.rows_max() as u64, self.batch.bytes());
        let found = BatchReader::new(*self).and_then(|reader| reader.newest(best));
        stream::of_iterator(found.transpose().into_iter())
    }

    fn aggregate(self: Box<Self>, request: &Arc<AggregateRequest>) -> BatchStream {
        aggregate::of_rows(self.read(), request)
    }
}

/// Reads all visible rows of a split as one batch, in stored order (by gsn). The request must have
/// neither a limit of rows per batch nor an order.
///
/// # Errors
/// `Internal`.
pub fn rows(split: JournalSplit) -> Result<RecordBatch> {
    let schema = Arc::clone(&split.shared.schema);
    debug_assert!(split.shared.request.order == ScanOrder::Any, "the rows have an order");
    let mut reader = BatchReader::new(split)?;
    let rows = reader.next();
    debug_assert_eq!(reader.done, reader.selection.len(), "rows of a batch are left behind");
    match rows {
        Some(rows) => rows,
        None => Ok(RecordBatch::new_empty(schema)),
    }
}

/// Reads the selected rows of one batch, in output batches of limited size.
struct BatchReader {
    split: JournalSplit,
    /// The columns of the projection, in order.
    columns: Vec<Source>,
    selection: Selection,
    /// Number of selected rows returned so far.
    done: usize,
    descending: bool,
}

enum Source {
    Stored(Box<Column>),
    System(usize),
}

impl BatchReader {
    fn new(split: JournalSplit) -> Result<Self> {
        let shared = Arc::clone(&split.shared);
        let request = &shared.request;
        let ordered = request.order != ScanOrder::Any;
        let descending = request.order == ScanOrder::Descending;
        let selection = match split.rows.clone() {
            Some(rows) => Selection::Rows(rows),
            None => {
                if !shared.keys.is_empty() {
                    request.metrics.journal.compared(split.batch.rows() as u64);
                }
                let columns = shared
                    .keys
                    .iter()
                    .map(|set| column_of(&split.batch, request, set.column))
                    .collect::<Result<Vec<_>>>()?;
                let criteria = Criteria {
                    ticks: &request.ticks,
                    gsns: request.gsns,
                    keys: shared.keys.iter().zip(&columns).collect(),
                    fences: shared.version.fences(),
                    visible: shared.visible,
                    ordered,
                };
                select(&split.batch, &criteria)?
            }
        };
        debug_assert!(selection.len() <= split.batch.rows(), "a row is selected twice");
        let user = request.chronicle.columns.len();
        let columns = request
            .projection
            .iter()
            .map(|at| match at.checked_sub(user) {
                None => column_of(&split.batch, request, *at).map(|c| Source::Stored(Box::new(c))),
                Some(system) => Ok(Source::System(system)),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { split, columns, selection, done: 0, descending })
    }

    fn batch(&self, rows: &OutputRows) -> Result<RecordBatch> {
        debug_assert!(
            rows.iter().all(|row| row < self.split.batch.rows()),
            "a row lies outside of its batch"
        );
        let mut arrays = Vec::with_capacity(self.columns.len() + 2);
        for column in &self.columns {
            arrays.push(match column {
                Source::Stored(column) => match rows {
                    OutputRows::Slice(range) => column.slice(range.start, range.len())?,
                    OutputRows::Rows(rows) => column.rows(rows)?,
                },
                Source::System(at) => self.system(*at, rows)?,
            });
        }
        if self.split.shared.request.order != ScanOrder::Any {
            arrays.push(self.system(0, rows)?);
            arrays.push(self.system(1, rows)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let schema = Arc::clone(&self.split.shared.schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    /// Builds a system column, given by its position in `SYSTEM_COLUMNS`.
    fn system(&self, at: usize, rows: &OutputRows) -> Result<ArrayRef> {
        let batch = &self.split.batch;
        let numbers = |of: &dyn Fn(usize) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
        };
        Ok(match at {
            0 => numbers(&|row| batch.ticks().get(row).copied().unwrap_or_default()),
            1 => numbers(&|row| batch.seq(row).cast_signed()),
            // `_gsn`, and the order at the origin: both are equal while the system has only one
            // site (F49).
            2 | 4 => numbers(&|row| batch.gsn(row).cast_signed()),
            3 => Arc::new(Int16Array::from_value(0, rows.len())),
            5 => {
                let tier = TierName::Journal.to_string();
                let names = std::iter::repeat_n(tier.as_str(), rows.len());
                Arc::new(StringViewArray::from_iter_values(names))
            }
            6 => {
                let groups = self.split.shared.request.chronicle.grouping();
                let tick_of = |row: usize| batch.ticks().get(row).copied().unwrap_or_default();
                numbers(&|row| groups.group_of(tick_of(row)))
            }
            other => return Err(Error::internal(format!("there is no system column {other}"))),
        })
    }

    /// Returns the rows that are better (newer, or older if requested) than the best known events
    /// of their groups.
    fn newest(&self, best: &Best) -> Result<Option<RecordBatch>> {
        let (batch, request) = (&self.split.batch, &self.split.shared.request);
        if !best.of().oldest && self.selection.len() == batch.rows() {
            return self.newest_among(best, batch.newest()?.as_ref());
        }
        let keys = best.of().keys.iter().map(|at| column_of(batch, request, *at));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let groups = Groups::of(&keys, &KeyColumns::all(keys.len()), batch.rows())?;
        let tick_of = |row: u32| batch.ticks().get(row as usize).copied().unwrap_or_default();
        let candidates = match &self.selection {
            Selection::Rows(rows) => {
                EdgeCandidates::among(best, &groups, rows.iter().copied(), tick_of)
            }
            Selection::Slices(slices) => {
                let rows = slices.iter().cloned().flatten().map(|row| row as u32);
                EdgeCandidates::among(best, &groups, rows, tick_of)
            }
        };
        if candidates.is_empty() {
            return Ok(None);
        }
        let rows = OutputRows::Rows(candidates.rows.clone().into());
        let columns = self.batch(&rows)?.columns().to_vec();
        candidates.batch(&request.schema(), columns).map(Some)
    }

    /// Like [`Self::newest`], but looks only at the newest row of each series. Each group must
    /// consist of whole series.
    fn newest_among(&self, best: &Best, newest: &Newest) -> Result<Option<RecordBatch>> {
        let (batch, request) = (&self.split.batch, &self.split.shared.request);
        let numbers = newest.numbered.of(best, |numbers| {
            let rows = UInt32Array::from(newest.rows.to_vec());
            let keys = best.of().keys.iter().map(|at| {
                let column = column_of(batch, request, *at)?;
                Ok(Column::Plain(column.rows(&rows)?))
            });
            numbers_of(numbers, &keys.collect::<Result<Vec<_>>>()?, newest.rows.len())
        })?;
        debug_assert_eq!(numbers.len(), newest.rows.len(), "a series has no number");
        let row_of = |at: u32| newest.rows.get(at as usize).copied().unwrap_or_default();
        let tick_of = |at: u32| batch.ticks().get(row_of(at) as usize).copied().unwrap_or_default();
        let all = 0..newest.rows.len() as u32;
        let mut candidates = EdgeCandidates::of_series(best, &numbers, all, tick_of);
        if candidates.is_empty() {
            return Ok(None);
        }
        candidates.rows.iter_mut().for_each(|at| *at = row_of(*at));
        let picked = OutputRows::Rows(candidates.rows.clone().into());
        let columns = self.batch(&picked)?.columns().to_vec();
        candidates.batch(&request.schema(), columns).map(Some)
    }

    /// The next rows to return, at most `rows_max`; empty at the end.
    fn pick(&self, rows_max: usize) -> OutputRows {
        debug_assert!(self.done <= self.selection.len(), "more rows are done than selected");
        let left = self.selection.len() - self.done;
        let take = left.min(rows_max);
        match &self.selection {
            Selection::Rows(rows) => {
                let start = if self.descending { left - take } else { self.done };
                let picked = rows.get(start..start + take).unwrap_or(&[]);
                OutputRows::Rows(if self.descending {
                    picked.iter().rev().copied().collect()
                } else {
                    picked.to_vec().into()
                })
            }
            Selection::Slices(slices) => {
                let range = slice_at(slices, self.done, take, self.descending);
                if self.descending {
                    OutputRows::Rows(range.rev().map(|row| row as u32).collect())
                } else {
                    OutputRows::Slice(range)
                }
            }
        }
    }
}

impl Iterator for BatchReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done >= self.selection.len() {
            return None;
        }
        let request = &self.split.shared.request;
        // Copies no wide rows beyond the limit of the request.
        let rows_max = request.batch_rows_max.min(request.limit.unwrap_or(usize::MAX));
        let picked = self.pick(rows_max.max(1));
        debug_assert_ne!(picked.len(), 0, "a reader stands still");
        self.done += picked.len();
        debug_assert!(self.done <= self.selection.len(), "a reader leaves its selection");
        Some(self.batch(&picked))
    }
}

/// The rows of an output batch, in output order.
enum OutputRows {
    Slice(Range<usize>),
    Rows(UInt32Array),
}

impl OutputRows {
    fn len(&self) -> usize {
        match self {
            Self::Slice(range) => range.len(),
            Self::Rows(rows) => rows.values().len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let (range, rows): (Range<usize>, &[u32]) = match self {
            Self::Slice(range) => (range.clone(), &[]),
            Self::Rows(rows) => (0..0, rows.values()),
        };
        range.chain(rows.iter().map(|row| *row as usize))
    }
}

/// Returns at most `take` consecutive rows of `slices`, after skipping `done` rows. With `back`,
/// skips and takes from the end.
fn slice_at(slices: &[Range<usize>], done: usize, take: usize, back: bool) -> Range<usize> {
    let mut skip = done;
    let mut at = |slice: &Range<usize>| {
        if skip >= slice.len() {
            skip -= slice.len();
            return None;
        }
        let len = take.min(slice.len() - skip);
        Some(if back {
            let end = slice.end - skip;
            end - len..end
        } else {
            let start = slice.start + skip;
            start..start + len
        })
    };
    let found =
        if back { slices.iter().rev().find_map(&mut at) } else { slices.iter().find_map(at) };
    found.unwrap_or(0..0)
}

/// The column at position `at` of the request's definition. If the column was added after the
/// batch, every row has the missing value from the definition.
fn column_of(batch: &MemoryBatch, request: &ScanRequest, at: usize) -> Result<Column> {
    let Some(definition) = request.chronicle.columns.get(at) else {
        return Err(Error::internal(format!("there is no column {at}")));
    };
    let stored = batch.shape().position(definition.id);
    let column = match stored.and_then(|at| batch.columns().get(at)) {
        Some(column) => column.clone(),
        None => Column::missing(definition, batch.rows())?,
    };
    debug_assert_eq!(column.len(), batch.rows(), "a column has other rows than its batch");
    Ok(column)
}
