//! The node in a physical plan. The nodes of one WITH query have their rows in common.

use std::{fmt, sync::Arc};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
        ReplaceChildrenOptions,
        execution_plan::{ChildrenPropertiesMode, EmissionType},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{
    FutureExt, StreamExt, TryFutureExt, TryStreamExt,
    future::{BoxFuture, Shared as SharedFuture},
    stream,
};
use parking_lot::Mutex;

/// The rows, and the memory that they take.
#[derive(Debug)]
struct Rows {
    batches: Vec<RecordBatch>,
    _memory: MemoryReservation,
}

/// The computation of the rows, by whichever reader is polled.
type Computation = SharedFuture<BoxFuture<'static, std::result::Result<Arc<Rows>, Failure>>>;
type Failure = Arc<DataFusionError>;

/// What the nodes of one WITH query have in common.
#[derive(Default)]
pub struct Shared(Mutex<Option<Computation>>);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Gives the rows of a WITH query, which the first of its nodes computes.
#[derive(Debug)]
pub struct OnceExec {
    input: Arc<dyn ExecutionPlan>,
    shared: Arc<Shared>,
    properties: Arc<PlanProperties>,
}

impl OnceExec {
    pub fn new(input: Arc<dyn ExecutionPlan>, shared: Arc<Shared>) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            input.properties().boundedness,
        ));
        Self { input, shared, properties }
    }
}

async fn computed(
    mut rows: SendableRecordBatchStream,
    memory: MemoryReservation,
) -> Result<Arc<Rows>> {
    let mut batches = Vec::new();
    while let Some(batch) = rows.try_next().await? {
        memory.try_grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    Ok(Arc::new(Rows { batches, _memory: memory }))
}

impl DisplayAs for OnceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OnceExec")
    }
}

impl ExecutionPlan for OnceExec {
    fn name(&self) -> &'static str {
        "OnceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match <[_; 1]>::try_from(children) {
            Ok([input]) => Arc::new(Self::new(input, Arc::clone(&self.shared))),
            Err(_) => self,
        })
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema: SchemaRef = self.input.schema();
        let computation = {
            let mut known = self.shared.0.lock();
            match &*known {
                Some(computation) => computation.clone(),
                None => {
                    let memory = MemoryConsumer::new("WITH query").register(context.memory_pool());
                    let rows = self.input.execute(partition, Arc::clone(&context))?;
                    let computation = computed(rows, memory).map_err(Arc::new).boxed().shared();
                    known.insert(computation).clone()
                }
            }
        };
        let batches = stream::once(computation).map(|computed| match computed {
            Ok(rows) => {
                let batches: Vec<Result<RecordBatch>> =
                    rows.batches.iter().cloned().map(Ok).collect();
                stream::iter(batches)
            }
            Err(error) => stream::iter(vec![Err(DataFusionError::Shared(error))]),
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.flatten().boxed())))
    }
}
