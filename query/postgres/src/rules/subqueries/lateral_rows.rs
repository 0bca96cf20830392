//! Rewrites LATERAL subqueries that compute their rows from a single outer row, for example `FROM
//! t, unnest(t.list)`. DataFusion can plan these subqueries, but cannot execute them.
//!
//! ```text
//!   Join                         Projection: t's columns, the subquery's
//!   ├─ t                           Unnest
//!   └─ Subquery                      Projection: t's columns, t.list
//!        Unnest              ─►        Projection: t's columns, under temporary names
//!          Projection: outer t.list      t
//!            one empty row
//! ```

use std::sync::Arc;

use datafusion::{
    common::{
        Column, NullHandling, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    logical_expr::{
        Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Unnest, lit, utils::conjunction,
    },
    optimizer::AnalyzerRule,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
/// Rule: replaces the join with a LATERAL subquery by nodes above the left side of the join.
#[derive(Debug)]
pub struct LateralRows;

impl AnalyzerRule for LateralRows {
    fn name(&self) -> &str {
        "lateral_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|node| match node {
            LogicalPlan::Join(join) => match attach_lateral(&join)? {
                Some(attached) => Ok(Transformed::yes(attached)),
                None => Ok(Transformed::no(LogicalPlan::Join(join))),
            },
            other => Ok(Transformed::no(other)),
        })
        .map(|plan| plan.data)
    }
}

/// Whether a plan contains a subquery that names columns of earlier tables.
fn has_lateral(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each(|node| {
        found |= matches!(node, LogicalPlan::Subquery(_));
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

fn attach_lateral(join: &Join) -> Result<Option<LogicalPlan>> {
    if !has_lateral(&join.right)? {
        return Ok(None);
    }
    let outer = join.join_type == JoinType::Left;
    let always = join.filter.as_ref().is_none_or(|filter| *filter == lit(true));
    if !(outer && always && join.on.is_empty() || join.join_type == JoinType::Inner) {
        return Ok(None);
    }
    let attach = LateralAttachment { left: &join.left, outer, level: level_of(&join.right)? };
    let Some(rows) = attach.rows_of(&join.right)? else { return Ok(None) };
    // Restores the original names of the left columns.
    let mut columns: Vec<Expr> = Vec::with_capacity(join.schema.fields().len());
    for (at, (qualifier, field)) in join.left.schema().iter().enumerate() {
        columns.push(attach.column(at).alias_qualified(qualifier.cloned(), field.name()));
    }
    columns.extend(join.right.schema().columns().into_iter().map(Expr::Column));
    let mut rows = LogicalPlanBuilder::from(rows).project(columns)?;
    if !outer {
        let on = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
        if let Some(condition) = conjunction(on.chain(join.filter.clone())) {
            rows = rows.filter(condition)?;
        }
    }
    rows.build().map(Some)
}

/// The number of nested joins that the rule has already rewritten in a plan. The number makes the
/// temporary names of each level distinct.
fn level_of(plan: &LogicalPlan) -> Result<usize> {
    let mut level = 0;
    plan.each(|node| {
        let names = node.schema().fields().iter();
        let levels = names.filter_map(|field| {
            field.name().strip_prefix(KEPT)?.split_once('.')?.0.parse::<usize>().ok()
        });
        level = levels.map(|inner| inner + 1).fold(level, usize::max);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(level)
}

/// Prefix of the temporary names of the left columns, during the computation of the subquery.
const KEPT: &str = "$left";

struct LateralAttachment<'a> {
    left: &'a Arc<LogicalPlan>,
    /// True for an outer join: left rows stay even if the subquery returns no rows.
    outer: bool,
    level: usize,
}

impl LateralAttachment<'_> {
    fn name(&self, at: usize) -> String {
        format!("{KEPT}{}.{at}", self.level)
    }

    fn column(&self, at: usize) -> Expr {
        Expr::Column(Column::from_name(self.name(at)))
    }

    fn left_columns(&self) -> impl Iterator<Item = Expr> {
        (0..self.left.schema().fields().len()).map(|at| self.column(at))
    }

    /// A plan that returns the left columns and then the columns of `plan`. `None` if `plan` does
    /// not compute its rows from a single row.
    fn rows_of(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        match plan {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
                let columns = self.left.schema().iter().enumerate().map(|(at, (table, field))| {
                    Expr::Column(Column::new(table.cloned(), field.name())).alias(self.name(at))
                });
                let left = LogicalPlanBuilder::from(self.left.as_ref().clone());
                left.project(columns.collect::<Vec<_>>())?.build().map(Some)
            }
            LogicalPlan::Projection(projection) => {
                let Some(input) = self.rows_of(&projection.input)? else { return Ok(None) };
                let mut columns: Vec<Expr> = self.left_columns().collect();
                for expr in &projection.expr {
                    let Some(expr) = self.inner(expr)? else { return Ok(None) };
                    columns.push(expr);
                }
                LogicalPlanBuilder::from(input).project(columns)?.build().map(Some)
            }
            LogicalPlan::Subquery(subquery) => self.rows_of(&subquery.subquery),
            LogicalPlan::Unnest(unnest) => self.unnest_with_left(unnest),
            LogicalPlan::Filter(filter) if !self.outer => {
                let Some(input) = self.rows_of(&filter.input)? else { return Ok(None) };
                let Some(condition) = self.inner(&filter.predicate)? else { return Ok(None) };
                LogicalPlanBuilder::from(input).filter(condition)?.build().map(Some)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(input) = self.rows_of(&alias.input)? else { return Ok(None) };
                let mut columns: Vec<Expr> = self.left_columns().collect();
                for (qualifier, field) in alias.input.schema().iter() {
                    let inner = Expr::Column(Column::new(qualifier.cloned(), field.name()));
                    columns.push(inner.alias_qualified(Some(alias.alias.clone()), field.name()));
                }
                LogicalPlanBuilder::from(input).project(columns)?.build().map(Some)
            }
            _ => Ok(None),
        }
    }

    fn unnest_with_left(&self, unnest: &Unnest) -> Result<Option<LogicalPlan>> {
        let Some(input) = self.rows_of(&unnest.input)? else { return Ok(None) };
        let mut options = unnest.options.clone();
        if self.outer {
            options = options.with_null_handling(NullHandling::PreserveAndExpandEmpty);
        }
        LogicalPlanBuilder::from(input)
            .unnest_columns_with_options(unnest.exec_columns.clone(), options)?
            .build()
            .map(Some)
    }

    /// An expression of the subquery, over the left columns. `None` if the expression contains
    /// subqueries, or columns of a query further out.
    fn inner(&self, expr: &Expr) -> Result<Option<Expr>> {
        let mut within = true;
        let expr = expr.clone().change_up(|expr| match expr {
            Expr::OuterReferenceColumn(field, column) => {
                match self.left.schema().maybe_index_of_column(&column) {
                    Some(at) => Ok(Transformed::yes(self.column(at))),
                    None => {
                        within = false;
                        Ok(Transformed::no(Expr::OuterReferenceColumn(field, column)))
                    }
                }
            }
            Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::ScalarSubquery(_)
            | Expr::SetComparison(_) => {
                within = false;
                Ok(Transformed::no(expr))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(within.then_some(expr.data))
    }
}
