//! Makes sorts, groups, joins and DISTINCT compare intervals by their length.

use std::sync::Arc;

use datafusion::{
    common::{
        Column, Result,
        config::ConfigOptions,
        internal_err,
        tree_node::{Transformed, TreeNode},
    },
    functions_aggregate::first_last::first_value_udaf,
    logical_expr::{
        Aggregate, Distinct, Expr, LogicalPlan, Projection, ScalarUDF, expr::AggregateFunction,
        utils::grouping_set_to_exprlist, when,
    },
    optimizer::AnalyzerRule,
};
use stratalog_functions::plan_walk::PlanWalk;

use crate::rules::{
    calendar::lengths::{has_length, length},
    subqueries::decorrelation::is_key,
};

/// Replaces intervals by their lengths wherever a plan compares rows. Runs before type coercion.
#[derive(Debug)]
pub struct RowsByLength {
    length: Arc<ScalarUDF>,
}

impl Default for RowsByLength {
    fn default() -> Self {
        Self { length: length() }
    }
}

impl AnalyzerRule for RowsByLength {
    fn name(&self) -> &str {
        "rows_by_length"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|node| {
            let node = node.recompute_schema()?;
            match node {
                LogicalPlan::Sort(mut sort) => {
                    let mut changed = false;
                    for key in &mut sort.expr {
                        changed |= self.replace(&mut key.expr, &sort.input);
                    }
                    Ok(transformed(LogicalPlan::Sort(sort), changed))
                }
                LogicalPlan::Join(mut join) => {
                    let mut changed = false;
                    for (left, right) in &mut join.on {
                        changed |= self.replace(left, &join.left);
                        changed |= self.replace(right, &join.right);
                    }
                    Ok(transformed(LogicalPlan::Join(join), changed))
                }
                LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
                    let mut changed = false;
                    let keys = distinct.sort_expr.iter_mut().flatten().map(|key| &mut key.expr);
                    for expr in keys.chain(&mut distinct.on_expr) {
                        changed |= self.replace(expr, &distinct.input);
                    }
                    Ok(transformed(LogicalPlan::Distinct(Distinct::On(distinct)), changed))
                }
                LogicalPlan::Distinct(Distinct::All(input)) => {
                    let columns: Vec<Expr> =
                        input.schema().columns().into_iter().map(Expr::Column).collect();
                    let by_length =
                        |column: &Expr| has_length(column, input.schema()) && !is_key(column);
                    if columns.iter().any(by_length) {
                        let groups = Aggregate::try_new(input, columns, Vec::new())?;
                        return self.group_by_lengths(groups).map(Transformed::yes);
                    }
                    Ok(Transformed::no(LogicalPlan::Distinct(Distinct::All(input))))
                }
                LogicalPlan::Aggregate(groups)
                    if grouping_set_to_exprlist(&groups.group_expr)?.into_iter().any(|group| {
                        has_length(group, groups.input.schema()) && !is_key(group)
                    }) =>
                {
                    self.group_by_lengths(groups).map(Transformed::yes)
                }
                other => Ok(Transformed::no(other)),
            }
        })
        .map(|plan| plan.data)
    }
}

fn transformed(plan: LogicalPlan, changed: bool) -> Transformed<LogicalPlan> {
    if changed { Transformed::yes(plan) } else { Transformed::no(plan) }
}

impl RowsByLength {
    fn replace(&self, expr: &mut Expr, input: &LogicalPlan) -> bool {
        let interval = has_length(expr, input.schema()) && !is_key(expr);
        if interval {
            *expr = self.length.call(vec![std::mem::take(expr)]);
        }
        interval
    }

    /// Groups by the lengths of intervals, and returns the first interval of each group. In a
    /// grouping set that does not contain the interval, the length is NULL, and the result is NULL
    /// too.
    fn group_by_lengths(&self, groups: Aggregate) -> Result<LogicalPlan> {
        let Aggregate { input, mut group_expr, mut aggr_expr, schema, .. } = groups;
        // The result columns are first the groups, then the aggregates.
        let mut shown: Vec<Expr> = schema
            .iter()
            .map(|(table, field)| Expr::Column(Column::from((table, field))))
            .collect();
        let in_sets = matches!(group_expr.as_slice(), [Expr::GroupingSet(_)]);
        let keys: Vec<Expr> = grouping_set_to_exprlist(&group_expr)?.into_iter().cloned().collect();
        let mut replaced = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            if !has_length(key, input.schema()) || is_key(key) {
                continue;
            }
            // An aggregation over another such aggregation needs different names.
            let taken = |name: &String| input.schema().has_column_with_unqualified_name(name);
            let names = (0..).map(|level: usize| format!("$interval{at}.{level}"));
            let name = names.into_iter().find(|name| !taken(name)).unwrap_or_default();
            let first = AggregateFunction::new_udf(
                first_value_udaf(),
                vec![key.clone()],
                false,
                None,
                Vec::new(),
                None,
            );
            aggr_expr.push(Expr::AggregateFunction(first).alias(name.clone()));
            for group in &mut group_expr {
                *group = self.with_length_of(key, std::mem::take(group))?;
            }
            replaced.push((at, name));
        }
        let groups = Aggregate::try_new(input, group_expr, aggr_expr)?;
        let lengths = groups.schema.columns();
        for (at, name) in replaced {
            let (Some(output), Some(length)) = (shown.get_mut(at), lengths.get(at)) else {
                return internal_err!("a group has no column");
            };
            let Expr::Column(column) = &*output else { continue };
            let first = Expr::Column(Column::new_unqualified(name));
            let first = match in_sets {
                true => when(Expr::Column(length.clone()).is_not_null(), first).end()?,
                false => first,
            };
            *output = first.alias_qualified(column.relation.clone(), column.name.clone());
        }
        let shown = Projection::try_new(shown, Arc::new(LogicalPlan::Aggregate(groups)))?;
        Ok(LogicalPlan::Projection(shown))
    }

    /// Replaces `key` in a group by its length, if the group is exactly `key`. A group that only
    /// contains `key` stays unchanged.
    fn with_length_of(&self, key: &Expr, group: Expr) -> Result<Expr> {
        let of_part = |part: Expr| match part == *key {
            true => self.length.call(vec![part]),
            false => part,
        };
        match group {
            sets @ Expr::GroupingSet(_) => {
                Ok(sets.map_children(|part| Ok(Transformed::yes(of_part(part))))?.data)
            }
            other => Ok(of_part(other)),
        }
    }
}
