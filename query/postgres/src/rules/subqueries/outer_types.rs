//! Updates the types of the outer columns that a subquery names. The planner recorded these types
//! before other rules changed the types of the columns.

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
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};

use crate::rules::types::common_types::UnionTypes;

/// Rule: updates the types of outer columns in subqueries. Runs before type coercion.
#[derive(Debug)]
pub struct OuterTypes;

impl AnalyzerRule for OuterTypes {
    fn name(&self) -> &str {
        "outer_types"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names_outside = false;
        plan.each_with_subqueries(|node| {
            names_outside = names_outside || node.contains_outer_reference();
            Ok(match names_outside {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })?;
        if !names_outside {
            return Ok(plan);
        }
        // The type of a UNION may depend on outer columns, and other columns may depend on the type
        // of the UNION; several rounds are therefore necessary.
        let mut plan = plan;
        for _ in 0..ROUNDS {
            plan = UnionTypes.analyze(updated(plan, &[])?, config)?;
        }
        updated(plan, &[])
    }
}

/// Number of rounds: the maximum length of a chain of UNIONs whose types depend on each other.
const ROUNDS: usize = 2;

/// The plan with updated types. `outside` has the schemas of the outer queries, from the outermost
/// to the innermost.
fn updated(plan: LogicalPlan, outside: &[DFSchema]) -> Result<LogicalPlan> {
    plan.transform_down_up(
        |node| of_lateral(node, outside),
        |node| {
            let mut schemas = outside.to_vec();
            if let LogicalPlan::Subquery(mut subquery) = node {
                schemas.push(DFSchema::empty());
                subquery.outer_ref_columns = of_columns(subquery.outer_ref_columns, &schemas)?;
                return Ok(Transformed::yes(LogicalPlan::Subquery(subquery)));
            }
            schemas.push(merge_schema(&node.inputs()));
            node.map_expressions(|expr| expr.change_up(|expr| of_expression(expr, &schemas)))
        },
    )
    .map(|plan| plan.data)
}

/// Updates a LATERAL join: the columns of its left side are outer columns for its right side.
fn of_lateral(node: LogicalPlan, outside: &[DFSchema]) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = node else { return Ok(Transformed::no(node)) };
    let is_lateral = join.right.exists(|node| {
        Ok(matches!(node, LogicalPlan::Subquery(subquery) if !subquery.outer_ref_columns.is_empty()))
    })?;
    if !is_lateral {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let left = updated(Arc::unwrap_or_clone(join.left), outside)?;
    let mut within = outside.to_vec();
    within.push(left.clone().recompute_schema()?.schema().as_ref().clone());
    join.right = Arc::new(updated(Arc::unwrap_or_clone(join.right), &within)?);
    join.left = Arc::new(left);
    Ok(Transformed::new(LogicalPlan::Join(join), true, TreeNodeRecursion::Jump))
}

/// Updates an expression. `schemas` has the schemas of the outer queries, and last the schema of
/// the node itself.
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
    let plan = Arc::unwrap_or_clone(subquery.subquery);
    subquery.subquery = Arc::new(updated(plan, schemas)?.recompute_schema()?);
    let nowhere = DFSchema::empty();
    let mut within = schemas.to_vec();
    within.push(nowhere);
    subquery.outer_ref_columns = of_columns(subquery.outer_ref_columns, &within)?;
    Ok(subquery)
}

fn of_columns(columns: Vec<Expr>, schemas: &[DFSchema]) -> Result<Vec<Expr>> {
    columns
        .into_iter()
        .map(|column| column.change_up(|expr| of_expression(expr, schemas)).map(|new| new.data))
        .collect()
}
