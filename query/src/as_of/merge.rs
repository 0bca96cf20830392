//! The merge algorithm of an as-of join: one pass over two sorted inputs.

use std::{cmp::Ordering, collections::VecDeque, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array},
    compute::{BatchCoalescer, interleave_record_batch, take_record_batch},
    datatypes::SchemaRef,
    row::{OwnedRow, RowConverter, Rows, SortField},
};
use datafusion::{
    common::Result, execution::SendableRecordBatchStream, physical_expr::PhysicalExpr,
};
use futures::{StreamExt, TryStreamExt, stream::Fuse};

use super::execution::Sides;

/// The maximum number of earlier batches of the right side that stay in memory until their rows are
/// copied to the output.
const HELD_MAX: usize = 32;

/// The state of a merge.
pub struct Merge {
    left: Input,
    right: Input,
    inclusive: bool,
    rows: usize,
    batch_rows: usize,
    /// The last rows of the right side that precede the current left row in its group (the rows
    /// with an equal join key), oldest first.
    last: VecDeque<RowPosition>,
    /// The join key of the current group.
    group: Option<OwnedRow>,
    /// Output rows that are not copied yet: the index of a row of the current left batch, and the
    /// matching right row.
    pairs: Vec<(u32, RowPosition)>,
    /// Earlier batches of the right side with rows that `last` or `pairs` still uses, oldest first.
    right_batches: Vec<(u64, RecordBatch)>,
    done: BatchCoalescer,
    finished: bool,
}

/// The position of a row of the right side.
#[derive(Debug, Clone, Copy)]
struct RowPosition {
    batch: u64,
    row: usize,
}

impl Merge {
    /// # Errors
    /// Types that cannot be compared.
    pub fn try_new(
        left: SendableRecordBatchStream,
        right: SendableRecordBatchStream,
        sides: Arc<Sides>,
        schema: SchemaRef,
        batch_rows: usize,
    ) -> Result<Self> {
        let (on_left, on_right): (Vec<_>, Vec<_>) = sides.on.iter().cloned().unzip();
        let until = sides.until.as_ref();
        let options = sides.until_options();
        let side = |stream: SendableRecordBatchStream,
                    on: Vec<Arc<dyn PhysicalExpr>>,
                    until: Option<Arc<dyn PhysicalExpr>>| {
            let schema = stream.schema();
            let field = |expr: &Arc<dyn PhysicalExpr>| expr.data_type(&schema).map(SortField::new);
            let on = match on.is_empty() {
                true => None,
                false => Some(MergeKey {
                    rows: RowConverter::new(on.iter().map(field).collect::<Result<_>>()?)?,
                    exprs: on,
                }),
            };
            let until = match until {
                Some(until) => {
                    let data_type = until.data_type(&schema)?;
                    let field = SortField::new_with_options(data_type, options);
                    Some(MergeKey { rows: RowConverter::new(vec![field])?, exprs: vec![until] })
                }
                None => None,
            };
            Ok::<_, datafusion::error::DataFusionError>(Input {
                stream: stream.fuse(),
                on,
                until,
                batches: 0,
                current: None,
            })
        };
        Ok(Self {
            left: side(left, on_left, until.map(|until| Arc::clone(&until.left)))?,
            right: side(right, on_right, until.map(|until| Arc::clone(&until.right)))?,
            inclusive: until.is_some_and(|until| until.inclusive),
            rows: sides.rows,
            batch_rows,
            last: VecDeque::new(),
            group: None,
            pairs: Vec::new(),
            right_batches: Vec::new(),
            done: BatchCoalescer::new(schema, batch_rows),
            finished: false,
        })
    }

