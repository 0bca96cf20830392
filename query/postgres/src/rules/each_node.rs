//! Rules over physical plans that change each node separately.

use std::sync::Arc;

use datafusion::{
    common::{Result, config::ConfigOptions, tree_node::Transformed},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::ExecutionPlan,
};
use stratalog_functions::plan_walk::TreeWalk;

/// A shared physical plan.
pub type PlanRef = Arc<dyn ExecutionPlan>;

/// A rule that applies a function to each node of a physical plan, from the leaves to the root.
#[derive(Debug)]
pub struct EachNode {
    name: &'static str,
    change: fn(&PlanRef) -> Result<Option<PlanRef>>,
}

impl EachNode {
    /// Creates a rule with this name. `change` returns a replacement with the same columns for a
    /// node, or `None` to keep the node.
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
