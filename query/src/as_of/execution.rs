//! The physical plan node of an as-of join.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::{
        compute::SortOptions,
        datatypes::{Schema, SchemaRef},
    },
    common::{Result, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{
        Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr,
        PhysicalSortExpr,
    },
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
        apply_expression_roots,
        execution_plan::EmissionType,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt};

use super::merge::Merge;

/// The physical form of [`Until`](super::Until), the time condition of the join.
#[derive(Debug)]
pub struct PhysicalUntil {
    pub left: Arc<dyn PhysicalExpr>,
    pub right: Arc<dyn PhysicalExpr>,
    pub inclusive: bool,
}

/// The physical join conditions of the two sides.
#[derive(Debug)]
pub struct Sides {
    pub on: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    pub until: Option<PhysicalUntil>,
    /// The reversed sort order of the right side: the wanted rows come last.
    pub reversed: Vec<PhysicalSortExpr>,
    pub rows: usize,
}

impl Sides {
    /// The sort options for `until`: the options of the first column of the order.
    pub fn until_options(&self) -> SortOptions {
        self.reversed.first().map(|by| by.options).unwrap_or_default()
    }

    fn left_order(&self) -> Option<LexOrdering> {
        let on = self.on.iter().map(|(left, _)| PhysicalSortExpr::new_default(Arc::clone(left)));
        let until = self
            .until
            .iter()
            .map(|until| PhysicalSortExpr::new(Arc::clone(&until.left), self.until_options()));
        LexOrdering::new(on.chain(until))
    }

    fn right_order(&self) -> Option<LexOrdering> {
        let on = self.on.iter().map(|(_, right)| PhysicalSortExpr::new_default(Arc::clone(right)));
        LexOrdering::new(on.chain(self.reversed.iter().cloned()))
    }
}

/// Executes an as-of join by a merge of two sorted inputs. See [`AsOf`](super::AsOf).
#[derive(Debug)]
pub struct AsOfExec {
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    sides: Arc<Sides>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AsOfExec {
    pub fn new(
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        sides: Arc<Sides>,
    ) -> Self {
        let (of_left, of_right) = (left.schema(), right.schema());
        let fields = of_left.fields().iter().chain(of_right.fields()).map(Arc::clone);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            left.properties().partitioning.clone(),
            EmissionType::Incremental,
            left.properties().boundedness,
        ));
        Self { left, right, sides, schema, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// The left side, whose rows the join keeps.
    pub fn left(&self) -> &Arc<dyn ExecutionPlan> {
        &self.left
    }

    /// The right side. Each left row is joined with a few rows of this side.
    pub fn right(&self) -> &Arc<dyn ExecutionPlan> {
        &self.right
    }

    /// The join conditions.
    pub fn sides(&self) -> &Sides {
        &self.sides
    }
}

impl DisplayAs for AsOfExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsOfExec: rows={}", self.sides.rows)?;
        for (left, right) in &self.sides.on {
            write!(f, ", {left} = {right}")?;
        }
        if let Some(until) = &self.sides.until {
            let than = match (self.sides.until_options().descending, until.inclusive) {
                (false, true) => "<=",
                (false, false) => "<",
                (true, true) => ">=",
                (true, false) => ">",
            };
            write!(f, ", {} {than} {}", until.right, until.left)?;
        }
        Ok(())
    }
}

impl ExecutionPlan for AsOfExec {
    fn name(&self) -> &'static str {
        "AsOfExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        if self.sides.on.is_empty() {
            return InputDistributionRequirements::new(vec![Distribution::SinglePartition; 2]);
        }
        let (left, right) = self.sides.on.iter().cloned().unzip();
        InputDistributionRequirements::co_partitioned(vec![
            Distribution::KeyPartitioned(left),
            Distribution::KeyPartitioned(right),
        ])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let orders = [self.sides.left_order(), self.sides.right_order()];
        orders.into_iter().map(|order| order.map(OrderingRequirements::from)).collect()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match <[_; 2]>::try_from(children) {
            Ok([left, right]) => Arc::new(Self::new(left, right, Arc::clone(&self.sides))),
            Err(_) => self,
        })
    }

    fn apply_expressions(
        &self,
        each: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let on = self.sides.on.iter().flat_map(|(left, right)| [left, right]);
        let until = self.sides.until.iter().flat_map(|until| [&until.left, &until.right]);
        let order = self.sides.reversed.iter().map(|by| &by.expr);
        apply_expression_roots(on.chain(until).chain(order), each)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let left = self.left.execute(partition, Arc::clone(&context))?;
        let right = self.right.execute(partition, Arc::clone(&context))?;
        let batch_rows = context.session_config().batch_size();
        let schema = Arc::clone(&self.schema);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let merge = Merge::try_new(left, right, Arc::clone(&self.sides), schema, batch_rows)?;
        let batches = futures::stream::try_unfold(merge, |mut merge| async move {
            Ok(merge.next().await?.map(|batch| (batch, merge)))
        });
        let batches = batches.inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
