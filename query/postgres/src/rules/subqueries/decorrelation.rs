//! Turns correlated subqueries, which name columns of an outer query, into joins.
//!
//! DataFusion itself turns simple correlated subqueries into joins, in which only the WHERE names
//! outer columns. This rule does not change the simple subqueries ([`native_subqueries`]). It
//! computes all other subqueries by the method of "Unnesting Arbitrary Queries" (Neumann, Kemper
//! 2015): once for all outer rows, together with the distinct values of the outer columns that the
//! subquery names (its *keys*). Aggregates add the keys to their groups, windows add the keys to
//! their partitions, and limits count rows for each combination of keys.
//!
//! ```text
//!   Filter: a > (subquery of k)        Projection: the columns of t
//!     t                                  Filter: a > value
//!                                 ─►       Left Join: key = k
//!                                            t
//!                                            subquery, with the key in each of its nodes
//!                                              the distinct k of t
//! ```
//!
//! The plan reads `t` twice; both reads must return the same rows.

mod native_subqueries;
mod one_row;
mod outer_aggregates;
mod outer_references;
mod quantified_comparison;
mod subquery_joins;

use std::{cell::Cell, sync::Arc};

use datafusion::{
    common::{
        Column, DFSchema, JoinConstraint, NullEquality, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        Aggregate, Distinct, DistinctOn, Expr, Filter, Join, JoinType, LogicalPlan, Projection,
        Sort, Subquery, Window,
        expr_rewriter::NamePreserver,
        lit,
        utils::{conjunction, split_conjunction_owned},
    },
    optimizer::AnalyzerRule,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{Error, ErrorKind};

use self::{
    native_subqueries::SubqueryPlace, outer_references::OuterKeys, subquery_joins::SubqueryJoins,
};
use crate::errors::to_datafusion;

/// Rule: turns correlated subqueries into joins. Runs when all types are final.
#[derive(Debug)]
pub struct Decorrelation;

impl AnalyzerRule for Decorrelation {
    fn name(&self) -> &str {
        "unnested"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_subqueries = false;
        plan.each(|node| {
            has_subqueries = matches!(node, LogicalPlan::Subquery(_)) || has_subquery(node)?;
            Ok(match has_subqueries {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })?;
        if has_subqueries { DecorrelationState::of(&plan)?.plan(plan) } else { Ok(plan) }
    }
}

/// Prefix of the column names of subquery keys.
pub const OUTER_KEY_PREFIX: &str = "__outside_";

/// Whether an expression is a key column of a subquery. Equal keys are identical values.
pub fn is_key(expr: &Expr) -> bool {
    match expr {
        Expr::Column(column) => column.name.starts_with(OUTER_KEY_PREFIX),
        Expr::Alias(alias) => alias.name.starts_with(OUTER_KEY_PREFIX) || is_key(&alias.expr),
        _ => false,
    }
}

/// Maximum number of nodes that the subqueries of a statement may add to the plan. Each nested
/// level of correlated subqueries doubles the nodes of the outer level.
const NODES_MAX: usize = 5_000;

/// State shared by all subqueries of a statement.
#[derive(Debug, Default)]
pub struct DecorrelationState {
    names: Cell<usize>,
    nodes: Cell<usize>,
}

impl DecorrelationState {
    /// Creates the state for a plan. The numbers of new names begin after the names of an earlier
    /// run.
    fn of(plan: &LogicalPlan) -> Result<Self> {
        let state = Self::default();
        plan.each_with_subqueries(|node| {
            for field in node.schema().fields() {
                let rest = field.name().strip_prefix("__").and_then(|name| name.split_once('_'));
                let number = rest.and_then(|(_, rest)| rest.split('_').next()?.parse().ok());
                if let Some(number) = number.filter(|&number: &u32| number < u32::MAX) {
                    state.names.set(state.names.get().max(number as usize + 1));
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(state)
    }

    /// A unique number for column names.
    fn number(&self) -> usize {
        self.names.replace(self.names.get() + 1)
    }

    /// Counts the nodes of `plan` as added nodes; an error if too many nodes were added.
    fn count(&self, plan: &LogicalPlan) -> Result<()> {
        plan.each(|_| {
            self.nodes.set(self.nodes.get() + 1);
            Ok(TreeNodeRecursion::Continue)
        })?;
        if self.nodes.get() > NODES_MAX {
            let error = Error::new(
                ErrorKind::StatementTooComplex,
                "too many levels of correlated subqueries",
            );
            return Err(to_datafusion(error.with_hint("join the tables instead")));
        }
        Ok(())
    }

    fn plan(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = plan.change_down(push_below_lateral)?.data;
        plan.change_up(|node| self.node(node)).map(|plan| plan.data)
    }

    fn node(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Join(join) = &node
            && let Some(joined) = self.lateral(join)?
        {
            return Ok(Transformed::yes(joined));
        }
        if !has_subquery(&node)? {
            return Ok(Transformed::no(node));
        }
        let node = node
            .map_expressions(|expr| expr.change_up(|expr| self.subquery_of(expr)))?
            .data
            .recompute_schema()?;
        let columns = node.schema().columns();
        let node = match node {
            LogicalPlan::Sort(sort) => LogicalPlan::Sort(with_sort_columns(sort)?),
            other => other,
        };
        let names = NamePreserver::new(&node);
        let (changed, plan) = match node {
            LogicalPlan::Filter(filter) => {
                let (others, asking) = split_conditions(filter.predicate, |condition| {
                    Ok(!is_subquery_in(condition)? && !condition.is_volatile())
                })?;
                // Evaluates the subqueries only for rows that pass the other conditions.
                let input = with_filter(filter.input, others)?;
                let mut joins = SubqueryJoins::of(self, input);
                let conditions = asking
                    .into_iter()
                    .map(|condition| joins.condition(condition))
                    .collect::<Result<Vec<_>>>()?;
                let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
                let filter = Filter::try_new(predicate, joins.plan)?;
                (joins.changed, LogicalPlan::Filter(filter))
            }
            LogicalPlan::Projection(projection) => {
                let mut joins = SubqueryJoins::of(self, projection.input);
                let exprs =
                    joins.rewrite_all(projection.expr, &names, SubqueryPlace::Projection)?;
                let projection = Projection::try_new(exprs, joins.plan)?;
                let projection = LogicalPlan::Projection(projection);
                return Ok(Transformed::new_transformed(projection, joins.changed));
            }
            LogicalPlan::Aggregate(aggregate) => {
                let mut joins = SubqueryJoins::of(self, aggregate.input);
                let groups =
                    joins.rewrite_all(aggregate.group_expr, &names, SubqueryPlace::Group)?;
                let aggregates =
                    joins.rewrite_all(aggregate.aggr_expr, &names, SubqueryPlace::Group)?;
                let aggregate = Aggregate::try_new(joins.plan, groups, aggregates)?;
                let aggregate = LogicalPlan::Aggregate(aggregate);
                return Ok(Transformed::new_transformed(aggregate, joins.changed));
            }
            LogicalPlan::Sort(sort) => {
                let mut joins = SubqueryJoins::of(self, sort.input);
                let mut by = sort.expr;
                for by in &mut by {
                    by.expr = joins.rewrite(by.expr.clone(), SubqueryPlace::Group)?;
                }
                let sort = Sort { expr: by, input: joins.plan, fetch: sort.fetch };
                let sort = LogicalPlan::Sort(sort);
                (sort.schema().fields().len() > columns.len(), sort)
            }
            LogicalPlan::Window(window) => {
                let mut joins = SubqueryJoins::of(self, window.input);
                let exprs =
                    joins.rewrite_all(window.window_expr, &names, SubqueryPlace::Elsewhere)?;
                (joins.changed, LogicalPlan::Window(Window::try_new(exprs, joins.plan)?))
            }
            LogicalPlan::Distinct(Distinct::On(on)) => {
                let mut joins = SubqueryJoins::of(self, on.input);
                let selected =
                    joins.rewrite_all(on.select_expr, &names, SubqueryPlace::Elsewhere)?;
                let by = joins.rewrite_all(on.on_expr, &names, SubqueryPlace::Elsewhere)?;
                let mut sort = on.sort_expr;
                for key in sort.iter_mut().flatten() {
                    key.expr = joins.rewrite(key.expr.clone(), SubqueryPlace::Elsewhere)?;
                }
                let on = DistinctOn::try_new(by, selected, sort, joins.plan)?;
                let distinct = LogicalPlan::Distinct(Distinct::On(on));
                return Ok(Transformed::new_transformed(distinct, joins.changed));
            }
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
                return self.conditions(join);
            }
            LogicalPlan::Join(join) => return self.outer_conditions(join).map(Transformed::yes),
            other => return Ok(Transformed::yes(other)),
        };
        // A filter, sort or window returns all columns of its input, including the added columns.
        match changed {
            true => project(plan, columns.into_iter().map(Expr::Column)).map(Transformed::yes),
            false => Ok(Transformed::yes(plan)),
        }
    }

    /// Turns the subqueries inside of a subquery into joins.
    fn subquery_of(&self, expr: Expr) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::Exists(mut exists) => {
                exists.subquery = self.subquery(exists.subquery)?;
                Transformed::yes(Expr::Exists(exists))
            }
            Expr::InSubquery(mut membership) => {
                membership.subquery = self.subquery(membership.subquery)?;
                Transformed::yes(Expr::InSubquery(membership))
            }
            Expr::SetComparison(mut comparison) => {
                comparison.subquery = self.subquery(comparison.subquery)?;
                Transformed::yes(Expr::SetComparison(comparison))
            }
            Expr::ScalarSubquery(subquery) => {
                Transformed::yes(Expr::ScalarSubquery(self.subquery(subquery)?))
            }
            other => Transformed::no(other),
        })
    }

    fn subquery(&self, subquery: Subquery) -> Result<Subquery> {
        outer_aggregates::check(&subquery.subquery)?;
        let plan = self.plan(Arc::unwrap_or_clone(subquery.subquery))?;
        Ok(Subquery {
            outer_ref_columns: plan.all_out_ref_exprs(),
            subquery: Arc::new(plan),
            spans: subquery.spans,
        })
    }

    /// Moves the conditions of an inner join that contain subqueries to a filter above the join.
    fn conditions(&self, mut join: Join) -> Result<Transformed<LogicalPlan>> {
        let (mut asking, mut others) = (Vec::new(), Vec::new());
        for condition in join.filter.take().map(split_conjunction_owned).unwrap_or_default() {
            match is_subquery_in(&condition)? {
                true => asking.push(condition),
                false => others.push(condition),
            }
        }
        join.filter = conjunction(others);
        let join = LogicalPlan::Join(join);
        let Some(asking) = conjunction(asking) else { return Ok(Transformed::yes(join)) };
        self.node(LogicalPlan::Filter(Filter::try_new(asking, Arc::new(join))?))
    }

    /// Evaluates the subqueries in the condition of an outer join before the join, for the rows of
    /// the side that the subquery names.
    fn outer_conditions(&self, mut join: Join) -> Result<LogicalPlan> {
        let Some(filter) = join.filter.take() else { return Ok(LogicalPlan::Join(join)) };
        let mut left = SubqueryJoins::of(self, Arc::clone(&join.left));
        let mut right = SubqueryJoins::of(self, Arc::clone(&join.right));
        let filter = filter.change_up(|part| {
            let Some(rows) = native_subqueries::subquery_plan(&part) else {
                return Ok(Transformed::no(part));
            };
            let mut outer_columns = outer_columns_in(rows, &join.schema);
            if outer_columns.is_empty() {
                return Ok(Transformed::no(part));
            }
            outer_columns.extend(part.column_refs().into_iter().cloned());
            let are_of =
                |side: &LogicalPlan| outer_columns.iter().all(|c| side.schema().has_column(c));
            match (are_of(&join.left), are_of(&join.right)) {
                (true, _) => left.rewrite(part, SubqueryPlace::Elsewhere).map(Transformed::yes),
                (_, true) => right.rewrite(part, SubqueryPlace::Elsewhere).map(Transformed::yes),
                (false, false) => Err(to_datafusion(names_both_sides())),
            }
        })?;
        let columns = join.schema.columns();
        let changed = left.changed || right.changed;
        let joined = Join::try_new(
            left.plan,
            right.plan,
            join.on,
            Some(filter.data),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        let joined = LogicalPlan::Join(joined);
        match changed {
            true => project(joined, columns.into_iter().map(Expr::Column)),
            false => Ok(joined),
        }
    }

    /// Decorrelates a lateral join, in which the right side is computed for each row of the left
    /// side. `None` if the join needs no change.
    fn lateral(&self, join: &Join) -> Result<Option<LogicalPlan>> {
        let left_joined = match join.join_type {
            JoinType::Inner => false,
            JoinType::Left => true,
            _ => return Ok(None),
        };
        let outer_columns = outer_columns_in(&join.right, join.left.schema());
        if outer_columns.is_empty() {
            return Ok(None);
        }
        outer_aggregates::check(&join.right)?;
        let is_native =
            !left_joined && native_subqueries::is_lateral(&join.right, join.left.schema())?;
        if is_native {
            return Ok(None);
        }
        let keys = OuterKeys::of(self, &join.left, outer_columns)?;
        let rows = keys.rows_per_key(&join.right)?;
        let on = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
        let on = on.chain(join.filter.clone()).chain(keys.match_conditions(&rows)?);
        let kind = if left_joined { JoinType::Left } else { JoinType::Inner };
        let joined = filter_join(Arc::clone(&join.left), rows, conjunction(on), kind)?;
        project(joined, join.schema.columns().into_iter().map(Expr::Column)).map(Some)
    }
}

/// Moves conditions on the left side of a lateral join below the join.
fn push_below_lateral(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
    let LogicalPlan::Join(join) = filter.input.as_ref() else { return Ok(Transformed::no(plan)) };
    let is_lateral = matches!(join.join_type, JoinType::Inner | JoinType::Left)
        && !outer_columns_in(&join.right, join.left.schema()).is_empty();
    if !is_lateral {
        return Ok(Transformed::no(plan));
    }
    let (of_left, others) = split_conditions(filter.predicate.clone(), |condition| {
        let columns = condition.column_refs();
        Ok(!columns.is_empty()
            && columns.into_iter().all(|column| join.left.schema().has_column(column))
            && !is_subquery_in(condition)?
            && !condition.is_volatile())
    })?;
    if of_left.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let left = with_filter(Arc::clone(&join.left), of_left)?;
    let joined = Arc::new(LogicalPlan::Join(Join { left, ..join.clone() }));
    with_filter(joined, others).map(|plan| Transformed::yes(Arc::unwrap_or_clone(plan)))
}

/// Splits a conjunction into the conditions for which `is` returns true, and the other conditions.
fn split_conditions(
    predicate: Expr,
    is: impl Fn(&Expr) -> Result<bool>,
) -> Result<(Vec<Expr>, Vec<Expr>)> {
    let (mut so, mut others) = (Vec::new(), Vec::new());
    for condition in split_conjunction_owned(predicate) {
        match is(&condition)? {
            true => so.push(condition),
            false => others.push(condition),
        }
    }
    Ok((so, others))
}

fn with_filter(rows: Arc<LogicalPlan>, conditions: Vec<Expr>) -> Result<Arc<LogicalPlan>> {
    Ok(match conjunction(conditions) {
        Some(predicate) => Arc::new(LogicalPlan::Filter(Filter::try_new(predicate, rows)?)),
        None => rows,
    })
}

/// The error for a subquery in the condition of an outer join that names columns of both sides.
fn names_both_sides() -> Error {
    Error::new(
        ErrorKind::FeatureNotSupported,
        "a subquery with columns of both sides in the ON of an outer join is not supported",
    )
    .with_hint("compute the value in a subquery of FROM, and join the subquery")
}

fn project(plan: LogicalPlan, columns: impl Iterator<Item = Expr>) -> Result<LogicalPlan> {
    let projection = Projection::try_new(columns.collect(), Arc::new(plan))?;
    Ok(LogicalPlan::Projection(projection))
}

/// Adds the columns that the subqueries of a sort name, and that the select list lacks, to the
/// input of the sort.
fn with_sort_columns(sort: Sort) -> Result<Sort> {
    let LogicalPlan::Projection(projection) = sort.input.as_ref() else { return Ok(sort) };
    let mut missing = Vec::new();
    for by in &sort.expr {
        by.expr.each(|part| {
            let outer_columns = native_subqueries::subquery_plan(part)
                .map(native_subqueries::outer_columns)
                .unwrap_or_default();
            missing.extend(outer_columns.into_iter().filter(|column| {
                !projection.schema.has_column(column)
                    && projection.input.schema().has_column(column)
            }));
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    if missing.is_empty() {
        return Ok(sort);
    }
    missing.sort();
    missing.dedup();
    let columns = projection.expr.iter().cloned().chain(missing.into_iter().map(Expr::Column));
    let input = Projection::try_new(columns.collect(), Arc::clone(&projection.input))?;
    Ok(Sort { input: Arc::new(LogicalPlan::Projection(input)), ..sort })
}

/// The columns of `schema` that a plan names as outer columns.
fn outer_columns_in(plan: &LogicalPlan, schema: &DFSchema) -> Vec<Column> {
    native_subqueries::outer_columns(plan)
        .into_iter()
        .filter(|column| schema.has_column(column))
        .collect()
}

/// A join with the condition `on`, in which NULL does not equal NULL.
fn filter_join(
    left: Arc<LogicalPlan>,
    right: LogicalPlan,
    on: Option<Expr>,
    kind: JoinType,
) -> Result<LogicalPlan> {
    Join::try_new(
        left,
        Arc::new(right),
        Vec::new(),
        on,
        kind,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )
    .map(LogicalPlan::Join)
}

fn is_subquery_in(expr: &Expr) -> Result<bool> {
    expr.exists(|part| Ok(native_subqueries::subquery_plan(part).is_some()))
}

fn has_subquery(node: &LogicalPlan) -> Result<bool> {
    any_expression(node, is_subquery_in)
}

/// Whether `is` returns true for an expression of a node. The nodes below do not count.
pub fn any_expression(node: &LogicalPlan, is: impl Fn(&Expr) -> Result<bool>) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = found || is(expr)?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}
