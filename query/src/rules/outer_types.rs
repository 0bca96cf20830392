//! Columns that a subquery names from outside have the types that those columns have now:
//! planning wrote down the types that they had before rules changed them.

use std::sync::Arc;

use datafusion::{
    common::{
        DFSchema, ExprSchema, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{Expr, LogicalPlan, Subquery, utils::merge_schema},
    optimizer::AnalyzerRule,
};

/// Brings the types of such columns up to date. Runs before type coercion.
#[derive(Debug)]
pub struct OuterTypes;

impl AnalyzerRule for OuterTypes {
    fn name(&self) -> &str {
        "outer_types"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names_outside = false;
        plan.apply_with_subqueries(|node| {
            names_outside = names_outside || node.contains_outer_reference();
            Ok(match names_outside {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })?;
        if names_outside { updated(plan, &[]) } else { Ok(plan) }
    }
}

/// The plan, within the schemas outside of it, the nearest last.
fn updated(plan: LogicalPlan, outside: &[DFSchema]) -> Result<LogicalPlan> {
    plan.transform_up(|node| {
        let mut schemas = outside.to_vec();
        schemas.push(merge_schema(&node.inputs()));
        node.map_expressions(|expr| expr.transform_up(|expr| of_expression(expr, &schemas)))
    })
    .map(|plan| plan.data)
}

/// `schemas` are those outside, and last that of the node itself.
fn of_expression(expr: Expr, schemas: &[DFSchema]) -> Result<Transformed<Expr>> {
    match expr {
        Expr::OuterReferenceColumn(field, column) => {
            let outside = schemas.split_last().map(|(_, outside)| outside).unwrap_or_default();
            let now =
                outside.iter().rev().find_map(|schema| schema.field_from_column(&column).ok());
            Ok(match now {
                Some(now) if now.data_type() != field.data_type() => {
                    Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(now), column))
                }
                _ => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            })
        }
        Expr::Exists(mut exists) => {
            exists.subquery = of_subquery(exists.subquery, schemas)?;
            Ok(Transformed::yes(Expr::Exists(exists)))
        }
        Expr::InSubquery(mut membership) => {
            membership.subquery = of_subquery(membership.subquery, schemas)?;
            Ok(Transformed::yes(Expr::InSubquery(membership)))
        }
        Expr::SetComparison(mut comparison) => {
            comparison.subquery = of_subquery(comparison.subquery, schemas)?;
            Ok(Transformed::yes(Expr::SetComparison(comparison)))
        }
        Expr::ScalarSubquery(subquery) => {
            Ok(Transformed::yes(Expr::ScalarSubquery(of_subquery(subquery, schemas)?)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn of_subquery(mut subquery: Subquery, schemas: &[DFSchema]) -> Result<Subquery> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(subquery);
    }
    let plan = Arc::unwrap_or_clone(subquery.subquery);
    subquery.subquery = Arc::new(updated(plan, schemas)?.recompute_schema()?);
    let nowhere = DFSchema::empty();
    let mut within = schemas.to_vec();
    within.push(nowhere);
    subquery.outer_ref_columns = subquery
        .outer_ref_columns
        .into_iter()
        .map(|column| column.transform_up(|expr| of_expression(expr, &within)).map(|new| new.data))
        .collect::<Result<_>>()?;
    Ok(subquery)
}
