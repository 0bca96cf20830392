//! Sorts that DataFusion took out and that are needed after all: over a UNION whose inputs
//! show one column twice, its planner sorts by the one and loses what the other is sorted by.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    physical_expr::LexOrdering,
    physical_optimizer::{PhysicalOptimizerRule, optimizer::PhysicalOptimizer},
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
        sorts::sort::SortExec,
    },
};

/// Sorts what does not come in the order that its reader asks for.
#[derive(Debug)]
pub struct KeptOrder;

impl PhysicalOptimizerRule for KeptOrder {
    fn name(&self) -> &str {
        "kept_order"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let mut changed = false;
            let mut children = Vec::new();
            for (child, wanted) in node.children().into_iter().zip(node.required_input_ordering()) {
                let sorted = match wanted {
                    Some(wanted) => sorted(child, &LexOrdering::from(wanted.into_single()))?,
                    None => None,
                };
                changed |= sorted.is_some();
                children.push(sorted.unwrap_or_else(|| Arc::clone(child)));
            }
            Ok(match changed {
                true => Transformed::yes(replace_children_if_necessary(node, children)?),
                false => Transformed::no(node),
            })
        })
        .map(|plan| plan.data)
    }
}

/// `child` under a sort of each of its streams, unless it has the order.
fn sorted(
    child: &Arc<dyn ExecutionPlan>,
    wanted: &LexOrdering,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if child.equivalence_properties().ordering_satisfy(wanted.iter().cloned())? {
        return Ok(None);
    }
    let sort = SortExec::new(wanted.clone(), Arc::clone(child)).with_preserve_partitioning(true);
    Ok(Some(Arc::new(sort)))
}

/// DataFusion's rules, with this one before the last, which checks the plan, and casts hidden
/// from all of them.
pub fn rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    let last = rules.len().saturating_sub(1);
    rules.insert(last, Arc::new(KeptOrder));
    rules.insert(0, Arc::new(super::opaque_casts::OpaqueCasts));
    rules
}
