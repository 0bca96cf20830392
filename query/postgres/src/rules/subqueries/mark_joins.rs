//! Turns EXISTS and IN into mark joins where DataFusion does not plan a join: in a select list, and
//! in group, aggregate and sort expressions. Also turns IN inside of a larger condition into a mark
//! join, because DataFusion would treat an unknown result (NULL) like false there. A mark join adds
//! a boolean column, the *mark*, which says whether a row has a match.
//!
//! ```text
//!   Projection: a, EXISTS (rows)          Projection: a, mark
//!     t                            ─►       LeftMark Join: t with the mark
//!                                             t
//!                                             rows
//! ```

use std::{cell::Cell, collections::BTreeSet, sync::Arc};

use datafusion::{
    common::{
        Column, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{
        Aggregate, Distinct, DistinctOn, Expr, ExprSchemable, Filter, JoinType, LogicalPlan,
        LogicalPlanBuilder, Projection, Sort,
        expr::{Exists, InSubquery},
        expr_rewriter::{NamePreserver, replace_col},
        lit,
        utils::{conjunction, split_conjunction, split_conjunction_owned},
        when,
    },
    optimizer::{AnalyzerRule, decorrelate::PullUpCorrelatedExpr},
    scalar::ScalarValue,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};

use super::decorrelation::any_expression;
use crate::rules::aggregates::aggregate_inputs;

/// Rule: replaces EXISTS and IN by marks. Runs when all types are final.
#[derive(Debug)]
pub struct MarkJoins;

impl AnalyzerRule for MarkJoins {
    fn name(&self) -> &str {
        "marks"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let numbers = Cell::new(0);
        plan.change_with_subqueries(|node| with_marks(node, &numbers)).map(|plan| plan.data)
    }
}

fn asks(expr: &Expr) -> Result<bool> {
    expr.exists(|part| Ok(matches!(part, Expr::Exists(_) | Expr::InSubquery(_))))
}

/// Whether a condition contains an IN as only a part of it.
fn is_within(condition: &Expr) -> Result<bool> {
    let is_all = matches!(condition, Expr::InSubquery(_));
    Ok(!is_all && condition.exists(|part| Ok(matches!(part, Expr::InSubquery(_))))?)
}

fn any_within(predicate: &Expr) -> Result<bool> {
    split_conjunction(predicate)
        .into_iter()
        .try_fold(false, |any, condition| Ok(any || is_within(condition)?))
}

/// Computes expressions with subqueries in a projection below `DISTINCT ON`, which accepts only
/// columns.
fn before_distinct(on: DistinctOn) -> Result<LogicalPlan> {
    let mut columns: Vec<Expr> =
        on.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut selected = Vec::with_capacity(on.select_expr.len());
    for (at, expr) in on.select_expr.into_iter().enumerate() {
        if !expr.contains_scalar_subquery() {
            selected.push(expr);
            continue;
        }
        let name = format!("__distinct_{at}");
        let (relation, shown) = expr.qualified_name();
        columns.push(expr.unalias().alias(name.clone()));
        let column = Expr::Column(Column::new_unqualified(name));
        selected.push(column.alias_qualified(relation, shown));
    }
    let input =
        LogicalPlanBuilder::from(Arc::unwrap_or_clone(on.input)).project(columns)?.build()?;
    let on = DistinctOn::try_new(on.on_expr, selected, on.sort_expr, Arc::new(input))?;
    Ok(LogicalPlan::Distinct(Distinct::On(on)))
}

fn with_marks(node: LogicalPlan, numbers: &Cell<usize>) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Distinct(Distinct::On(mut on)) = node {
        let repeats = on.sort_expr.as_mut().is_some_and(aggregate_inputs::keep_first);
        if repeats {
            let mut distinct: Vec<Expr> = Vec::with_capacity(on.on_expr.len());
            on.on_expr.retain(|expr| {
                let is_first = !distinct.contains(expr);
                distinct.extend(is_first.then(|| expr.clone()));
                is_first
            });
        }
        let asks = on.select_expr.iter().any(Expr::contains_scalar_subquery);
        return match asks {
            true => before_distinct(on).map(Transformed::yes),
            false => {
                let node = LogicalPlan::Distinct(Distinct::On(on));
                Ok(Transformed::new_transformed(node, repeats))
            }
        };
    }
    let eligible = match &node {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Sort(_) => true,
        LogicalPlan::Filter(filter) => any_within(&filter.predicate)?,
        _ => false,
    };
    if !eligible || !any_expression(&node, asks)? {
        return Ok(Transformed::no(node));
    }
    let names = NamePreserver::new(&node);
    match node {
        LogicalPlan::Projection(projection) => {
            let mut join = MarkJoinInput::of(&projection.input, numbers);
            let exprs = join.rewrite_all(projection.expr, Some(&names))?;
            let projection = Projection::try_new(exprs, Arc::new(join.plan))?;
            Ok(Transformed::yes(LogicalPlan::Projection(projection)))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let mut join = MarkJoinInput::of(&aggregate.input, numbers);
            let groups = join.rewrite_all(aggregate.group_expr, Some(&names))?;
            let aggregates = join.rewrite_all(aggregate.aggr_expr, Some(&names))?;
            let aggregate = Aggregate::try_new(Arc::new(join.plan), groups, aggregates)?;
            Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
        }
        LogicalPlan::Filter(filter) => {
            let columns = filter.input.schema().columns().into_iter().map(Expr::Column);
            let mut join = MarkJoinInput::of(&filter.input, numbers);
            let conditions = split_conjunction_owned(filter.predicate)
                .into_iter()
                .map(|condition| match is_within(&condition)? {
                    true => join.rewrite(condition),
                    false => Ok(condition),
                })
                .collect::<Result<Vec<_>>>()?;
            let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
            let filter = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(join.plan))?);
            LogicalPlanBuilder::from(filter).project(columns)?.build().map(Transformed::yes)
        }
        LogicalPlan::Sort(mut sort) => {
            let columns = sort.input.schema().columns().into_iter().map(Expr::Column);
            let mut join = MarkJoinInput::of(&sort.input, numbers);
            for by in &mut sort.expr {
                by.expr = join.rewrite(by.expr.clone())?;
            }
            let sort = LogicalPlan::Sort(Sort { input: Arc::new(join.plan), ..sort });
            LogicalPlanBuilder::from(sort).project(columns)?.build().map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The input of a plan node, joined with the subqueries of the node.
struct MarkJoinInput<'a> {
    plan: LogicalPlan,
    numbers: &'a Cell<usize>,
}

