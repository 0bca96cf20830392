//! Key lookups: one part of the query (`values`) first computes the keys, and then the leaf reads
//! only the series with these keys.
//!
//! ```text
//!   KeyLookup: column=tags_id
//!     ├─ values    runs first: returns the keys ─► keys=tags_id in 8 value(s) ───┐
//!     └─ leaf      ChronicleScan or ChronicleAggregate  ◄────────────────────────┘
//! ```

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use arrow::{
    array::{Array, ArrayRef, AsArray},
    compute::{cast, concat, is_not_null},
};
use datafusion::{
    common::{Statistics, tree_node::TreeNodeRecursion},
    error::{DataFusionError, Result},
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, PlanProperties, StatisticsArgs,
        metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{
    FutureExt, StreamExt, TryFutureExt, TryStreamExt,
    future::{BoxFuture, Shared},
    stream,
};
use stratalog_model::{Error, TickRanges, tier::KeyFilter, tier::ScanRequest};
use stratalog_postgres::errors::to_datafusion;

use super::{ChronicleScan, aggregate::ChronicleAggregate};

/// A plan node that runs `values` first, and then restricts the leaf to the series whose key is
/// among the values.
pub struct KeyLookup {
    values: Arc<dyn ExecutionPlan>,
    leaf: Arc<dyn ExecutionPlan>,
    /// Position of the key column in the definition.
    column: usize,
    lookup: OnceLock<SharedLookup>,
    metrics: ExecutionPlanMetricsSet,
}

/// The lookup result, shared by all partitions. The computation continues even if a partition is
/// dropped.
type SharedLookup = Shared<BoxFuture<'static, Result<Arc<NarrowedLeaf>, Arc<DataFusionError>>>>;

/// The leaf, restricted to the computed keys.
struct NarrowedLeaf {
    leaf: Arc<dyn ExecutionPlan>,
    _memory: MemoryReservation,
}

impl fmt::Debug for KeyLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLookup").field("column", &self.column).finish_non_exhaustive()
    }
}

/// The storage request of a leaf, if the leaf reads a chronicle.
pub fn request_of(leaf: &Arc<dyn ExecutionPlan>) -> Option<&ScanRequest> {
    match leaf.downcast_ref::<ChronicleScan>() {
        Some(scan) => Some(scan.request()),
        None => Some(&leaf.downcast_ref::<ChronicleAggregate>()?.request().scan),
    }
}

impl KeyLookup {
    /// Restricts `leaf`, a [`ChronicleScan`] or [`ChronicleAggregate`], to rows whose key is in the
    /// first column of `values`. `column` is the position of the key column in the table
    /// definition. `values` has one partition.
    pub fn new(
        values: Arc<dyn ExecutionPlan>,
        leaf: Arc<dyn ExecutionPlan>,
        column: usize,
    ) -> Self {
        let metrics = ExecutionPlanMetricsSet::new();
        Self { values, leaf, column, lookup: OnceLock::new(), metrics }
    }

    /// The leaf without the restriction.
    pub fn leaf(&self) -> &Arc<dyn ExecutionPlan> {
        &self.leaf
    }

    /// The same lookup with another leaf of the same chronicle.
    pub fn with_leaf(&self, leaf: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(Arc::clone(&self.values), leaf, self.column)
    }

    /// The restricted leaf. The first call starts the computation of the keys.
    fn shared_lookup(&self, context: &Arc<TaskContext>) -> SharedLookup {
        let begin = || {
            let memory = MemoryConsumer::new("keys to look up");
            let memory = memory.register(context.memory_pool());
            let count = MetricBuilder::new(&self.metrics).global_counter("values");
            let values = self.values.execute(0, Arc::clone(context));
            let (leaf, column) = (Arc::clone(&self.leaf), self.column);
            let found = async move {
                let (found, keys) = find(values?, leaf, column, memory).await?;
                count.add(keys);
                Ok(Arc::new(found))
            };
            found.map_err(Arc::new).boxed().shared()
        };
        self.lookup.get_or_init(begin).clone()
    }

    fn of_children(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let [values, leaf]: [_; 2] = children
            .try_into()
            .map_err(|_| to_datafusion(Error::internal("a lookup of keys has two children")))?;
        Ok(Arc::new(Self::new(values, leaf, self.column)))
    }

    fn column_name(&self) -> &str {
        let request = request_of(&self.leaf);
        let column = request.and_then(|request| request.chronicle.columns.get(self.column));
        column.map_or("?", |column| column.name.as_str())
    }
}

/// Restricts the leaf to series with a key among `values`.
fn narrowed(
    leaf: &Arc<dyn ExecutionPlan>,
    column: usize,
    values: &ArrayRef,
) -> Option<Arc<dyn ExecutionPlan>> {
    let mut request = request_of(leaf)?.clone();
    match values.is_empty() {
        true => request.ticks = TickRanges::none(),
        false => request.keys.push(KeyFilter { column, values: Arc::clone(values) }),
    }
    Some(match leaf.downcast_ref::<ChronicleScan>() {
        Some(scan) => Arc::new(scan.narrowed(request)),
        None => Arc::new(leaf.downcast_ref::<ChronicleAggregate>()?.narrowed(request)),
    })
}

/// Runs the plan `values` and restricts the leaf to the resulting keys. Also returns the number of
/// keys.
async fn find(
    values: SendableRecordBatchStream,
    leaf: Arc<dyn ExecutionPlan>,
    column: usize,
    memory: MemoryReservation,
) -> Result<(NarrowedLeaf, usize)> {
    let unfit = || to_datafusion(Error::internal("keys are looked up in a relation without keys"));
    let request = request_of(&leaf).ok_or_else(unfit)?;
    let declared = request.chronicle.columns.get(column).ok_or_else(unfit)?;
    let wanted = declared.column_type.arrow_type();
    let mut found: Vec<ArrayRef> = Vec::new();
    let mut batches = values;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let own = batch.columns().first().ok_or_else(unfit)?;
        let own = arrow::compute::filter(own, &is_not_null(own)?)?;
        if own.is_empty() {
            continue;
        }
        let own = cast(&own, &wanted)?;
        // Copy the keys out of the shared input buffers: the query drops these buffers, and the
        // memory reservation does not include them.
        let own: ArrayRef = match own.as_string_view_opt() {
            Some(texts) => Arc::new(texts.gc()),
            None => own,
        };
        // Count the memory twice: for the separate array, and for the concatenation of all arrays.
        memory.try_grow(2 * own.get_array_memory_size())?;
        found.push(own);
    }
    let parts: Vec<&dyn Array> = found.iter().map(AsRef::as_ref).collect();
    let all = match parts.is_empty() {
        true => arrow::array::new_empty_array(&wanted),
        false => concat(&parts)?,
    };
    let leaf = narrowed(&leaf, column, &all).ok_or_else(unfit)?;
    Ok((NarrowedLeaf { leaf, _memory: memory }, all.len()))
}

impl DisplayAs for KeyLookup {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyLookup: column={}", self.column_name())
    }
}

impl ExecutionPlan for KeyLookup {
    fn name(&self) -> &'static str {
        "KeyLookup"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.leaf.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.values, &self.leaf]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition, Distribution::UnspecifiedDistribution]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.of_children(children)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.with_leaf(Arc::clone(&self.leaf))))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (found, schema) = (self.shared_lookup(&context), self.leaf.schema());
        let rows = async move {
            let found = found.await.map_err(DataFusionError::Shared)?;
            found.leaf.execute(partition, context)
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.leaf.schema())))
    }
}

#[cfg(test)]
mod tests;
