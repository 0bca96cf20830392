//! Refuses aggregates in a subquery that name only outer columns. In SQL, such an aggregate belongs
//! to the outer query.

use datafusion::{
    common::{DFSchema, Result, tree_node::TreeNodeRecursion},
    logical_expr::{Expr, LogicalPlan},
};
use stratalog_functions::plan_walk::TreeWalk;
use stratalog_model::{Error, ErrorKind};

use super::native_subqueries;
use crate::errors::to_datafusion;

/// Refuses aggregates in a subquery that name only outer columns: computed in the subquery, the
/// result would differ.
///
/// # Errors
/// `FeatureNotSupported`.
pub fn check(subquery: &LogicalPlan) -> Result<()> {
    subquery.each(|node| {
        let LogicalPlan::Aggregate(aggregate) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        for expr in &aggregate.aggr_expr {
            if is_outside(expr, aggregate.input.schema())? {
                return Err(to_datafusion(
                    Error::new(
                        ErrorKind::FeatureNotSupported,
                        "an aggregate of outer columns alone in a subquery is not supported",
                    )
                    .with_hint("compute the aggregate in the outer query, or aggregate a column of the subquery"),
                ));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Whether an aggregate names outer columns, and no column of `schema`.
fn is_outside(aggregate: &Expr, schema: &DFSchema) -> Result<bool> {
    let (mut outside, mut within) = (false, false);
    aggregate.each(|part| {
        match part {
            Expr::Column(_) => within = true,
            Expr::OuterReferenceColumn(..) => outside = true,
            other => {
                if let Some(rows) = native_subqueries::subquery_plan(other) {
                    for column in native_subqueries::outer_columns(rows) {
                        let is_within = schema.has_column(&column);
                        within |= is_within;
                        outside |= !is_within;
                    }
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(outside && !within)
}
