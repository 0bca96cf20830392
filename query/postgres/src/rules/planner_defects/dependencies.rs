//! Protects group keys and sort keys from wrong functional dependencies. DataFusion drops a key
//! that other keys determine, but sometimes assumes a dependency wrongly: the key of a table
//! determines the columns of this table, but not the columns that a join or `unnest` adds.
//!
//! ```text
//!   Aggregate: group by d.a, t.k          Projection: group_0 AS d.a, group_1 AS t.k
//!     Cross Join                    ─►      Aggregate: group by d.a AS group_0, t.k AS group_1
//!       d: the distinct a                     Cross Join …
//!       t
//! ```
//!
//! DataFusion knows no dependencies of a column with an alias.

use std::sync::Arc;

use datafusion::{
    common::{
        Column, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{
        Aggregate, Distinct, Expr, LogicalPlan, Projection, Sort, utils::grouping_set_to_exprlist,
    },
    optimizer::AnalyzerRule,
};
use stratalog_functions::plan_walk::PlanWalk;

/// Hides functional dependencies by aliases for group and sort keys. Runs last.
#[derive(Debug)]
pub struct HiddenDependencies;

impl AnalyzerRule for HiddenDependencies {
    fn name(&self) -> &str {
        "own_groups"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(aggregate)
                if aggregate.group_expr.len() > 1 && repeats(&aggregate.input)? =>
            {
                own_groups(aggregate)
            }
            LogicalPlan::Distinct(Distinct::All(input)) if repeats(&input)? => {
                let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
                own_groups(Aggregate::try_new(input, columns, Vec::new())?)
            }
            LogicalPlan::Sort(mut sort) if sort.expr.len() > 1 && repeats(&sort.input)? => {
                for (at, by) in sort.expr.iter_mut().enumerate() {
                    if let Expr::Column(_) = by.expr {
                        by.expr = std::mem::take(&mut by.expr).alias(format!("__sorted_{at}"));
                    }
                }
                Ok(Transformed::yes(LogicalPlan::Sort(Sort { ..sort })))
            }
            other => Ok(Transformed::no(other)),
        })
        .map(|plan| plan.data)
    }
}

/// Whether a plan may repeat the keys of a table below.
fn repeats(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::Join(_) | LogicalPlan::Unnest(_))))
}

fn own_groups(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let is_column = |group: &Expr| matches!(group, Expr::Column(_));
    if !aggregate.group_expr.iter().any(is_column) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let shown = aggregate.schema.columns();
    let name = |at: usize| format!("__group_{at}");
    // Equal keys share one column.
    let keys = grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned();
    let groups: Vec<Expr> = keys.enumerate().map(|(at, key)| key.alias(name(at))).collect();
    let columns = shown.into_iter().enumerate().map(|(at, column)| match at < groups.len() {
        true => Expr::Column(Column::new_unqualified(name(at)))
            .alias_qualified(column.relation, column.name),
        false => Expr::Column(column),
    });
    let columns = columns.collect();
    let aggregate = Aggregate::try_new(aggregate.input, groups, aggregate.aggr_expr)?;
    let aggregate = Arc::new(LogicalPlan::Aggregate(aggregate));
    let projection = Projection::try_new(columns, aggregate)?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}
