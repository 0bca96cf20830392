//! Plans that are carried out where they were asked for: what they read is so little that handing
//! it to another thread, and its rows back, takes longer.
//!
//! ```text
//!   short plan ─► polled by its reader, so many times ─► done, mostly
//!                                └─► not done: the rest of it on the threads of plans (CL-10)
//! ```

use std::sync::Arc;

use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties,
    aggregates::AggregateExec,
    coalesce_partitions::CoalescePartitionsExec,
    coop::CooperativeExec,
    filter::FilterExec,
    limit::{GlobalLimitExec, LocalLimitExec},
    projection::ProjectionExec,
    sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
};

use crate::{
    first_rows::FirstRowsExec,
    table::{few_rows, finds_newest},
};

/// How often the reader of a short plan comes back to it before it is handed over.
pub const TURNS: u32 = 16;

/// Whether a plan is one chain of nodes, each of which does a little for each row, over a leaf with
/// few rows.
pub fn is_short(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut node = plan;
    loop {
        if node.output_partitioning().partition_count() != 1 {
            return false;
        }
        let children = node.children();
        match children.as_slice() {
            [] => return few_rows(node) || finds_newest(node),
            [child] if is_light(node) => node = child,
            _ => return false,
        }
    }
}

fn is_light(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<AggregateExec>().is_some()
        || node.downcast_ref::<CoalescePartitionsExec>().is_some()
        || node.downcast_ref::<CooperativeExec>().is_some()
        || node.downcast_ref::<FilterExec>().is_some()
        || node.downcast_ref::<FirstRowsExec>().is_some()
        || node.downcast_ref::<GlobalLimitExec>().is_some()
        || node.downcast_ref::<LocalLimitExec>().is_some()
        || node.downcast_ref::<ProjectionExec>().is_some()
        || node.downcast_ref::<SortExec>().is_some()
        || node.downcast_ref::<SortPreservingMergeExec>().is_some()
}
