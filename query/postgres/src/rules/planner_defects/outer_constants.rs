//! Hides constants and row orders below a node that may replace values by NULL. If a column on the
//! optional side of an outer join is constant, DataFusion assumes that it is also constant above
//! the join, and drops the column from sort and group keys; but the column may be NULL there. The
//! same happens with an aggregation with several grouping sets. DataFusion also assumes that the
//! order of its input is the order of its groups: it drops a sort, and returns groups of the set
//! `()` before they are complete.

use std::{fmt, sync::Arc};

use datafusion::{
    common::{Result, Statistics, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::JoinType,
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
        PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
        aggregates::AggregateExec,
        joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec},
        replace_children_if_necessary,
    },
};
use stratalog_model::Error;

use crate::{errors::to_datafusion, rules::each_node::EachNode};

/// Rule: hides the constants and orders.
pub const OUTER_CONSTANTS: EachNode = EachNode::new("outer_constants", hide_constants);

fn hide_constants(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let mut flags = aggregate.group_expr().groups().iter().flatten();
        if !flags.any(|is_null| *is_null) {
            return Ok(None);
        }
        let input: Arc<dyn ExecutionPlan> = Arc::new(OuterSide::new(Arc::clone(aggregate.input())));
        let groups = replace_children_if_necessary(Arc::clone(node), vec![input])?;
        // A later rule may sort the input of an aggregation, and DataFusion would assume this order
        // for the groups.
        return Ok(Some(Arc::new(OuterSide::of_groups(groups))));
    }
    let join_type = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        *join.join_type()
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        *join.join_type()
    } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        join.join_type()
    } else {
        return Ok(None);
    };
    let missing = match join_type {
        JoinType::Left => [false, true],
        JoinType::Right => [true, false],
        JoinType::Full => [true, true],
        _ => return Ok(None),
    };
    let mut changed = false;
    let mut children = Vec::new();
    for (child, may_be_missing) in node.children().into_iter().zip(missing) {
        let hides = may_be_missing && !child.equivalence_properties().constants().is_empty();
        changed |= hides;
        children.push(match hides {
            true => Arc::new(OuterSide::new(Arc::clone(child))) as _,
            false => Arc::clone(child),
        });
    }
    if !changed {
        return Ok(None);
    }
    replace_children_if_necessary(Arc::clone(node), children).map(Some)
}

/// A node that returns the rows of its input, and reports neither orders nor constants.
#[derive(Debug)]
struct OuterSide {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    /// True if the input is an aggregation with several grouping sets. Its groups are then not
    /// partitioned by their keys either, because a key may be replaced by NULL.
    is_grouped: bool,
}

impl OuterSide {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let known = EquivalenceProperties::new(input.schema());
        let properties = PlanProperties::clone(input.properties()).with_eq_properties(known);
        Self { input, properties: Arc::new(properties), is_grouped: false }
    }

    fn of_groups(input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let Self { input, properties, .. } = Self::new(input);
        let properties = PlanProperties::clone(&properties)
            .with_partitioning(Partitioning::UnknownPartitioning(partitions));
        Self { input, properties: Arc::new(properties), is_grouped: true }
    }
}

impl DisplayAs for OuterSide {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OuterSideExec")
    }
}

impl ExecutionPlan for OuterSide {
    fn name(&self) -> &'static str {
        "OuterSideExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        replace_children_if_necessary(self, children)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if self.is_grouped => Ok(Arc::new(Self::of_groups(input))),
            Some(input) => Ok(Arc::new(Self::new(input))),
            None => Err(to_datafusion(Error::internal("the node has an input"))),
        }
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
        self.input.execute(partition, context)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(match inputs.first() {
            Some(input) => Arc::clone(input),
            None => Arc::new(Statistics::new_unknown(&self.schema())),
        })
    }
}
