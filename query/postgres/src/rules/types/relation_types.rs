//! Determines the column types of subqueries in FROM before the planner reads the outer query:
//!
//! ```text
//!   SELECT sum(c) / 4 FROM (SELECT 1 AS c) q
//!                                  └ integer: the sum is a bigint, and the quotient has no fraction
//! ```
//!
//! [`IntegerLiterals`](super::literals::IntegerLiterals) narrows constants to integer only after
//! planning. Without this module, the planner would give `c` the type bigint and the sum the type
//! numeric, and plan another division.

use std::{cell::Cell, sync::Arc};

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        Distinct, Expr, LogicalPlan, SubqueryAlias,
        planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning},
    },
    sql::sqlparser::ast::TableFactor,
};
use stratalog_functions::literal::style_of;
use stratalog_text::TextStyle;

use super::{
    common_types::{
        columns_of, in_common_types, is_set_operation, narrowed, sides, unaliased, uncast,
    },
    floats::values_in_doubles,
    literals::narrow_columns,
};

thread_local! {
    /// True if DataFusion's planner, and not this extension, plans the next relation on this
    /// thread.
    static BY_DEFAULT: Cell<bool> = const { Cell::new(false) };
}

/// Planner extension: determines the types of subqueries in FROM, and of WITH queries at each
/// reference.
#[derive(Debug)]
pub struct RelationTypes;

impl RelationPlanner for RelationTypes {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if BY_DEFAULT.take() {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        let alias = match &mut relation {
            TableFactor::Derived { alias, .. } | TableFactor::Table { alias, args: None, .. } => {
                alias.take()
            }
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        // `context.plan` calls all relation planners again, and this extension first.
        BY_DEFAULT.set(true);
        let planned = context.plan(relation);
        BY_DEFAULT.set(false);
        let style = style_of(context.context_provider().options());
        let plan = settled(planned?, &style)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

/// Gives the constants of a relation their final types. Relations inside of it already have final
/// types.
fn settled(plan: LogicalPlan, style: &TextStyle) -> Result<LogicalPlan> {
    match plan {
        // The alias is the name of a WITH query.
        LogicalPlan::SubqueryAlias(alias) => {
            let input = settled(Arc::unwrap_or_clone(alias.input), style)?;
            SubqueryAlias::try_new(Arc::new(input), alias.alias).map(LogicalPlan::SubqueryAlias)
        }
        plan => {
            let stop = |node: LogicalPlan| {
                let next = match node {
                    LogicalPlan::SubqueryAlias(_) | LogicalPlan::RecursiveQuery(_) => {
                        TreeNodeRecursion::Jump
                    }
                    _ => TreeNodeRecursion::Continue,
                };
                Ok(Transformed::new(node, false, next))
            };
            plan.transform_down_up(stop, |node| settled_node(node, style)).map(|plan| plan.data)
        }
    }
}

fn settled_node(node: LogicalPlan, style: &TextStyle) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Distinct(Distinct::On(_)) => narrow_columns(node),
        LogicalPlan::Values(values) => {
            values_in_doubles(values)?.transform_data(|node| match node {
                LogicalPlan::Values(values) => narrowed(values),
                other => Ok(Transformed::no(other)),
            })
        }
        // The analyzer later gives the parameter the type of the other columns.
        node if has_open_column(&node) => Ok(Transformed::no(node)),
        node => {
            let node = node.recompute_schema()?;
            // If this fails, the analyzer later reports the error.
            Ok(in_common_types(node.clone(), style).unwrap_or(Transformed::no(node)))
        }
    }
}

/// Whether a column of a set operation is an untyped parameter.
fn has_open_column(node: &LogicalPlan) -> bool {
    let is_open = |column: &Expr| matches!(uncast(unaliased(column)), Expr::Placeholder(open) if open.field.is_none());
    let has_open = |(columns, _): (Vec<Expr>, _)| columns.iter().any(is_open);
    match node {
        LogicalPlan::Union(union) => union.inputs.iter().map(columns_of).any(has_open),
        LogicalPlan::Join(join) if is_set_operation(join) => sides(join).into_iter().any(has_open),
        _ => false,
    }
}
