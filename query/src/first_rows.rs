//! An operator that finds the complete first row of each group, for DISTINCT ON and for
//! `first_value` of many columns.
//!
//! DataFusion would use one aggregate for each column, and each aggregate would compare all rows
//! again. In this operator, one comparison decides about a whole row, and the output already has
//! the order of DISTINCT ON.
//!
//! ```text
//!   FirstRowsExec: mode=Final          one row of each run of equal groups
//!     └ SortExec: groups, order        made by DataFusion, where it is needed; spills
//!       └ FirstRowsExec: mode=Partial  a few candidate rows of each partition
//! ```

mod candidates;
mod runs;

use std::{fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::DataType,
    row::{RowConverter, SortField},
};
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext, memory_pool::MemoryConsumer},
    physical_expr::{
        Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr,
        PhysicalSortExpr,
    },
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
        InputDistributionRequirements, PlanProperties, apply_expression_roots,
        execution_plan::EmissionType,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt};

use self::{candidates::Candidates, runs::Runs};

/// True if a column of this type can be a group key: two values are equal if and only if their
/// bytes are equal, and a sort puts equal values next to each other.
pub fn groups_by(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Timestamp(..)
            | DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::FixedSizeBinary(_)
            | DataType::Utf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::BinaryView
    )
}

/// The group keys of rows, and the order that decides the first row of a group.
#[derive(Debug)]
pub struct First {
    /// The group expressions with a sort order; at least one. For the type of each expression,
    /// [`groups_by`] returns true.
    pub groups: Vec<PhysicalSortExpr>,
    /// The sort order within a group. If several rows of a group are equal in this order, any of
    /// them may be first.
    pub order: Vec<PhysicalSortExpr>,
}

impl First {
    fn whole_order(&self) -> Option<LexOrdering> {
        LexOrdering::new(self.groups.iter().chain(&self.order).cloned())
    }
}

/// The stage of the operator: reduce the rows, or keep exactly one row of each group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstRowsMode {
    /// Keeps at least the first row of each group within a partition; the output has no order.
    Partial,
    /// Keeps exactly the first row of each group, sorted by the groups.
    Final,
}

/// Keeps the first row of each group of its input. The output has the columns of the input.
#[derive(Debug)]
pub struct FirstRowsExec {
    mode: FirstRowsMode,
    first: Arc<First>,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FirstRowsExec {
    /// Creates the node over `input`; `first` refers to columns of `input`.
    pub fn new(mode: FirstRowsMode, first: Arc<First>, input: Arc<dyn ExecutionPlan>) -> Self {
        let (order, emission) = match mode {
            FirstRowsMode::Partial => {
                (EquivalenceProperties::new(input.schema()), EmissionType::Final)
            }
            FirstRowsMode::Final => {
                (input.equivalence_properties().clone(), EmissionType::Incremental)
            }
        };
        let properties = Arc::new(PlanProperties::new(
            order,
            input.output_partitioning().clone(),
            emission,
            input.boundedness(),
        ));
        Self { mode, first, input, properties, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for FirstRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |of: &[PhysicalSortExpr]| -> String {
            of.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let First { groups, order } = self.first.as_ref();
        write!(
            f,
            "FirstRowsExec: mode={:?}, groups=[{}], order=[{}]",
            self.mode,
            list(groups),
            list(order)
        )
    }
}

impl ExecutionPlan for FirstRowsExec {
    fn name(&self) -> &'static str {
        "FirstRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![match self.mode {
            FirstRowsMode::Partial => Distribution::UnspecifiedDistribution,
            FirstRowsMode::Final => Distribution::SinglePartition,
        }])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![match self.mode {
            FirstRowsMode::Partial => None,
            FirstRowsMode::Final => self.first.whole_order().map(OrderingRequirements::from),
        }]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.mode == FirstRowsMode::Final]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match <[_; 1]>::try_from(children) {
            Ok([input]) => Arc::new(Self::new(self.mode, Arc::clone(&self.first), input)),
            Err(_) => self,
        })
    }

    fn apply_expressions(
        &self,
        each: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(
            self.first.groups.iter().chain(&self.first.order).map(|by| &by.expr),
            each,
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let batches = match self.mode {
            FirstRowsMode::Partial => {
                let memory = MemoryConsumer::new(format!("FirstRows[{partition}]"));
                let memory = memory.register(context.memory_pool());
                let batch_rows = context.session_config().batch_size();
                let candidates = Candidates::new(&self.first, &schema, memory, batch_rows)?;
                candidates.of(input, metrics.elapsed_compute().clone()).boxed()
            }
            FirstRowsMode::Final => {
                let mut runs = Runs::new(&self.first, &schema)?;
                let time = metrics.elapsed_compute().clone();
                let firsts = input.map(move |batch| {
                    let _timer = time.timer();
                    runs.firsts(&batch?)
                });
                firsts.try_filter(|batch| std::future::ready(batch.num_rows() > 0)).boxed()
            }
        };
        let batches = batches.inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Evaluates the sort expressions for a batch.
fn values(by: &[PhysicalSortExpr], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    by.iter().map(|by| by.expr.evaluate(batch)?.into_array(batch.num_rows())).collect()
}

/// A converter of sort values to bytes that have the same order.
fn converter(by: &[PhysicalSortExpr], schema: &arrow::datatypes::Schema) -> Result<RowConverter> {
    let fields =
        by.iter().map(|by| Ok(SortField::new_with_options(by.expr.data_type(schema)?, by.options)));
    Ok(RowConverter::new(fields.collect::<Result<_>>()?)?)
}

#[cfg(test)]
mod tests;
