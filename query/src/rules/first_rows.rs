//! An optimizer rule that finds whole rows instead of aggregating columns. If all columns of an
//! aggregation come from the first row of a group, the plan finds the first row once for all
//! columns.
//!
//! ```text
//!   AggregateExec: first_value(a), first_value(b), …     ProjectionExec: a, b, …
//!     └ AggregateExec: the same, partial              ─►   └ FirstRowsExec: mode=Final
//!         └ rows                                             └ FirstRowsExec: mode=Partial
//!                                                              └ rows
//! ```

use std::sync::Arc;

use datafusion::{
    common::Result,
    physical_expr::{
        PhysicalExpr, PhysicalSortExpr, aggregate::AggregateFunctionExpr, expressions::Column,
    },
    physical_plan::{
        ExecutionPlan,
        aggregates::{AggregateExec, AggregateMode},
    },
};
use stratalog_postgres::rules::each_node::EachNode;

use super::newest_rows::{first_stage, projected};
use crate::first_rows::{First, FirstRowsExec, FirstRowsMode, groups_by};

/// Finds the rows of DISTINCT ON instead of aggregating each column. The rule runs after
/// [`NEWEST_ROWS`], and before the rules that sort and distribute rows.
///
/// [`NEWEST_ROWS`]: super::newest_rows::NEWEST_ROWS
pub const FIRST_ROWS: EachNode = EachNode::new("first_rows", first_rows);

/// Minimum number of columns for the rule. For fewer columns, the aggregation is faster, because it
/// needs no sorted groups.
const COLUMNS_MIN: usize = 3;

fn first_rows(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    // A partial aggregation returns states, not rows.
    let Some(rows) = first_stage(aggregate).filter(|_| !is_partial(aggregate)) else {
        return Ok(None);
    };
    let Some(first) = wanted_by(rows)? else { return Ok(None) };
    let first = Arc::new(first);
    let some =
        FirstRowsExec::new(FirstRowsMode::Partial, Arc::clone(&first), Arc::clone(rows.input()));
    let all = FirstRowsExec::new(FirstRowsMode::Final, first, Arc::new(some));
    projected(aggregate, rows, Arc::new(all))
}

fn is_partial(aggregate: &AggregateExec) -> bool {
    *aggregate.mode() == AggregateMode::Partial
}

/// The groups and the order that define the first row of each group. `None` if an aggregate reads
/// other rows, or if this rule does not support the aggregation.
fn wanted_by(aggregate: &AggregateExec) -> Result<Option<First>> {
    let groups = aggregate.group_expr();
    let functions = aggregate.aggr_expr();
    if !groups.is_single()
        || groups.expr().is_empty()
        || aggregate.filter_expr().iter().any(Option::is_some)
        || aggregate.limit_options().is_some()
    {
        return Ok(None);
    }
    let groups: Vec<&Arc<dyn PhysicalExpr>> = groups.expr().iter().map(|(expr, _)| expr).collect();
    let schema = aggregate.input().schema();
    for group in &groups {
        if !groups_by(&group.data_type(&schema)?) {
            return Ok(None);
        }
    }
    let mut orders = functions.iter().map(|function| order_of(function));
    let Some(Some(order)) = orders.next() else { return Ok(None) };
    if order.is_empty() || !orders.all(|other| other.as_ref() == Some(&order)) {
        return Ok(None);
    }
    // For computed orders, always apply the rule: DataFusion's aggregates fail if a computed order
    // implies another order.
    let plain = order.iter().all(|by| by.expr.downcast_ref::<Column>().is_some());
    if plain && functions.len() < COLUMNS_MIN {
        return Ok(None);
    }
    let is_group = |by: &PhysicalSortExpr| groups.iter().any(|group| group.eq(&&by.expr));
    // Keep the requested order, to avoid another sort.
    let mut by_group: Vec<PhysicalSortExpr> =
        order.iter().filter(|by| is_group(by)).cloned().collect();
    for group in groups.iter().copied() {
        if !by_group.iter().any(|by| by.expr.eq(group)) {
            by_group.push(PhysicalSortExpr::new_default(Arc::clone(group)));
        }
    }
    let order = order.into_iter().filter(|by| !is_group(by)).collect();
    Ok(Some(First { groups: by_group, order }))
}

/// The sort order whose first row a function uses; `None` if the function uses other rows.
fn order_of(function: &AggregateFunctionExpr) -> Option<Vec<PhysicalSortExpr>> {
    let one = function.expressions().len() == 1;
    if !one || function.is_distinct() || function.ignore_nulls() || function.is_reversed() {
        return None;
    }
    let mut order = function.order_bys().to_vec();
    match function.fun().name() {
        "first_value" => {}
        "last_value" => order.iter_mut().for_each(|by| by.options = !by.options),
        _ => return None,
    }
    Some(order)
}