impl<'a> MarkJoinInput<'a> {
    fn of(input: &Arc<LogicalPlan>, numbers: &'a Cell<usize>) -> Self {
        Self { plan: LogicalPlan::clone(input), numbers }
    }

    fn rewrite_all(
        &mut self,
        exprs: Vec<Expr>,
        names: Option<&NamePreserver>,
    ) -> Result<Vec<Expr>> {
        exprs
            .into_iter()
            .map(|expr| {
                if !asks(&expr)? {
                    return Ok(expr);
                }
                let saved = names.map(|names| names.save(&expr));
                let expr = self.rewrite(expr)?;
                Ok(match saved {
                    Some(saved) => saved.restore(expr),
                    None => expr,
                })
            })
            .collect()
    }

    /// Replaces the subqueries in an expression by marks. Subqueries for which no mark is possible
    /// stay.
    fn rewrite(&mut self, expr: Expr) -> Result<Expr> {
        expr.change_up(|part| match part {
            Expr::Exists(Exists { subquery, negated }) => {
                match self.mark(&subquery.subquery, None)? {
                    Some(mark) => Ok(Transformed::yes(if negated { !mark } else { mark })),
                    None => Ok(Transformed::no(Expr::Exists(Exists { subquery, negated }))),
                }
            }
            Expr::InSubquery(membership) => match self.member(&membership)? {
                Some(mark) if membership.negated => Ok(Transformed::yes(!mark)),
                Some(mark) => Ok(Transformed::yes(mark)),
                None => Ok(Transformed::no(Expr::InSubquery(membership))),
            },
            other => Ok(Transformed::no(other)),
        })
        .map(|expr| expr.data)
    }

