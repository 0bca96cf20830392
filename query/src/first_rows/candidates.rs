//! A set of candidates: the best row of each group among the rows read so far.

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

/// The maximum memory of the candidates, in bytes. Past the limit, the operator emits its
/// candidates, because the sort above the operator can spill to disk.
const BYTES_MAX: usize = 32 << 20;

/// The operator stops reducing rows if at least one in this number of rows was a candidate.
const FEW_SHARE: usize = 2;

/// The maximum number of rows in memory that are no longer candidates.
const BEATEN_MAX: usize = 1 << 16;

/// The best row of a group so far, that is, the first row in the sort order.
struct BestRow {
    /// The row's sort key, as comparable bytes.
    order: Box<[u8]>,
    batch: usize,
    row: usize,
}

/// The best row so far of each group.
pub struct Candidates {
    first: Arc<First>,
    schema: SchemaRef,
    groups: Box<dyn GroupValues>,
    order: Option<RowConverter>,
    /// The best rows, indexed by group number.
    known: Vec<BestRow>,
    order_bytes: usize,
    batches: Vec<RecordBatch>,
    /// The number of rows in `batches`.
    rows: usize,
    bytes: usize,
    /// The number of rows read since the operator last emitted candidates.
    read: usize,
    memory: MemoryReservation,
    batch_rows: usize,
    /// True if the input has so many groups that candidates save no work.
    gave_up: bool,
}

/// Creates an empty set of group keys.
fn group_values(first: &First, schema: &Schema) -> Result<Box<dyn GroupValues>> {
    let fields = first
        .groups
        .iter()
        .enumerate()
        .map(|(at, by)| Ok(Field::new(format!("group{at}"), by.expr.data_type(schema)?, true)));
    let schema = Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?));
    new_group_values(schema, &GroupOrdering::None)
}

/// Copies view arrays out of buffers that are shared with dropped rows.
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
    /// An empty set of candidates for rows with this schema.
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

    /// Reads `input` to the end, and returns the candidates as a stream.
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

    /// Adds the rows of a batch. Returns the rows to emit if the memory is full.
    fn add(&mut self, batch: RecordBatch) -> Result<Vec<RecordBatch>> {
        if self.gave_up {
            return Ok(vec![batch]);
        }
        self.improve(&batch)?;
        if self.rows > 2 * self.known.len() + BEATEN_MAX {
            let best = self.best()?;
            self.keep(best);
        }
        // Each group also needs an entry in `known`, in addition to its key.
        let own = self.known.capacity() * size_of::<BestRow>() + self.order_bytes;
        let bytes = self.bytes + own + self.groups.size();
        if bytes <= BYTES_MAX && self.memory.try_resize(bytes).is_ok() {
            return Ok(Vec::new());
        }
        // Judge the number of groups only after enough rows: a few rows are not representative.
        let said = self.read >= self.batch_rows;
        self.gave_up = said && self.known.len() * FEW_SHARE > self.read;
        self.hand_on()
    }

    /// Updates the best row of each group with the rows of a batch.
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
                    *known = BestRow { order: own.into(), batch: number, row };
                }
                // Group numbers ascend in the order of the groups' first rows.
                None => {
                    improved.push(group);
                    self.order_bytes += own.len();
                    self.known.push(BestRow { order: own.into(), batch: number, row });
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

    /// The best row of each group, in the order of group numbers.
    fn best(&self) -> Result<Vec<RecordBatch>> {
        let places: Vec<(usize, usize)> =
            self.known.iter().map(|known| (known.batch, known.row)).collect();
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let chunks = places.chunks(self.batch_rows);
        chunks.map(|places| Ok(interleave_record_batch(&batches, places)?)).collect()
    }

    /// Replaces the stored batches with `best`, the best rows.
    fn keep(&mut self, best: Vec<RecordBatch>) {
        for (at, known) in self.known.iter_mut().enumerate() {
            (known.batch, known.row) = (at / self.batch_rows, at % self.batch_rows);
        }
        self.rows = self.known.len();
        self.bytes = best.iter().map(RecordBatch::get_array_memory_size).sum();
        self.batches = best;
    }

    /// Returns the candidates, and resets the set to no groups.
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