    /// The next batch of the output; `None` at the end.
    ///
    /// # Errors
    /// The errors of the inputs.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.done.next_completed_batch() {
                return Ok(Some(batch));
            }
            if self.finished {
                return Ok(None);
            }
            if !self.left.has_row() && !self.left.load().await? {
                self.done.finish_buffered_batch()?;
                self.finished = true;
                continue;
            }
            self.pair().await?;
            self.copy()?;
        }
    }

    /// Finds the matching right rows for the rows of the current left batch, up to the limits on
    /// rows and batches.
    async fn pair(&mut self) -> Result<()> {
        // Complete at least one left row, even if its right rows lie in many batches.
        while self.pairs.is_empty()
            || self.pairs.len() < self.batch_rows && self.right_batches.len() < HELD_MAX
        {
            let Some(left) = &self.left.current else { return Ok(()) };
            if left.row == left.batch.num_rows() {
                return Ok(());
            }
            let row = left.row;
            if let Some(on) = &left.on
                && self.group.as_ref().is_none_or(|group| group.row() != on.row(row))
            {
                self.last.clear();
                self.group = Some(on.row(row).owned());
            }
            self.advance().await?;
            let row = u32::try_from(row).unwrap_or(u32::MAX);
            self.pairs.extend(self.last.iter().rev().map(|place| (row, *place)));
            if let Some(left) = &mut self.left.current {
                left.row += 1;
            }
        }
        Ok(())
    }

    /// Advances the right side to the first row that comes too late for the current left row.
    async fn advance(&mut self) -> Result<()> {
        loop {
            if !self.right.has_row() {
                self.hold();
                if !self.right.load().await? {
                    return Ok(());
                }
            }
            let (Some(left), Some(right)) = (&self.left.current, &mut self.right.current) else {
                return Ok(());
            };
            while right.row < right.batch.num_rows() {
                let group = match (&right.on, &left.on) {
                    (Some(right_on), Some(left_on)) => {
                        right_on.row(right.row).cmp(&left_on.row(left.row))
                    }
                    _ => Ordering::Equal,
                };
                let until = match (&right.until, &left.until) {
                    (Some(right_until), Some(left_until)) => {
                        right_until.row(right.row).cmp(&left_until.row(left.row))
                    }
                    _ => Ordering::Less,
                };
                match group {
                    Ordering::Less => {}
                    Ordering::Greater => return Ok(()),
                    Ordering::Equal if until.is_gt() || until.is_eq() && !self.inclusive => {
                        return Ok(());
                    }
                    Ordering::Equal => {
                        if self.last.len() == self.rows {
                            self.last.pop_front();
                        }
                        self.last.push_back(RowPosition { batch: right.number, row: right.row });
                    }
                }
                right.row += 1;
            }
        }
    }

    /// Stores the current right batch if `last` or `pairs` refers to one of its rows.
    fn hold(&mut self) {
        let Some(right) = self.right.current.take() else { return };
        let mut positions = self.last.iter().chain(self.pairs.iter().map(|(_, place)| place));
        if positions.any(|place| place.batch == right.number) {
            self.right_batches.push((right.number, right.batch));
        }
    }

    /// Copies the rows in `pairs` to the output.
    fn copy(&mut self) -> Result<()> {
        if let Some(left) = &self.left.current
            && !self.pairs.is_empty()
        {
            let rows = UInt32Array::from_iter_values(self.pairs.iter().map(|(row, _)| *row));
            let beside = take_record_batch(&left.batch, &rows)?;
            let current = self.right.current.as_ref();
            let batches: Vec<(u64, &RecordBatch)> = (self.right_batches.iter())
                .map(|(number, batch)| (*number, batch))
                .chain(current.map(|right| (right.number, &right.batch)))
                .collect();
            let slot = |place: &RowPosition| {
                (batches.partition_point(|(number, _)| *number < place.batch), place.row)
            };
            let places: Vec<_> = self.pairs.iter().map(|(_, place)| slot(place)).collect();
            let batches: Vec<_> = batches.into_iter().map(|(_, batch)| batch).collect();
            let found = interleave_record_batch(&batches, &places)?;
            let columns: Vec<ArrayRef> =
                beside.columns().iter().chain(found.columns()).map(Arc::clone).collect();
            self.done.push_batch(RecordBatch::try_new(self.done.schema(), columns)?)?;
            self.pairs.clear();
        }
        let needed = self.last.front().map_or(u64::MAX, |place| place.batch);
        self.right_batches.retain(|(number, _)| *number >= needed);
        Ok(())
    }
}

/// The key expressions of one side, and a converter of their values to comparable bytes.
struct MergeKey {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    rows: RowConverter,
}

impl MergeKey {
    fn of(&self, batch: &RecordBatch) -> Result<Rows> {
        let values = self.exprs.iter();
        let values = values.map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows()));
        Ok(self.rows.convert_columns(&values.collect::<Result<Vec<_>>>()?)?)
    }
}

struct Input {
    stream: Fuse<SendableRecordBatchStream>,
    on: Option<MergeKey>,
    until: Option<MergeKey>,
    /// The number of loaded batches.
    batches: u64,
    current: Option<Current>,
}

struct Current {
    number: u64,
    batch: RecordBatch,
    on: Option<Rows>,
    until: Option<Rows>,
    /// Index of the next row in the batch.
    row: usize,
}

impl Input {
    /// True if the current batch has another row.
    fn has_row(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.row < current.batch.num_rows())
    }

    /// Loads the next batch of the input; returns false at the end.
    async fn load(&mut self) -> Result<bool> {
        self.current = None;
        while let Some(batch) = self.stream.try_next().await? {
            if batch.num_rows() == 0 {
                continue;
            }
            let on = self.on.as_ref().map(|key| key.of(&batch)).transpose()?;
            let until = self.until.as_ref().map(|key| key.of(&batch)).transpose()?;
            let number = self.batches;
            self.batches += 1;
            self.current = Some(Current { number, batch, on, until, row: 0 });
            return Ok(true);
        }
        Ok(false)
    }
}
