//! Recognizes subqueries that need no decorrelation: DataFusion's own joins for them are correct,
//! or DataFusion computes them once.

use std::collections::HashSet;

use datafusion::{
    common::{Column, DFSchema, Result, tree_node::TreeNode},
    logical_expr::{
        BinaryExpr, Expr, FetchType, Limit, LogicalPlan, Operator, Subquery,
        expr::{Exists, InSubquery},
        utils::split_conjunction,
    },
};

use super::is_subquery_in;

/// Where a subquery stands in a plan node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubqueryPlace {
    /// A whole condition of WHERE, joined with other conditions by AND.
    Condition,
    /// A part of a condition of WHERE.
    Filter,
    /// A part of a select list.
    Projection,
    /// A part of a group, aggregate or sort expression.
    Group,
    Elsewhere,
}

/// Whether DataFusion itself can execute a subquery in its place. `schema` has the columns of the
/// outer rows.
///
/// # Errors
/// Only errors of the plan traversal.
pub fn is_native(subquery: &Expr, place: SubqueryPlace, schema: &DFSchema) -> Result<bool> {
    Ok(match subquery {
        Expr::Exists(Exists { subquery, .. }) => {
            let rows = &subquery.subquery;
            place != SubqueryPlace::Elsewhere
                && (!is_correlated(rows) || is_filtered(rows, schema)?)
        }
        Expr::InSubquery(membership) => is_native_membership(membership, place, schema)?,
        Expr::ScalarSubquery(Subquery { subquery, .. }) => {
            let joined = matches!(
                place,
                SubqueryPlace::Condition | SubqueryPlace::Filter | SubqueryPlace::Projection
            );
            match is_correlated(subquery) {
                true => joined && is_total(subquery, schema)?,
                // The subquery must be nullable: DataFusion assumes that a column without NULLs
                // always has a value, even if the subquery returns no row.
                false => {
                    is_total(subquery, schema)?
                        || subquery.schema().fields().iter().all(|field| field.is_nullable())
                }
            }
        }
        _ => false,
    })
}

fn is_native_membership(
    membership: &InSubquery,
    place: SubqueryPlace,
    schema: &DFSchema,
) -> Result<bool> {
    // A constant cannot be the key of a join.
    if membership.expr.column_refs().is_empty() {
        return Ok(false);
    }
    let rows = &membership.subquery.subquery;
    let asking = is_correlated(rows);
    Ok(match place {
        SubqueryPlace::Condition if membership.negated => !asking,
        SubqueryPlace::Elsewhere => false,
        _ => !asking || is_filtered(rows, schema)?,
    })
}

/// Whether DataFusion itself can execute the right side of a lateral join, given the columns of the
/// left side.
///
/// # Errors
/// Only errors of the plan traversal.
pub fn is_lateral(right: &LogicalPlan, left: &DFSchema) -> Result<bool> {
    let subquery = match right {
        LogicalPlan::SubqueryAlias(alias) => alias.input.as_ref(),
        other => other,
    };
    match subquery {
        LogicalPlan::Subquery(Subquery { subquery, .. }) => {
            Ok(is_filtered(subquery, left)? || is_total(subquery, left)?)
        }
        _ => Ok(false),
    }
}

/// Whether a plan names outer columns. Nested subqueries do not count: those that name outer
/// columns have already become joins.
pub fn is_correlated(plan: &LogicalPlan) -> bool {
    !plan.all_out_ref_exprs().is_empty()
}

/// Whether a plan names outer columns only in conditions, and only columns of `schema`.
fn is_filtered(plan: &LogicalPlan, schema: &DFSchema) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let clear = are_clear(&projection.expr, &projection.input);
            Ok(clear && is_filtered(&projection.input, schema)?)
        }
        LogicalPlan::Filter(filter) => {
            let beyond = is_beyond(&filter.predicate, schema)?;
            Ok(!beyond && has_names(&filter.input) && !is_correlated(&filter.input))
        }
        other => Ok(!is_correlated(other)),
    }
}

/// Whether the expressions name no outer columns, and no computed expression has the name of a
/// column of `input`: DataFusion finds the columns of conditions by name.
fn are_clear(exprs: &[Expr], input: &LogicalPlan) -> bool {
    let below = input.schema();
    exprs.iter().all(|expr| {
        let is_column = matches!(expr, Expr::Column(_));
        let taken = || below.has_column_with_unqualified_name(&expr.qualified_name().1);
        !expr.contains_outer() && (is_column || !taken())
    })
}

/// Whether the column names of a plan are distinct.
fn has_names(plan: &LogicalPlan) -> bool {
    let fields = plan.schema().fields();
    let names: HashSet<&String> = fields.iter().map(|field| field.name()).collect();
    names.len() == fields.len()
}

/// Whether a condition names outer columns that are not in `schema`, or contains both outer columns
/// and subqueries.
fn is_beyond(predicate: &Expr, schema: &DFSchema) -> Result<bool> {
    for condition in split_conjunction(predicate) {
        let beyond = condition.exists(|part| {
            Ok(matches!(part, Expr::OuterReferenceColumn(_, column) if !schema.has_column(column)))
        })?;
        if beyond || condition.contains_outer() && is_subquery_in(condition)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a plan is an aggregation without groups whose conditions only equate columns with outer
/// columns of `schema`.
fn is_total(plan: &LogicalPlan, schema: &DFSchema) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let clear = are_clear(&projection.expr, &projection.input);
            Ok(clear && is_total(&projection.input, schema)?)
        }
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
            let clear = are_clear(&aggregate.aggr_expr, &aggregate.input);
            Ok(clear && is_equal(&aggregate.input, schema)?)
        }
        _ => Ok(false),
    }
}

fn is_equal(plan: &LogicalPlan, schema: &DFSchema) -> Result<bool> {
    let LogicalPlan::Filter(filter) = plan else { return Ok(!is_correlated(plan)) };
    let conditions = split_conjunction(&filter.predicate);
    let equal = conditions.into_iter().all(|one| !one.contains_outer() || is_equality(one));
    let beyond = is_beyond(&filter.predicate, schema)?;
    Ok(equal && !beyond && has_names(&filter.input) && !is_correlated(&filter.input))
}

/// Whether a condition equates a column with an outer column.
fn is_equality(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return false;
    };
    matches!(
        (left.as_ref(), right.as_ref()),
        (Expr::Column(_), Expr::OuterReferenceColumn(..))
            | (Expr::OuterReferenceColumn(..), Expr::Column(_))
    )
}

/// Whether a plan never returns more than one row.
pub fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::Filter(filter) => is_one_row(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Subquery(subquery) => is_one_row(&subquery.subquery),
        LogicalPlan::Sort(sort) => is_one_row(&sort.input),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Limit(limit) => is_limited(limit) || is_one_row(&limit.input),
        _ => false,
    }
}

fn is_limited(limit: &Limit) -> bool {
    matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1))))
}

/// The plan of a subquery expression; `None` for other expressions.
pub fn subquery_plan(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(&subquery.subquery),
        Expr::Exists(exists) => Some(&exists.subquery.subquery),
        Expr::InSubquery(membership) => Some(&membership.subquery.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery.subquery),
        _ => None,
    }
}

/// The outer columns that a plan names, without duplicates, sorted by name.
pub fn outer_columns(plan: &LogicalPlan) -> Vec<Column> {
    let named = plan.all_out_ref_exprs().into_iter().filter_map(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) => Some(column),
        _ => None,
    });
    let mut columns: Vec<Column> = named.collect();
    columns.sort();
    columns.dedup();
    columns
}
