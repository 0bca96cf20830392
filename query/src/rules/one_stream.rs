//! An optimizer rule that runs plans over a leaf with few rows in a single stream. A repartition
//! and the later merge need tasks and queues, which take longer than the work on the rows.
//!
//! ```text
//!   SortPreservingMergeExec                   SortPreservingMergeExec
//!     └ SortExec, 2 partitions                  └ SortExec
//!       └ AggregateExec: FinalPartitioned         └ AggregateExec: FinalPartitioned
//!         └ RepartitionExec: Hash, 2     ─►         └ AggregateExec: Partial
//!           └ AggregateExec: Partial                  └ ChronicleScan
//!             └ ChronicleScan
//! ```

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, ExecutionPlanProperties, repartition::RepartitionExec},
};

use crate::table::few_rows;

/// Removes nodes that distribute the rows of one stream among several streams.
#[derive(Debug)]
pub struct OneStream;

impl PhysicalOptimizerRule for OneStream {
    fn name(&self) -> &str {
        "one_stream"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !is_chain(&plan) {
            return Ok(plan);
        }
        plan.transform_up(|node| {
            let deals = node.downcast_ref::<RepartitionExec>().is_some();
            Ok(match node.children().as_slice() {
                [child] if deals && child.output_partitioning().partition_count() == 1 => {
                    Transformed::yes(Arc::clone(child))
                }
                _ => Transformed::no(node),
            })
        })
        .map(|plan| plan.data)
    }
}

/// Whether a plan is a chain of nodes with one child each, over a leaf with few rows. Nodes with
/// several children may need equal numbers of partitions in all children.
fn is_chain(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut node = plan;
    loop {
        match node.children().as_slice() {
            [] => return few_rows(node),
            [child] => node = child,
            _ => return false,
        }
    }
}
