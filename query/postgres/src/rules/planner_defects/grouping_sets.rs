//! Corrects grouping sets of computed expressions. The planner names the columns of grouping sets
//! after their expressions, and loses the columns if a rule later changes an expression: for
//! example, a literal gets a type, or a truncation gets the session's time zone.
//!
//! ```text
//!   Aggregate: ROLLUP (v % 3, host)      Aggregate: ROLLUP ("v % 3", host)
//!     t                             ─►     Projection: t's columns, v % 3 AS "v % 3"
//!                                            t
//! ```

use std::sync::Arc;

use datafusion::{
    common::{
        Column, Result,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{
        Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder,
        utils::grouping_set_to_exprlist,
    },
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};

/// Computes the groups of grouping sets in a projection below the aggregation. Runs on the
/// planner's original plan, before any rule.
///
/// # Errors
/// Errors of the planner.
pub fn computed_below(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.change_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) => {
            let aggregate = with_groups_as_arguments(aggregate)?;
            Ok(match over_columns(&aggregate)? {
                Some(plan) => Transformed::yes(plan),
                None => Transformed::yes(LogicalPlan::Aggregate(aggregate)),
            })
        }
        other => Ok(Transformed::no(other)),
    })
    .map(|plan| plan.data)
}

/// Makes the arguments of GROUPING equal to the groups of the aggregation. The planner may add an
/// alias to an argument or to a group, and the aliased expression would not equal the original.
fn with_groups_as_arguments(aggregate: Aggregate) -> Result<Aggregate> {
    let groups: Vec<Expr> =
        grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
    let differs = |expr: &Expr| match expr {
        Expr::AggregateFunction(call) if call.func.name() == "grouping" => {
            Ok(call.params.args.iter().any(|argument| !groups.contains(argument)))
        }
        _ => Ok(false),
    };
    let mut found = false;
    for expr in &aggregate.aggr_expr {
        found |= expr.exists(differs)?;
    }
    if !found {
        return Ok(aggregate);
    }
    let as_group = |argument: Expr| {
        let same = |group: &&Expr| without_alias(group) == without_alias(&argument);
        groups.iter().find(same).cloned().unwrap_or(argument)
    };
    let calls = aggregate.aggr_expr.iter().cloned();
    let calls = calls.map(|expr| with_arguments(expr, as_group)).collect::<Result<_>>()?;
    Aggregate::try_new(Arc::clone(&aggregate.input), aggregate.group_expr, calls)
}

fn without_alias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => without_alias(&alias.expr),
        other => other,
    }
}

/// Applies `change` to the arguments of a GROUPING call, and keeps the name of the expression.
fn with_arguments(expr: Expr, change: impl Fn(Expr) -> Expr) -> Result<Expr> {
    let name = expr.schema_name().to_string();
    let changed = expr.change_up(|expr| match expr {
        Expr::AggregateFunction(mut call) if call.func.name() == "grouping" => {
            call.params.args = call.params.args.into_iter().map(&change).collect();
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    let same = changed.data.schema_name().to_string() == name;
    Ok(if same { changed.data } else { changed.data.alias(name) })
}

/// The aggregation with columns as its groups; `None` if no group is computed, or if two columns
/// would have the same name.
fn over_columns(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let [Expr::GroupingSet(set)] = aggregate.group_expr.as_slice() else { return Ok(None) };
    let schema = aggregate.input.schema();
    let mut computed: Vec<(&Expr, String)> = Vec::new();
    for group in set.distinct_expr() {
        if matches!(group, Expr::Column(_)) || computed.iter().any(|(known, _)| *known == group) {
            continue;
        }
        let name = group.schema_name().to_string();
        let taken = computed.iter().any(|(_, known)| *known == name)
            || schema.iter().any(|(table, field)| table.is_none() && *field.name() == name);
        if taken {
            return Ok(None);
        }
        computed.push((group, name));
    }
    if computed.is_empty() {
        return Ok(None);
    }
    let as_column = |expr: Expr| -> Expr {
        match computed.iter().find(|(group, _)| **group == expr) {
            Some((_, name)) => Expr::Column(Column::new_unqualified(name)),
            None => expr,
        }
    };
    let all = |groups: &[Expr]| -> Vec<Expr> { groups.iter().cloned().map(as_column).collect() };
    let set = match set {
        GroupingSet::Rollup(groups) => GroupingSet::Rollup(all(groups)),
        GroupingSet::Cube(groups) => GroupingSet::Cube(all(groups)),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.iter().map(|groups| all(groups)).collect())
        }
    };
    let aggregates = aggregate
        .aggr_expr
        .iter()
        .cloned()
        .map(|expr| with_arguments(expr, as_column))
        .collect::<Result<Vec<Expr>>>()?;
    let mut columns: Vec<Expr> = schema.iter().map(Expr::from).collect();
    columns.extend(computed.iter().map(|(group, name)| (*group).clone().alias(name)));
    let input = LogicalPlanBuilder::from(aggregate.input.as_ref().clone()).project(columns)?;
    let groups = vec![Expr::GroupingSet(set)];
    let over = Aggregate::try_new(Arc::new(input.build()?), groups, aggregates)?;
    let names = |aggregate: &Aggregate| -> Vec<String> {
        aggregate.schema.iter().map(|(_, field)| field.name().clone()).collect()
    };
    Ok((names(&over) == names(aggregate)).then_some(LogicalPlan::Aggregate(over)))
}
