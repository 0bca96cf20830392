//! LATERAL subqueries that compute rows out of one row, such as
//! `FROM t, unnest(t.list)`, which DataFusion plans and cannot run.
//!
//! ```text
//!   Join                         Projection: t's columns, the subquery's
//!   ├─ t                           Unnest
//!   └─ Subquery                      Projection: t's columns, t.list
//!        Unnest              ─►        Projection: t's columns, under names of their own
//!          Projection: outer t.list      t
//!            one empty row
//! ```

use std::sync::Arc;

use datafusion::{
    common::{
        Column, NullHandling, Result, TableReference,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{
        Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery, Unnest, lit,
        utils::conjunction,
    },
    optimizer::AnalyzerRule,
};
use stratalog_model::{Error, ErrorKind};

use crate::errors::to_datafusion;

/// Attaches such subqueries to the rows that they compute from.
#[derive(Debug)]
pub struct LateralRows;

impl AnalyzerRule for LateralRows {
    fn name(&self) -> &str {
        "lateral_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) => match attached(&join)? {
                Some(attached) => Ok(Transformed::yes(attached)),
                None => Ok(Transformed::no(LogicalPlan::Join(join))),
            },
            other => Ok(Transformed::no(other)),
        })
        .map(|plan| plan.data)
    }
}

/// The subquery on the right of a join, and its alias.
fn lateral(plan: &LogicalPlan) -> Option<(&Subquery, Option<&TableReference>)> {
    match plan {
        LogicalPlan::Subquery(subquery) => Some((subquery, None)),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Subquery(subquery) => Some((subquery, Some(&alias.alias))),
            _ => None,
        },
        _ => None,
    }
}

fn attached(join: &Join) -> Result<Option<LogicalPlan>> {
    let Some((subquery, alias)) = lateral(&join.right) else { return Ok(None) };
    refuse_limit(&subquery.subquery)?;
    let outer = join.join_type == JoinType::Left;
    let always = join.filter.as_ref().is_none_or(|filter| *filter == lit(true));
    if !(outer && always && join.on.is_empty() || join.join_type == JoinType::Inner) {
        return Ok(None);
    }
    let attach = Attach { left: &join.left, outer };
    let Some(rows) = attach.rows_of(&subquery.subquery)? else { return Ok(None) };
    // Back to the names that all else knows the columns by.
    let mut columns: Vec<Expr> = Vec::with_capacity(join.schema.fields().len());
    for (at, (qualifier, field)) in join.left.schema().iter().enumerate() {
        columns.push(kept(at).alias_qualified(qualifier.cloned(), field.name()));
    }
    for (qualifier, field) in subquery.subquery.schema().iter() {
        let inner = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let qualifier = alias.or(qualifier);
        columns.push(inner.alias_qualified(qualifier.cloned(), field.name()));
    }
    let mut rows = LogicalPlanBuilder::from(rows).project(columns)?;
    if !outer {
        let on = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
        if let Some(condition) = conjunction(on.chain(join.filter.clone())) {
            rows = rows.filter(condition)?;
        }
    }
    rows.build().map(Some)
}

/// DataFusion would take the LIMIT of the rows of all left rows together.
fn refuse_limit(subquery: &LogicalPlan) -> Result<()> {
    let mut limited = false;
    subquery.apply(|node| {
        if let LogicalPlan::Limit(limit) = node {
            limited |= !limit.input.all_out_ref_exprs().is_empty();
        }
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    })?;
    if limited {
        return Err(to_datafusion(
            Error::new(
                ErrorKind::FeatureNotSupported,
                "LIMIT in a LATERAL subquery is not supported",
            )
            .with_hint("number the rows with row_number() OVER (PARTITION BY … ORDER BY …), or use DISTINCT ON"),
        ));
    }
    Ok(())
}

/// A column of the left side, while the subquery's own are computed.
fn kept(at: usize) -> Expr {
    Expr::Column(Column::from_name(kept_name(at)))
}

fn kept_name(at: usize) -> String {
    format!("$left.{at}")
}

struct Attach<'a> {
    left: &'a Arc<LogicalPlan>,
    /// Left rows stay where the subquery has none.
    outer: bool,
}

impl Attach<'_> {
    fn kept(&self) -> impl Iterator<Item = Expr> + use<> {
        (0..self.left.schema().fields().len()).map(kept)
    }

    /// A plan that has the left columns, then those of `plan`; `None` for other plans
    /// than those that compute rows out of one.
    fn rows_of(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        match plan {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
                let columns = self.left.schema().iter().enumerate().map(|(at, (table, field))| {
                    Expr::Column(Column::new(table.cloned(), field.name())).alias(kept_name(at))
                });
                let left = LogicalPlanBuilder::from(self.left.as_ref().clone());
                left.project(columns.collect::<Vec<_>>())?.build().map(Some)
            }
            LogicalPlan::Projection(projection) => {
                let Some(input) = self.rows_of(&projection.input)? else { return Ok(None) };
                let mut columns: Vec<Expr> = self.kept().collect();
                for expr in &projection.expr {
                    let Some(expr) = self.inner(expr)? else { return Ok(None) };
                    columns.push(expr);
                }
                LogicalPlanBuilder::from(input).project(columns)?.build().map(Some)
            }
            LogicalPlan::Unnest(unnest) => self.unnested(unnest),
            LogicalPlan::Filter(filter) if !self.outer => {
                let Some(input) = self.rows_of(&filter.input)? else { return Ok(None) };
                let Some(condition) = self.inner(&filter.predicate)? else { return Ok(None) };
                LogicalPlanBuilder::from(input).filter(condition)?.build().map(Some)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(input) = self.rows_of(&alias.input)? else { return Ok(None) };
                let mut columns: Vec<Expr> = self.kept().collect();
                for (qualifier, field) in alias.input.schema().iter() {
                    let inner = Expr::Column(Column::new(qualifier.cloned(), field.name()));
                    columns.push(inner.alias_qualified(Some(alias.alias.clone()), field.name()));
                }
                LogicalPlanBuilder::from(input).project(columns)?.build().map(Some)
            }
            _ => Ok(None),
        }
    }

    fn unnested(&self, unnest: &Unnest) -> Result<Option<LogicalPlan>> {
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

    /// An expression of the subquery with the left columns in it; `None` when it has
    /// subqueries of its own, or columns from further outside.
    fn inner(&self, expr: &Expr) -> Result<Option<Expr>> {
        let mut within = true;
        let expr = expr.clone().transform_up(|expr| match expr {
            Expr::OuterReferenceColumn(field, column) => {
                match self.left.schema().maybe_index_of_column(&column) {
                    Some(at) => Ok(Transformed::yes(kept(at))),
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
