//! The ordered read: a k-way merge of splits by (tick, seq), ascending or descending (CL-4).
//!
//! ```text
//!   not opened, by hull:   ……  [p4 ………]  [p5 ……]    a split opens when the merge reaches its hull;
//!   open, by next row:     (p2: 17, 3)  (p3: 17, 9)  disjoint splits are read one after another
//!   out:                   p2 up to (17, 9), then p3 …  a run ends where another split is earlier
//! ```

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow::{
    array::{AsArray, Int64Array, RecordBatch},
    compute::{concat_batches, interleave_record_batch},
    datatypes::{DataType, Field, Fields, Int64Type, Schema, SchemaRef},
};
use futures_core::Stream;
use stratalog_model::{
    Error, Result, invariant,
    ipc::batch_bytes,
    tier::{BatchStream, ScanOrder, ScanRequest, Split},
};

/// Approximate maximum bytes of an output batch.
const BATCH_BYTES: usize = 1 << 20;

/// Average rows per run at which copying whole runs is faster than copying row by row.
const RUN_ROWS_MIN: usize = 8;

/// Sort position of a row: (tick, seq). In descending order, all bits of both numbers are inverted,
/// so that the smaller position is always first.
type SortPosition = (i64, i64);

/// A stream that merges splits in order.
pub struct Merge {
    schema: SchemaRef,
    descending: bool,
    rows_max: usize,
    left: usize,
    /// The splits not opened yet, with a lower bound of their first position; the next split is the
    /// last entry.
    unopened: Vec<(SortPosition, Box<dyn Split>)>,
    cursors: Vec<Option<Cursor>>,
    /// Indexes of cursors that need their next batch.
    hungry: Vec<usize>,
    heap: BinaryHeap<Reverse<(SortPosition, usize)>>,
    out: Output,
    last: Option<SortPosition>,
}

/// An open split, and its current batch.
struct Cursor {
    stream: BatchStream,
    batch: RecordBatch,
    ticks: Int64Array,
    seqs: Int64Array,
    row: usize,
    /// Approximate bytes of a row of the batch.
    row_bytes: usize,
}

/// The rows selected for the next output batch.
#[derive(Default)]
struct Output {
    batches: Vec<RecordBatch>,
    /// Runs of rows: (index of the batch, first row, number of rows).
    runs: Vec<(usize, usize, usize)>,
    rows: usize,
    bytes: usize,
}

impl Merge {
    /// Merges `splits` in the order of `request`.
    pub fn new(splits: Vec<Box<dyn Split>>, request: &ScanRequest) -> Self {
        let descending = request.order == ScanOrder::Descending;
        Self {
            schema: request.schema(),
            descending,
            rows_max: request.batch_rows_max.max(1),
            left: request.limit.unwrap_or(usize::MAX),
            unopened: Self::by_hull(splits, descending),
            cursors: Vec::new(),
            hungry: Vec::new(),
            heap: BinaryHeap::new(),
            out: Output::default(),
            last: None,
        }
    }

    /// Like [`Self::new`], but the output keeps the sort columns `_tick` and `_seq`, because
    /// another merge follows.
    pub fn nested(splits: Vec<Box<dyn Split>>, request: &ScanRequest) -> Self {
        let merge = Self::new(splits, request);
        let number = |name| Arc::new(Field::new(name, DataType::Int64, false));
        let numbers = [number("_tick"), number("_seq")];
        let fields: Fields = merge.schema.fields().iter().cloned().chain(numbers).collect();
        Self { schema: Arc::new(Schema::new(fields)), ..merge }
    }

    /// Sorts the splits by the earliest position that a row can have; the next split is the last
    /// entry.
    fn by_hull(
        splits: Vec<Box<dyn Split>>,
        descending: bool,
    ) -> Vec<(SortPosition, Box<dyn Split>)> {
        let mut unopened: Vec<(SortPosition, Box<dyn Split>)> = splits
            .into_iter()
            .filter(|split| !split.ticks().is_empty())
            .map(|split| {
                let hull = split.ticks();
                let first = if descending { !(hull.end.0 - 1) } else { hull.start.0 };
                ((first, i64::MIN), split)
            })
            .collect();
        unopened.sort_by_key(|(first, _)| Reverse(*first));
        unopened
    }

