//! Handles sorts with the LIMIT `ENDLESS`, which is larger than any result. A rewrite of the
//! statement adds this LIMIT to subqueries whose order must be kept.
//!
//! ```text
//!   AggregateExec: count, sum                  AggregateExec: count, sum
//!     └ SortExec: fetch=ENDLESS          ─►      └ ChronicleScan
//!         └ ChronicleScan
//!
//!   ProjectionExec                             ProjectionExec
//!     └ SortExec: TopK(fetch=ENDLESS)    ─►      └ SortExec
//! ```
//!
//! A sort with a limit keeps its rows in a heap, which takes several times as long as a sort of all rows.

use std::sync::Arc;

use datafusion::{
    common::Result,
    physical_plan::{
        ExecutionPlan,
        aggregates::AggregateExec,
        coalesce_partitions::CoalescePartitionsExec,
        limit::GlobalLimitExec,
        projection::ProjectionExec,
        replace_children_if_necessary,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
    },
};

use crate::{dialect::preserved_orders::ENDLESS, rules::each_node::EachNode};

/// Rule: removes sorts with the LIMIT [`ENDLESS`] below aggregates whose result does not depend on
/// the order. Runs before DataFusion plans orders.
pub const UNREAD_ORDERS: EachNode = EachNode::new("unread_orders", drop_unread_orders);

/// Rule: removes the limit [`ENDLESS`] from the remaining sorts. Runs after DataFusion's rules,
/// which would remove a sort without a limit if no node requires its order.
pub const ENDLESS_SORTS: EachNode = EachNode::new("endless_sorts", endless);

/// Aggregates whose result does not depend on the order of the rows.
const UNORDERED: [&str; 8] = ["count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every"];

fn is_endless(fetch: Option<usize>) -> bool {
    fetch.is_some_and(|fetch| fetch >= ENDLESS as usize)
}

fn drop_unread_orders(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let is_unordered = aggregate
        .aggr_expr()
        .iter()
        .all(|call| UNORDERED.contains(&call.fun().name()) && call.order_bys().is_empty());
    if !is_unordered {
        return Ok(None);
    }
    let Some(input) = without_sort(aggregate.input())? else { return Ok(None) };
    replace_children_if_necessary(Arc::clone(node), vec![input]).map(Some)
}

/// The input below the endless sort; `None` if the node has no such sort. A limit with an OFFSET
/// depends on the order, and keeps the sort.
fn without_sort(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        return Ok(is_endless(sort.fetch()).then(|| Arc::clone(sort.input())));
    }
    if let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() {
        let Some(input) = without_sort(merge.input())? else { return Ok(None) };
        return Ok(Some(Arc::new(CoalescePartitionsExec::new(input))));
    }
    if let Some(limit) = node.downcast_ref::<GlobalLimitExec>() {
        let passes = limit.skip() == 0 && is_endless(limit.fetch());
        return if passes { without_sort(limit.input()) } else { Ok(None) };
    }
    let Some(projection) = node.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let Some(input) = without_sort(projection.input())? else { return Ok(None) };
    replace_children_if_necessary(Arc::clone(node), vec![input]).map(Some)
}

fn endless(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_sort = node.downcast_ref::<SortExec>().is_some()
        || node.downcast_ref::<SortPreservingMergeExec>().is_some();
    Ok(if is_sort && is_endless(node.fetch()) { node.with_fetch(None) } else { None })
}
