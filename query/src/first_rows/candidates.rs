//! The first rows of groups among those that were read so far.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::{interleave_record_batch, take_record_batch},
    datatypes::{DataType, Field, Schema, SchemaRef},
    row::RowConverter,
};
use datafusion::{
    common::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, memory_pool::MemoryReservation},
    physical_plan::{
        aggregates::{
            group_values::{GroupValues, new_group_values},
            order::GroupOrdering,
        },
        metrics::Time,
    },
};
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::{First, converter, values};

/// Candidates are handed on when they take so many bytes: what comes behind them can sort more than
/// memory holds.
const BYTES_MAX: usize = 32 << 20;

/// Rows are handed on as they come when candidates were at least one in so many of them.
const FEW_SHARE: usize = 2;

/// Candidates that were beaten and are kept all the same.
const BEATEN_MAX: usize = 1 << 16;

/// The first row of a group so far.
struct Known {
    /// What it is compared by.
    order: Box<[u8]>,
    batch: usize,
    row: usize,
}

/// The first rows so far, by group.
pub struct Candidates {
    first: Arc<First>,
    schema: SchemaRef,
    groups: Box<dyn GroupValues>,
    order: Option<RowConverter>,
    /// By group number.
    known: Vec<Known>,
    order_bytes: usize,
    batches: Vec<RecordBatch>,
    /// Of all batches.
    rows: usize,
    bytes: usize,
    /// Rows that were looked at since candidates were last handed on.
    read: usize,
    memory: MemoryReservation,
    batch_rows: usize,
    /// There are too many groups for this to be of any use.
    gave_up: bool,
}

/// The values of groups, none yet.
fn group_values(first: &First, schema: &Schema) -> Result<Box<dyn GroupValues>> {
    let fields = first
        .groups
        .iter()
        .enumerate()
        .map(|(at, by)| Ok(Field::new(format!("group{at}"), by.expr.data_type(schema)?, true)));
    let schema = Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?));
    new_group_values(schema, &GroupOrdering::None)
}

/// The rows without what they share with those that were not taken.
fn own(rows: &RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => Arc::clone(column),
        }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(rows.schema(), columns.collect(), &options)?)
}

impl Candidates {
    /// None yet, of rows with this schema.
    pub fn new(
        first: &Arc<First>,
        schema: &SchemaRef,
        memory: MemoryReservation,
        batch_rows: usize,
    ) -> Result<Self> {
        let order = (!first.order.is_empty()).then(|| converter(&first.order, schema));
        Ok(Self {
            first: Arc::clone(first),
            schema: Arc::clone(schema),
            groups: group_values(first, schema)?,
            order: order.transpose()?,
            known: Vec::new(),
            order_bytes: 0,
            batches: Vec::new(),
            rows: 0,
            bytes: 0,
            read: 0,
            memory,
            batch_rows: batch_rows.max(1),
            gave_up: false,
        })
    }

    /// The candidates of all of `input`.
    pub fn of(
        self,
        input: SendableRecordBatchStream,
        time: Time,
    ) -> impl Stream<Item = Result<RecordBatch>> {
        let steps = stream::try_unfold(Some((self, input)), move |state| {
            let time = time.clone();
            async move {
                let Some((mut candidates, mut input)) = state else {
                    return Ok::<_, DataFusionError>(None);
                };
                let batch = input.try_next().await?;
                let _timer = time.timer();
                Ok(Some(match batch {
                    Some(batch) => (candidates.add(batch)?, Some((candidates, input))),
                    None => (candidates.hand_on()?, None),
                }))
            }
        });
        steps.map_ok(|batches| stream::iter(batches).map(Ok)).try_flatten()
    }

    /// Looks at more rows. Returns what is handed on for want of room.
    fn add(&mut self, batch: RecordBatch) -> Result<Vec<RecordBatch>> {
        if self.gave_up {
            return Ok(vec![batch]);
        }
        self.improve(&batch)?;
        if self.rows > 2 * self.known.len() + BEATEN_MAX {
            let best = self.best()?;
            self.keep(best);
        }
        // A place and a pointer for each group, besides the values that tell them apart.
        let own = self.known.capacity() * size_of::<Known>() + self.order_bytes;
        let bytes = self.bytes + own + self.groups.size();
        if bytes <= BYTES_MAX && self.memory.try_resize(bytes).is_ok() {
            return Ok(Vec::new());
        }
        // A few rows say nothing of those behind them.
        let said = self.read >= self.batch_rows;
        self.gave_up = said && self.known.len() * FEW_SHARE > self.read;
        self.hand_on()
    }

    /// Takes those rows that come before what is known of their groups.
    fn improve(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut groups = Vec::with_capacity(batch.num_rows());
        self.groups.intern(&values(&self.first.groups, batch)?, &mut groups)?;
        let order = match &self.order {
            Some(order) => Some(order.convert_columns(&values(&self.first.order, batch)?)?),
            None => None,
        };
        self.read += batch.num_rows();
        let number = self.batches.len();
        let mut improved: Vec<usize> = Vec::new();
        for (row, group) in groups.into_iter().enumerate() {
            let own = order.as_ref().map(|order| order.row(row));
            let own = own.as_ref().map_or(&[][..], AsRef::as_ref);
            match self.known.get_mut(group) {
                Some(known) if *own >= *known.order => {}
                Some(known) => {
                    if known.batch != number {
                        improved.push(group);
                    }
                    self.order_bytes = self.order_bytes + own.len() - known.order.len();
                    *known = Known { order: own.into(), batch: number, row };
                }
                // Numbers of groups ascend, in the order of their first rows.
                None => {
                    improved.push(group);
                    self.order_bytes += own.len();
                    self.known.push(Known { order: own.into(), batch: number, row });
                }
            }
        }
        if improved.is_empty() {
            return Ok(());
        }
        let mut taken = Vec::with_capacity(improved.len());
        for group in improved {
            if let Some(known) = self.known.get_mut(group) {
                taken.push(known.row as u32);
                known.row = taken.len() - 1;
            }
        }
        let taken = own(&take_record_batch(batch, &UInt32Array::from(taken))?)?;
        self.rows += taken.num_rows();
        self.bytes += taken.get_array_memory_size();
        self.batches.push(taken);
        Ok(())
    }

    /// The first row of each group, by number of the group.
    fn best(&self) -> Result<Vec<RecordBatch>> {
        let places: Vec<(usize, usize)> =
            self.known.iter().map(|known| (known.batch, known.row)).collect();
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let chunks = places.chunks(self.batch_rows);
        chunks.map(|places| Ok(interleave_record_batch(&batches, places)?)).collect()
    }

    /// Keeps the best rows alone.
    fn keep(&mut self, best: Vec<RecordBatch>) {
        for (at, known) in self.known.iter_mut().enumerate() {
            (known.batch, known.row) = (at / self.batch_rows, at % self.batch_rows);
        }
        self.rows = self.known.len();
        self.bytes = best.iter().map(RecordBatch::get_array_memory_size).sum();
        self.batches = best;
    }

    /// The candidates, which are forgotten.
    fn hand_on(&mut self) -> Result<Vec<RecordBatch>> {
        let best = self.best()?;
        self.groups = group_values(&self.first, &self.schema)?;
        self.known = Vec::new();
        self.batches = Vec::new();
        (self.rows, self.bytes, self.order_bytes, self.read) = (0, 0, 0, 0);
        self.memory.free();
        Ok(best)
    }
}
