//! Rules over physical plans that change one node at a time.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::ExecutionPlan,
};

/// Any plan.
type Plan = Arc<dyn ExecutionPlan>;

/// Offers each node of a plan to a function, those below first.
#[derive(Debug)]
pub struct EachNode {
    name: &'static str,
    change: fn(&Plan) -> Result<Option<Plan>>,
}

impl EachNode {
    /// A rule by this name. `change` gives what takes a node's place, with the same columns;
    /// `None` leaves the node as it is.
    pub const fn new(name: &'static str, change: fn(&Plan) -> Result<Option<Plan>>) -> Self {
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

    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|node| {
            Ok(match (self.change)(&node)? {
                Some(changed) => Transformed::yes(changed),
                None => Transformed::no(node),
            })
        })
        .map(|plan| plan.data)
    }
}