    /// Reads the next batch of each cursor without rows, and opens each split whose hull the merge
    /// has reached.
    fn feed(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            while let Some(at) = self.hungry.last().copied() {
                let Some(Some(cursor)) = self.cursors.get_mut(at) else {
                    self.hungry.pop();
                    continue;
                };
                match cursor.stream.as_mut().poll_next(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                    Poll::Ready(None) => {
                        self.hungry.pop();
                        if let Some(slot) = self.cursors.get_mut(at) {
                            *slot = None;
                        }
                    }
                    Poll::Ready(Some(Ok(batch))) => {
                        if batch.num_rows() == 0 {
                            continue;
                        }
                        self.hungry.pop();
                        cursor.load(batch)?;
                        let place = cursor.place(cursor.row, self.descending);
                        self.heap.push(Reverse((place, at)));
                    }
                }
            }
            let next = self.heap.peek().map(|Reverse((place, _))| *place);
            let reached = match (self.unopened.last(), next) {
                (Some((first, _)), Some(next)) => *first <= next,
                (Some(_), None) => true,
                (None, _) => false,
            };
            debug_assert!(
                self.hungry.is_empty(),
                "a split is opened before the open splits are fed"
            );
            if !reached {
                return Poll::Ready(Ok(()));
            }
            if let Some((_, split)) = self.unopened.pop() {
                let cursor = Cursor::new(split.read());
                let free = self.cursors.iter().position(Option::is_none);
                let at = free.unwrap_or(self.cursors.len());
                match self.cursors.get_mut(at) {
                    Some(slot) => *slot = Some(cursor),
                    None => self.cursors.push(Some(cursor)),
                }
                self.hungry.push(at);
            }
        }
    }

    /// Moves the next run of rows from the earliest cursor to the output.
    fn advance(&mut self) -> Result<()> {
        debug_assert!(self.hungry.is_empty(), "an open split may have an earlier row");
        debug_assert!(self.out.rows < self.rows_max.min(self.left), "the output is full");
        let Some(Reverse((place, at))) = self.heap.pop() else { return Ok(()) };
        let others = self.heap.peek().map(|Reverse((place, _))| *place);
        let bound = match (others, self.unopened.last().map(|(first, _)| *first)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let Some(Some(cursor)) = self.cursors.get_mut(at) else { return Ok(()) };
        invariant!(
            OrderedScans,
            self.last.is_none_or(|last| last <= place),
            "a scan meets {place:?} after {:?}",
            self.last
        );
        let mut room = self.rows_max.min(self.left) - self.out.rows;
        if self.out.rows > 0 {
            // The first run has no byte limit: an output of one run needs no copy.
            let bytes = BATCH_BYTES.saturating_sub(self.out.bytes);
            room = room.min(bytes / cursor.row_bytes.max(1) + 1);
        }
        let run = cursor.run(bound, room.max(1), self.descending);
        debug_assert!(0 < run && cursor.row + run <= cursor.batch.num_rows());
        self.last = Some(cursor.place(cursor.row + run - 1, self.descending));
        self.out.push(&cursor.batch, cursor.row, run);
        self.out.bytes += run * cursor.row_bytes;
        cursor.row += run;
        if cursor.row < cursor.batch.num_rows() {
            let place = cursor.place(cursor.row, self.descending);
            self.heap.push(Reverse((place, at)));
        } else {
            self.hungry.push(at);
        }
        Ok(())
    }
}

