//! The outer values that a subquery names (its keys), and the plan that computes the subquery for
//! all keys at once.

mod answers;
mod as_of;
mod key_equality;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        Column, DFSchema, JoinConstraint, NullEquality, Result,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    functions_window::row_number::row_number_udwf,
    logical_expr::{
        Aggregate, Distinct, DistinctOn, EmptyRelation, Expr, ExprFunctionExt, Filter, Join,
        JoinType, Limit, LogicalPlan, LogicalPlanBuilder, Projection, Sort, SortExpr,
        SubqueryAlias, Union, Values, Window, WindowFunctionDefinition, cast, expr::WindowFunction,
        expr_rewriter::NamePreserver, lit, utils::conjunction, when,
    },
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{Error, ErrorKind};

use self::key_equality::key_equalities;
use super::{DecorrelationState, OUTER_KEY_PREFIX, filter_join, native_subqueries, project};
use crate::{errors::to_datafusion, rules::subqueries::as_of::AsOf};

/// The *keys* of a subquery: the distinct values of the outer columns that the subquery names.
pub struct OuterKeys<'a> {
    state: &'a DecorrelationState,
    /// A plan that returns the distinct keys.
    rows: Arc<LogicalPlan>,
    keys: Vec<OuterKey>,
}

struct OuterKey {
    /// The outer column.
    column: Column,
    /// The name of the key column inside of the subquery.
    name: String,
}

impl OuterKey {
    fn column_expr(&self) -> Expr {
        column_named(&self.name)
    }
}

