//! Rules over physical plans that change a single node at a time.

use std::sync::Arc;

use datafusion::{
    common::{Result, config::ConfigOptions, tree_node::Transformed},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::ExecutionPlan,
};
use stratalog_functions::plan_walk::TreeWalk;

/// A shared physical plan.
pub type PlanRef = Arc<dyn ExecutionPlan>;

/// Applies a function to each node of a plan, from the leaves up.
#[derive(Debug)]
pub struct EachNode {
    name: &'static str,
    change: fn(&PlanRef) -> Result<Option<PlanRef>>,
}

impl EachNode {
    /// A rule with this name. `change` returns the replacement of a node, with the same columns;
    /// `None` keeps the node.
    pub const fn new(name: &'static str, change: fn(&PlanRef) -> Result<Option<PlanRef>>) -> Self {
        Self { name, change }
    }
}

impl PhysicalOptimizerRule for EachNode {
    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: PlanRef, _: &ConfigOptions) -> Result<PlanRef> {
        plan.change_up(|node| {
            Ok(match (self.change)(&node)? {
                Some(changed) => Transformed::yes(changed),
                None => Transformed::no(node),
            })
        })
        .map(|plan| plan.data)
    }
}
