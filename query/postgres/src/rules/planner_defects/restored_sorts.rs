//! Adds sorts that DataFusion removed wrongly. If the inputs of a UNION contain a column twice, the
//! planner sorts by one copy and assumes no order for the other copy.

use std::sync::Arc;

use datafusion::{
    common::Result,
    physical_expr::LexOrdering,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
        sorts::sort::SortExec,
    },
};

use crate::rules::each_node::EachNode;

/// Rule: sorts a child whose order does not satisfy its parent.
pub const RESTORED_SORTS: EachNode = EachNode::new("kept_order", restore_sorts);

fn restore_sorts(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
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

/// Adds a sort to each stream of `child`; `None` if `child` already has the order.
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