fn column_named(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

fn unsupported(what: &str) -> Error {
    Error::new(
        ErrorKind::FeatureNotSupported,
        format!("{what} in a correlated subquery is not supported"),
    )
    .with_hint("join the tables instead")
}

impl<'a> OuterKeys<'a> {
    /// Creates the keys for `columns` of the outer rows that `input` returns.
    ///
    /// # Errors
    /// `FeatureNotSupported` if the outer rows depend on a volatile function.
    pub fn of(
        state: &'a DecorrelationState,
        input: &Arc<LogicalPlan>,
        columns: Vec<Column>,
    ) -> Result<Self> {
        if columns.is_empty() {
            let rows = EmptyRelation { produce_one_row: true, schema: DFSchema::empty().into() };
            let rows = Arc::new(LogicalPlan::EmptyRelation(rows));
            return Ok(Self { state, rows, keys: Vec::new() });
        }
        if is_volatile(input)? {
            return Err(to_datafusion(unsupported(
                "a function such as random() among the rows outside",
            )));
        }
        let number = state.number();
        let keys: Vec<OuterKey> = columns
            .into_iter()
            .enumerate()
            .map(|(at, column)| OuterKey {
                column,
                name: format!("{OUTER_KEY_PREFIX}{number}_{at}"),
            })
            .collect();
        let columns =
            keys.iter().map(|key| Expr::Column(key.column.clone()).alias(key.name.clone()));
        let values = Projection::try_new(columns.collect(), Arc::clone(input))?;
        let values = Arc::new(LogicalPlan::Projection(values));
        let rows = Arc::new(LogicalPlan::Distinct(Distinct::All(values)));
        Ok(Self { state, rows, keys })
    }

    fn key_columns(&self) -> Vec<Expr> {
        self.keys.iter().map(OuterKey::column_expr).collect()
    }

    /// The join conditions between the outer rows and the rows of the subquery with their keys.
    pub fn match_conditions(&self, rows: &LogicalPlan) -> Result<Vec<Expr>> {
        let pairs =
            self.keys.iter().map(|key| (Expr::Column(key.column.clone()), key.column_expr()));
        key_equalities(pairs, rows.schema())
    }

    /// An expression of the subquery, in which key columns replace outer columns.
    fn expr(&self, expr: Expr) -> Result<Expr> {
        expr.change_up(|expr| match expr {
            Expr::OuterReferenceColumn(field, column) => {
                Ok(match self.keys.iter().find(|key| key.column == column) {
                    Some(key) => Transformed::yes(key.column_expr()),
                    None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
                })
            }
            other => Ok(Transformed::no(other)),
        })
        .map(|expr| expr.data)
    }

    /// Like [`Self::expr`], but the expression keeps its column name, which the nodes above use.
    fn column(&self, expr: Expr) -> Result<Expr> {
        let name = NamePreserver::new_for_projection().save(&expr);
        Ok(name.restore(self.expr(expr)?))
    }

    fn columns(&self, exprs: &[Expr]) -> Result<Vec<Expr>> {
        exprs.iter().map(|expr| self.column(expr.clone())).collect()
    }

    fn sort(&self, sort: &[SortExpr]) -> Result<Vec<SortExpr>> {
        let by = |by: &SortExpr| Ok(SortExpr { expr: self.expr(by.expr.clone())?, ..*by });
        sort.iter().map(by).collect()
    }

    fn references(&self, plan: &LogicalPlan) -> bool {
        let named = native_subqueries::outer_columns(plan);
        self.keys.iter().any(|key| named.contains(&key.column))
    }

    /// Rewrites a plan of the subquery so that it returns its rows for each key: first the key
    /// columns, then the columns of the plan.
    ///
    /// # Errors
    /// `FeatureNotSupported` for nodes that cannot be computed for many keys at once;
    /// `StatementTooComplex`.
    pub fn rows_per_key(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        if self.keys.is_empty() {
            return Ok(without_lateral_marker(plan).clone());
        }
        if !self.references(plan) {
            self.state.count(&self.rows)?;
            return filter_join(
                Arc::clone(&self.rows),
                without_lateral_marker(plan).clone(),
                None,
                JoinType::Inner,
            );
        }
        match plan {
            LogicalPlan::Subquery(subquery) => self.rows_per_key(&subquery.subquery),
            LogicalPlan::Filter(filter) => {
                let input = Arc::new(self.rows_per_key(&filter.input)?);
                let predicate = self.expr(filter.predicate.clone())?;
                Filter::try_new(predicate, input).map(LogicalPlan::Filter)
            }
            LogicalPlan::Projection(projection) => {
                self.projected(&projection.expr, self.rows_per_key(&projection.input)?)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                self.aliased(alias, self.rows_per_key(&alias.input)?)
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let input = Arc::new(self.rows_per_key(&sort.input)?);
                let expr = self.sort(&sort.expr)?;
                Ok(LogicalPlan::Sort(Sort { expr, input, fetch: None }))
            }
            LogicalPlan::Limit(limit) => self.limited(limit, &limit.input),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let input = Arc::new(self.rows_per_key(input)?);
                Ok(LogicalPlan::Distinct(Distinct::All(input)))
            }
            LogicalPlan::Distinct(Distinct::On(on)) => self.distinct_on(on),
            LogicalPlan::Aggregate(aggregate) => self.aggregated(aggregate),
            LogicalPlan::Window(window) => self.windowed(window),
            LogicalPlan::Join(join) => self.joined(join),
            LogicalPlan::Union(union) => self.union(union.inputs.iter().map(AsRef::as_ref)),
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::Unnest(unnest) => {
                LogicalPlanBuilder::from(self.rows_per_key(&unnest.input)?)
                    .unnest_columns_with_options(
                        unnest.exec_columns.clone(),
                        unnest.options.clone(),
                    )?
                    .build()
            }
            LogicalPlan::Extension(extension)
                if let Some(as_of) = extension.node.as_any().downcast_ref::<AsOf>()
                    && !self.references(&as_of.right) =>
            {
                Ok(as_of.with_left(self.rows_per_key(&as_of.left)?)?.into_plan())
            }
            LogicalPlan::RecursiveQuery(_) => Err(to_datafusion(unsupported("WITH RECURSIVE"))),
            other => {
                let what = other.display().to_string();
                Err(to_datafusion(unsupported(what.split([':', ' ']).next().unwrap_or_default())))
            }
        }
    }

    fn projected(&self, exprs: &[Expr], input: LogicalPlan) -> Result<LogicalPlan> {
        let columns = self.key_columns().into_iter().chain(self.columns(exprs)?);
        project(input, columns)
    }

    fn aliased(&self, alias: &SubqueryAlias, input: LogicalPlan) -> Result<LogicalPlan> {
        let renamed = input
            .schema()
            .columns()
            .into_iter()
            .skip(self.keys.len())
            .zip(alias.schema.fields())
            .map(|(column, field)| {
                Expr::Column(column).alias_qualified(Some(alias.alias.clone()), field.name())
            })
            .collect::<Vec<_>>();
        project(input, self.key_columns().into_iter().chain(renamed))
    }

    /// Applies a LIMIT and OFFSET to the rows of each key separately. The order comes from a sort
    /// below the limit; only projections and aliases may stand between them.
    fn limited(&self, limit: &Limit, input: &LogicalPlan) -> Result<LogicalPlan> {
        let (rows, order) = match input {
            LogicalPlan::Projection(projection) => {
                return self.projected(&projection.expr, self.limited(limit, &projection.input)?);
            }
            LogicalPlan::SubqueryAlias(alias) => {
                return self.aliased(alias, self.limited(limit, &alias.input)?);
            }
            LogicalPlan::Subquery(subquery) => return self.limited(limit, &subquery.subquery),
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                if let Some(rows) = self.as_of(limit, sort)? {
                    return Ok(rows);
                }
                (self.rows_per_key(&sort.input)?, self.sort(&sort.expr)?)
            }
            other => (self.rows_per_key(other)?, Vec::new()),
        };
        let columns = rows.schema().columns();
        let name = format!("__number_{}", self.state.number());
        let function = WindowFunctionDefinition::WindowUDF(row_number_udwf());
        let mut number =
            Expr::from(WindowFunction::new(function, Vec::new())).partition_by(self.key_columns());
        if !order.is_empty() {
            number = number.order_by(order.clone());
        }
        let number = number.build()?.alias(name.clone());
        let numbered = Window::try_new(vec![number], Arc::new(rows))?;
        let number = cast(column_named(&name), DataType::Int64);
        let skipped = match &limit.skip {
            Some(skip) => {
                let skip = self.expr(*skip.clone())?;
                when(skip.clone().is_null(), lit(0_i64)).otherwise(skip)?
            }
            None => lit(0_i64),
        };
        let mut conditions = vec![number.clone().gt(skipped.clone())];
        if let Some(fetch) = &limit.fetch {
            let fetch = self.expr(*fetch.clone())?;
            conditions.push(fetch.clone().is_null().or((number - skipped).lt_eq(fetch)));
        }
        let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
        let kept = Filter::try_new(predicate, Arc::new(LogicalPlan::Window(numbered)))?;
        let rows = project(LogicalPlan::Filter(kept), columns.into_iter().map(Expr::Column))?;
        Ok(match order.is_empty() {
            true => rows,
            false => LogicalPlan::Sort(Sort { expr: order, input: Arc::new(rows), fetch: None }),
        })
    }

    fn distinct_on(&self, on: &DistinctOn) -> Result<LogicalPlan> {
        let input = Arc::new(self.rows_per_key(&on.input)?);
        let first = |exprs: &[Expr]| -> Result<Vec<Expr>> {
            Ok(self.key_columns().into_iter().chain(self.columns(exprs)?).collect())
        };
        let sort = match &on.sort_expr {
            Some(sort) => {
                let keys = self.key_columns().into_iter().map(|key| key.sort(true, false));
                Some(keys.chain(self.sort(sort)?).collect())
            }
            None => None,
        };
        let on = DistinctOn::try_new(first(&on.on_expr)?, first(&on.select_expr)?, sort, input)?;
        Ok(LogicalPlan::Distinct(Distinct::On(on)))
    }

    fn aggregated(&self, aggregate: &Aggregate) -> Result<LogicalPlan> {
        if aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
            return Err(to_datafusion(unsupported("GROUPING SETS, ROLLUP or CUBE")));
        }
        let mut input = Arc::new(self.rows_per_key(&aggregate.input)?);
        let groups =
            self.key_columns().into_iter().chain(self.columns(&aggregate.group_expr)?).collect();
        let mut aggregates = self.columns(&aggregate.aggr_expr)?;
        if aggregate.group_expr.is_empty() {
            // The aggregation must have a group for each key, even for a key without rows.
            let (padded, is_row) = self.padded(input)?;
            input = Arc::new(padded);
            aggregates =
                aggregates.into_iter().map(|expr| of_rows(expr, &is_row)).collect::<Result<_>>()?;
        }
        Aggregate::try_new(input, groups, aggregates).map(LogicalPlan::Aggregate)
    }

    /// Adds a row for each key that has no rows. The returned expression is true for the original
    /// rows.
    fn padded(&self, input: Arc<LogicalPlan>) -> Result<(LogicalPlan, Expr)> {
        let number = self.state.number();
        let is_row = format!("__row_{number}");
        let input = self.renamed(input, number, Some(lit(true).alias(is_row.clone())))?;
        let on = self.renamed_key_equalities(number, input.schema())?;
        self.state.count(&self.rows)?;
        let padded = filter_join(Arc::clone(&self.rows), input, conjunction(on), JoinType::Left)?;
        let keys = (0..self.keys.len()).map(|at| renamed_key(number, at)).collect::<Vec<_>>();
        let kept = padded
            .schema()
            .columns()
            .into_iter()
            .filter(|column| column.relation.is_some() || !keys.contains(&column.name))
            .map(Expr::Column)
            .collect::<Vec<_>>();
        Ok((project(padded, kept.into_iter())?, column_named(&is_row).is_not_null()))
    }

    /// Renames the key columns of a plan, and optionally adds another column.
    fn renamed(
        &self,
        input: Arc<LogicalPlan>,
        number: usize,
        another: Option<Expr>,
    ) -> Result<LogicalPlan> {
        let keys = self.keys.iter().enumerate();
        let keys = keys.map(|(at, key)| key.column_expr().alias(renamed_key(number, at)));
        let others = input.schema().columns().into_iter().skip(self.keys.len()).map(Expr::Column);
        let columns: Vec<Expr> = keys.chain(others).chain(another).collect();
        Projection::try_new(columns, input).map(LogicalPlan::Projection)
    }

    fn renamed_key_equalities(&self, number: usize, schema: &DFSchema) -> Result<Vec<Expr>> {
        let pairs = self.keys.iter().enumerate();
        let pairs =
            pairs.map(|(at, key)| (key.column_expr(), column_named(&renamed_key(number, at))));
        key_equalities(pairs, schema)
    }

    fn windowed(&self, window: &Window) -> Result<LogicalPlan> {
        let input = Arc::new(self.rows_per_key(&window.input)?);
        let exprs = window
            .window_expr
            .iter()
            .map(|expr| {
                let name = NamePreserver::new_for_projection().save(expr);
                let divided = self.expr(expr.clone())?.change_up(|expr| match expr {
                    Expr::WindowFunction(mut call) => {
                        call.params.partition_by.splice(0..0, self.key_columns());
                        Ok(Transformed::yes(Expr::WindowFunction(call)))
                    }
                    other => Ok(Transformed::no(other)),
                })?;
                Ok(name.restore(divided.data))
            })
            .collect::<Result<Vec<_>>>()?;
        Window::try_new(exprs, input).map(LogicalPlan::Window)
    }

    fn joined(&self, join: &Join) -> Result<LogicalPlan> {
        let (on_left, on_right) = (self.references(&join.left), self.references(&join.right));
        // A side of an outer join that keeps its unmatched rows must contain the keys.
        let (on_left, on_right) = match join.join_type {
            JoinType::Inner => (on_left || !on_right, on_right),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                (true, on_right)
            }
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                (on_left, true)
            }
            JoinType::Full => (true, true),
        };
        let side = |has: bool, plan: &Arc<LogicalPlan>| match has {
            true => self.rows_per_key(plan).map(Arc::new),
            false => Ok(Arc::new(without_lateral_marker(plan).clone())),
        };
        let left = side(on_left, &join.left)?;
        let mut right = side(on_right, &join.right)?;
        let mut filters = Vec::new();
        if let Some(filter) = &join.filter {
            filters.push(self.expr(filter.clone())?);
        }
        let number = self.state.number();
        if on_left && on_right {
            right = Arc::new(self.renamed(right, number, None)?);
            filters.extend(self.renamed_key_equalities(number, right.schema())?);
        }
        let pair = |(left, right): &(Expr, Expr)| {
            Ok((self.expr(left.clone())?, self.expr(right.clone())?))
        };
        let mut on = join.on.iter().map(pair).collect::<Result<Vec<_>>>()?;
        if join.null_equality == NullEquality::NullEqualsNothing {
            filters.extend(on.drain(..).map(|(left, right)| left.eq(right)));
        }
        let joined = Join::try_new(
            left,
            right,
            on,
            conjunction(filters),
            join.join_type,
            JoinConstraint::On,
            join.null_equality,
            join.null_aware,
        )?;
        let joined = LogicalPlan::Join(joined);
        let both = |at: usize, key: &OuterKey| {
            let other = column_named(&renamed_key(number, at));
            let schema = joined.schema();
            Ok(match (schema.has_column_with_unqualified_name(&key.name), on_left && on_right) {
                (true, true) if join.join_type == JoinType::Full => {
                    when(key.column_expr().is_null(), other)
                        .otherwise(key.column_expr())?
                        .alias(&key.name)
                }
                (true, true) if join.join_type == JoinType::Right => other.alias(&key.name),
                (true, _) => key.column_expr(),
                // A semi-join or anti-join of the right side returns only the columns of the right
                // side.
                (false, _) => other.alias(&key.name),
            })
        };
        let keys = self.keys.iter().enumerate().map(|(at, key)| both(at, key));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let others = joined.schema().columns().into_iter().filter(|column| {
            let is_key = |(at, key): (usize, &OuterKey)| {
                column.name == key.name || column.name == renamed_key(number, at)
            };
            column.relation.is_some() || !self.keys.iter().enumerate().any(is_key)
        });
        let columns: Vec<Expr> = keys.into_iter().chain(others.map(Expr::Column)).collect();
        project(joined, columns.into_iter())
    }

    fn union<'p>(&self, inputs: impl Iterator<Item = &'p LogicalPlan>) -> Result<LogicalPlan> {
        let inputs = inputs.map(|input| self.rows_per_key(input).map(Arc::new));
        Union::try_new(inputs.collect::<Result<_>>()?).map(LogicalPlan::Union)
    }

    /// The rows of a VALUES for each key.
    fn values(&self, values: &Values) -> Result<LogicalPlan> {
        let rows = values.values.iter().map(|row| {
            let columns = row.iter().zip(values.schema.fields()).map(|(expr, field)| {
                let value = self.expr(expr.clone())?;
                Ok(cast(value, field.data_type().clone()).alias(field.name()))
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            project(LogicalPlan::clone(&self.rows), self.key_columns().into_iter().chain(columns))
                .map(Arc::new)
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        match <[_; 1]>::try_from(rows) {
            Ok([row]) => Ok(Arc::unwrap_or_clone(row)),
            Err(rows) => Union::try_new(rows).map(LogicalPlan::Union),
        }
    }
}

fn renamed_key(number: usize, at: usize) -> String {
    format!("{OUTER_KEY_PREFIX}{number}_{at}_right")
}

/// A plan without the `Subquery` node that marks a lateral subquery.
fn without_lateral_marker(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Subquery(subquery) => without_lateral_marker(&subquery.subquery),
        other => other,
    }
}

/// Restricts an aggregate to the original rows of the subquery, without the rows that were added
/// for keys without rows.
fn of_rows(aggregate: Expr, is_row: &Expr) -> Result<Expr> {
    let name = NamePreserver::new_for_projection().save(&aggregate);
    let filtered = aggregate.change_up(|expr| match expr {
        Expr::AggregateFunction(mut call) => {
            let filter = call.params.filter.take();
            let filter = filter.map_or_else(|| is_row.clone(), |filter| filter.and(is_row.clone()));
            call.params.filter = Some(Box::new(filter));
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(name.restore(filtered.data))
}

fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}
