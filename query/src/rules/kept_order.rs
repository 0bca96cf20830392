//! Sorts that DataFusion took out and that are needed after all: over a UNION whose inputs
//! show one column twice, its planner sorts by the one and loses what the other is sorted by.

use std::sync::Arc;

use datafusion::{
    common::Result,
    physical_expr::LexOrdering,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
        sorts::sort::SortExec,
    },
};

use super::each_node::EachNode;

/// Sorts what does not come in the order that its reader asks for.
pub const KEPT_ORDER: EachNode = EachNode::new("kept_order", kept);

fn kept(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
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
    if !changed {
        return Ok(None);
    }
    replace_children_if_necessary(Arc::clone(node), children).map(Some)
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