impl Stream for Merge {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.left == 0 {
            return Poll::Ready(None);
        }
        let done = loop {
            // Returns before the next read, because the caller may not need more rows.
            if this.out.rows >= this.rows_max.min(this.left) || this.out.bytes >= BATCH_BYTES {
                break Ok(());
            }
            match this.feed(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => break Err(error),
                Poll::Ready(Ok(())) => {}
            }
            if this.heap.is_empty() {
                break Ok(());
            }
            if let Err(error) = this.advance() {
                break Err(error);
            }
        };
        let batch = done.and_then(|()| this.out.take(&this.schema));
        match batch {
            Ok(Some(batch)) => {
                debug_assert!(batch.num_rows() <= this.left, "a merge exceeds its limit");
                this.left -= batch.num_rows().min(this.left);
                Poll::Ready(Some(Ok(batch)))
            }
            Ok(None) => Poll::Ready(None),
            Err(error) => {
                this.left = 0;
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}

impl Cursor {
    fn new(stream: BatchStream) -> Self {
        let none = Int64Array::from(Vec::<i64>::new());
        let batch = RecordBatch::new_empty(Arc::new(Schema::empty()));
        Self { stream, batch, ticks: none.clone(), seqs: none, row: 0, row_bytes: 0 }
    }

    fn load(&mut self, batch: RecordBatch) -> Result<()> {
        debug_assert!(batch.num_rows() > 0, "a split gives an empty batch");
        debug_assert!(self.row >= self.batch.num_rows(), "rows of the last batch are lost");
        let columns = batch.num_columns();
        let numbers = |back: usize| {
            let column = columns.checked_sub(back).and_then(|at| batch.columns().get(at));
            column
                .and_then(|column| column.as_primitive_opt::<Int64Type>())
                .cloned()
                .ok_or_else(|| Error::internal("a split of an ordered scan has no _tick and _seq"))
        };
        (self.ticks, self.seqs) = (numbers(2)?, numbers(1)?);
        self.row_bytes = batch_bytes(&batch) / batch.num_rows().max(1);
        self.batch = batch;
        self.row = 0;
        Ok(())
    }

    fn place(&self, row: usize, descending: bool) -> SortPosition {
        debug_assert!(row < self.batch.num_rows(), "a row lies behind its batch");
        let at = |numbers: &Int64Array| numbers.values().get(row).copied().unwrap_or(i64::MAX);
        let (tick, seq) = (at(&self.ticks), at(&self.seqs));
        if descending { (!tick, !seq) } else { (tick, seq) }
    }

    /// Number of rows, from the current row onward, with a position before `bound`; at least one.
    fn run(&self, bound: Option<SortPosition>, rows_max: usize, descending: bool) -> usize {
        let rows = (self.batch.num_rows() - self.row).min(rows_max);
        debug_assert!(rows > 0, "a run has no rows");
        let Some(bound) = bound else { return rows };
        let before = |n: usize| self.place(self.row + n, descending) < bound;
        if before(rows - 1) {
            return rows;
        }
        // If splits interleave, runs are mostly short: the search doubles its step, then bisects.
        let mut high = 1;
        while high < rows && before(high) {
            high *= 2;
        }
        let (mut low, mut high) = (high / 2, high.min(rows));
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if before(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low + 1
    }
}

impl Output {
    fn push(&mut self, batch: &RecordBatch, row: usize, rows: usize) {
        debug_assert!(
            0 < rows && rows <= batch.num_rows().saturating_sub(row),
            "a run lies outside of its batch"
        );
        // If splits interleave, the same batch is pushed again and again.
        let known = self.batches.iter().rposition(|known| same(known, batch));
        let at = known.unwrap_or_else(|| {
            self.batches.push(batch.clone());
            self.batches.len() - 1
        });
        self.rows += rows;
        match self.runs.last_mut() {
            Some((last, start, len)) if *last == at && *start + *len == row => *len += rows,
            _ => self.runs.push((at, row, rows)),
        }
    }

    /// Removes and returns the selected rows as a batch with the columns of `schema`, which may or
    /// may not include the two sort columns.
    fn take(&mut self, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        let Output { batches, runs, rows, .. } = std::mem::take(self);
        if rows == 0 {
            return Ok(None);
        }
        let slice = |(at, row, len): &(usize, usize, usize)| {
            batches.get(*at).map(|batch| batch.slice(*row, *len))
        };
        let joined = match runs.as_slice() {
            [only] => slice(only),
            _ if rows >= runs.len() * RUN_ROWS_MIN => {
                let slices: Vec<RecordBatch> = runs.iter().filter_map(slice).collect();
                match slices.first() {
                    Some(first) => Some(concat_batches(&first.schema(), &slices)?),
                    None => None,
                }
            }
            _ => {
                let views: Vec<&RecordBatch> = batches.iter().collect();
                let picks: Vec<(usize, usize)> = runs
                    .iter()
                    .flat_map(|(at, row, len)| (*row..row + len).map(|row| (*at, row)))
                    .collect();
                Some(interleave_record_batch(&views, &picks)?)
            }
        };
        let Some(joined) = joined else { return Ok(None) };
        debug_assert_eq!(joined.num_rows(), rows, "a merge loses rows");
        let columns = joined.columns().iter().take(schema.fields().len()).cloned().collect();
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?))
    }
}

/// True if both batches are the same batch: their last columns (`_seq`) share memory.
fn same(a: &RecordBatch, b: &RecordBatch) -> bool {
    match (a.columns().last(), b.columns().last()) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
