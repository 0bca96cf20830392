//! An optimizer rule that removes a sort by time over filters and projections of one chronicle: the
//! scan itself returns the rows in order (CL-4).

use std::sync::Arc;

use datafusion::{
    common::Result,
    physical_expr::{PhysicalSortExpr, expressions::Column},
    physical_plan::{
        ExecutionPlan, SortOrderPushdownResult, coop::CooperativeExec, filter::FilterExec,
        limit::GlobalLimitExec, projection::ProjectionExec, replace_children_if_necessary,
        sorts::sort::SortExec,
    },
};
use stratalog_postgres::rules::each_node::EachNode;

use crate::table::scan::ChronicleScan;

/// Removes sorts whose order a scan can provide.
pub const ORDERED_SCAN: EachNode = EachNode::new("ordered_scan", unsorted);

fn unsorted(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(None) };
    let order: Vec<PhysicalSortExpr> = sort.expr().iter().cloned().collect();
    let input = ordered(sort.input(), &order)?;
    Ok(input.map(|input| match sort.fetch() {
        Some(rows) => Arc::new(GlobalLimitExec::new(input, 0, Some(rows))),
        None => input,
    }))
}

/// Changes the scan below `plan` so that `plan` returns rows in `order`; `None` if the scan cannot
/// provide the order.
fn ordered(
    plan: &Arc<dyn ExecutionPlan>,
    order: &[PhysicalSortExpr],
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if plan.downcast_ref::<ChronicleScan>().is_some() {
        return Ok(match plan.try_pushdown_sort(order)? {
            SortOrderPushdownResult::Exact { inner } => Some(inner),
            _ => None,
        });
    }
    let below = if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        through_filter(filter, order)
    } else if plan.downcast_ref::<CooperativeExec>().is_some() {
        Some(order.to_vec())
    } else {
        plan.downcast_ref::<ProjectionExec>()
            .and_then(|projection| order_below_projection(projection, order))
    };
    let children = plan.children();
    let (Some(below), [child]) = (below, children.as_slice()) else {
        return Ok(None);
    };
    match ordered(child, &below)? {
        Some(child) => replace_children_if_necessary(Arc::clone(plan), vec![child]).map(Some),
        None => Ok(None),
    }
}

/// Translates an order of a filter's output to the columns of its input. `None` for a filter with a
/// row limit: another row order would change the result.
fn through_filter(
    filter: &FilterExec,
    order: &[PhysicalSortExpr],
) -> Option<Vec<PhysicalSortExpr>> {
    if filter.fetch().is_some() {
        return None;
    }
    let Some(kept) = filter.projection().as_ref() else { return Some(order.to_vec()) };
    order
        .iter()
        .map(|sort| {
            let column = sort.expr.downcast_ref::<Column>()?;
            let source = Column::new(column.name(), *kept.get(column.index())?);
            Some(PhysicalSortExpr::new(Arc::new(source), sort.options))
        })
        .collect()
}

/// Translates an order of a projection's output to the columns of its input; `None` if impossible.
fn order_below_projection(
    projection: &ProjectionExec,
    order: &[PhysicalSortExpr],
) -> Option<Vec<PhysicalSortExpr>> {
    order
        .iter()
        .map(|sort| {
            let column = sort.expr.downcast_ref::<Column>()?;
            let source = &projection.expr().get(column.index())?.expr;
            source.downcast_ref::<Column>()?;
            Some(PhysicalSortExpr::new(Arc::clone(source), sort.options))
        })
        .collect()
}
