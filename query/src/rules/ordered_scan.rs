//! A sort by time above filters and projections of one chronicle: the scan delivers that
//! order itself (CL-4), and nothing is sorted.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    physical_expr::{PhysicalSortExpr, expressions::Column},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, SortOrderPushdownResult, coop::CooperativeExec, filter::FilterExec,
        limit::GlobalLimitExec, projection::ProjectionExec, replace_children_if_necessary,
        sorts::sort::SortExec,
    },
};

use crate::table::scan::ChronicleScan;

/// Removes sorts that a scan makes unnecessary.
#[derive(Debug)]
pub struct OrderedScan;

impl PhysicalOptimizerRule for OrderedScan {
    fn name(&self) -> &str {
        "ordered_scan"
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
            let Some(sort) = node.downcast_ref::<SortExec>() else {
                return Ok(Transformed::no(node));
            };
            let order: Vec<PhysicalSortExpr> = sort.expr().iter().cloned().collect();
            Ok(match ordered(sort.input(), &order)? {
                Some(input) => Transformed::yes(match sort.fetch() {
                    Some(rows) => Arc::new(GlobalLimitExec::new(input, 0, Some(rows))),
                    None => input,
                }),
                None => Transformed::no(node),
            })
        })
        .map(|plan| plan.data)
    }
}

/// `plan` over a scan that delivers `order`, if there is one.
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
        plan.downcast_ref::<ProjectionExec>().and_then(|projection| through(projection, order))
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

/// The order in the columns that a filter reads. One that stops early would take other rows.
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

/// The order in the columns that a projection reads.
fn through(
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