    /// An expression for `x IN (SELECT y …)`. The result is NULL if no y equals x, but x or some y
    /// is NULL. `None` if no mark is possible.
    fn member(&mut self, membership: &InSubquery) -> Result<Option<Expr>> {
        let rows = &membership.subquery.subquery;
        let Some(of_rows) = rows.head_output_expr()? else { return Ok(None) };
        let value = membership.expr.as_ref();
        let schema = Arc::clone(self.plan.schema());
        let may_be_null = value.nullable(schema.as_ref())?;
        let Some(found) = self.mark(rows, Some((value, &of_rows)))? else { return Ok(None) };
        let Some((table, field)) = rows.schema().iter().next() else { return Ok(None) };
        let of_row = Expr::Column(Column::from((table, field)));
        let nulls =
            LogicalPlanBuilder::from(LogicalPlan::clone(rows)).filter(of_row.is_null())?.build()?;
        let mut unknown = match field.is_nullable() {
            true => self.mark(&nulls, None)?,
            false => Some(lit(false)),
        };
        if may_be_null {
            let any = self.mark(rows, None)?;
            unknown =
                unknown.zip(any).map(|(unknown, any)| unknown.or(value.clone().is_null().and(any)));
        }
        let Some(unknown) = unknown else { return Ok(None) };
        when(found, lit(true))
            .when(unknown, lit(ScalarValue::Boolean(None)))
            .otherwise(lit(false))
            .map(Some)
    }

    /// Joins `rows`, and returns the mark: true if a row exists for which the two expressions of
    /// `equal`, if given, are equal. `None` if a join cannot compute the mark.
    fn mark(&mut self, rows: &LogicalPlan, equal: Option<(&Expr, &Expr)>) -> Result<Option<Expr>> {
        let predicate = equal.map(|(left, right)| left.clone().eq(right.clone()));
        let mut pull_up = PullUpCorrelatedExpr::new()
            .with_in_predicate_opt(predicate)
            .with_exists_sub_query(equal.is_none());
        let rows = rows.clone().rewrite(&mut pull_up)?.data;
        if !pull_up.can_pull_up {
            return Ok(None);
        }
        let alias = format!("__mark_{}", self.numbers.replace(self.numbers.get() + 1));
        let outer: BTreeSet<Column> =
            pull_up.correlated_subquery_cols_map.values().flatten().cloned().collect();
        let renamed: Vec<Column> =
            outer.iter().map(|column| Column::new(Some(alias.clone()), &column.name)).collect();
        let names = outer.iter().zip(&renamed).collect();
        let correlated = conjunction(pull_up.join_filters)
            .map(|filter| replace_col(filter, &names))
            .transpose()?;
        let equality = match equal {
            Some((left, _)) => {
                // IN compares with the first column of the subquery.
                let Some(field) = rows.schema().fields().first() else { return Ok(None) };
                let right = Column::new(Some(alias.clone()), field.name());
                Some(left.clone().eq(Expr::Column(right)))
            }
            None => None,
        };
        let rows = LogicalPlanBuilder::from(rows).alias(alias.clone())?.build()?;
        let filter =
            conjunction(equality.into_iter().chain(correlated)).unwrap_or_else(|| lit(true));
        // The mark needs only the columns of the condition. Other columns would have to have unique
        // names.
        let needed: Vec<Expr> = filter
            .column_refs()
            .into_iter()
            .filter(|column| rows.schema().has_column(column))
            .map(|column| Expr::Column(column.clone()))
            .collect();
        let rows = match needed.is_empty() {
            true => LogicalPlanBuilder::from(rows).limit(0, Some(1))?.build()?,
            false => LogicalPlanBuilder::from(rows).project(needed)?.build()?,
        };
        let input = std::mem::take(&mut self.plan);
        self.plan = LogicalPlanBuilder::from(input)
            .join_on(rows, JoinType::LeftMark, Some(filter))?
            .build()?;
        Ok(Some(Expr::Column(Column::new(Some(alias), "mark"))))
    }
}
