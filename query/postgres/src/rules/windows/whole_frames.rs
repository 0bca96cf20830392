//! RANGE frames that end before the current row, over values that can be NULL, NaN or infinite.
//!
//! For such a value, the frame ends with the peers of the row (rows with an equal key), because
//! `NULL - 1` is NULL, and `Infinity - 1` is Infinity. DataFusion's streaming operator assumes that
//! the end of a preceding frame is known before the next row arrives, and misses peers in the next
//! batch. Its operator for whole partitions waits for all peers.

use std::sync::Arc;

use datafusion::{
    common::Result,
    logical_expr::{WindowFrameBound, WindowFrameUnits},
    physical_expr::{LexOrdering, PhysicalSortExpr},
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, InputOrderMode, WindowExpr,
        sorts::sort::SortExec,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};

use crate::rules::each_node::EachNode;

/// Rule: replaces the streaming operator by the operator for whole partitions, if a frame can end
/// with later peers.
pub const WHOLE_FRAMES: EachNode = EachNode::new("whole_frames", whole);

fn whole(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() else { return Ok(None) };
    let mut needs_peers = false;
    for expr in window.window_expr() {
        needs_peers |= ends_with_later_peers(expr, window.input())?;
    }
    if !needs_peers {
        return Ok(None);
    }
    let input = Arc::clone(window.input());
    let is_sorted = window.input_order_mode == InputOrderMode::Sorted;
    let order = if is_sorted { None } else { window.window_expr().first().and_then(order_of) };
    let partitioned = !window.partition_keys().is_empty();
    let expressions = window.window_expr().to_vec();
    let whole = WindowAggExec::try_new(expressions, sorted(input, order), partitioned)?;
    // The nodes above may depend on the order in which a streaming operator returns unsorted
    // partitions.
    let order_above = if is_sorted { None } else { node.output_ordering().cloned() };
    Ok(Some(sorted(Arc::new(whole), order_above)))
}

/// Sorts each stream of `input` in the given order, if any.
fn sorted(input: Arc<dyn ExecutionPlan>, order: Option<LexOrdering>) -> Arc<dyn ExecutionPlan> {
    match order {
        Some(order) => Arc::new(SortExec::new(order, input).with_preserve_partitioning(true)),
        None => input,
    }
}

/// True if a frame with an end of PRECEDING can nevertheless contain peers after the row.
fn ends_with_later_peers(
    expr: &Arc<dyn WindowExpr>,
    input: &Arc<dyn ExecutionPlan>,
) -> Result<bool> {
    let frame = expr.get_window_frame();
    let precedes =
        matches!(&frame.end_bound, WindowFrameBound::Preceding(offset) if !offset.is_null());
    let Some(by) = expr.order_by().first() else { return Ok(false) };
    if frame.units != WindowFrameUnits::Range || !precedes {
        return Ok(false);
    }
    let schema = input.schema();
    Ok(by.expr.nullable(&schema)? || by.expr.data_type(&schema)?.is_floating())
}

/// The sort order that a window needs: the partition keys, then the order of the rows in a
/// partition.
fn order_of(expr: &Arc<dyn WindowExpr>) -> Option<LexOrdering> {
    let partitions =
        expr.partition_by().iter().map(|by| PhysicalSortExpr::new_default(Arc::clone(by)));
    LexOrdering::new(partitions.chain(expr.order_by().iter().cloned()))
}
