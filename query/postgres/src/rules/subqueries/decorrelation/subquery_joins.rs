//! Joins the results of subqueries to the outer rows.

use std::sync::Arc;

use datafusion::{
    common::{Result, tree_node::Transformed},
    logical_expr::{
        Expr, JoinType, LogicalPlan, expr_rewriter::NamePreserver, lit, utils::conjunction,
    },
};
use stratalog_functions::plan_walk::TreeWalk;

use super::{
    DecorrelationState, filter_join, is_subquery_in,
    native_subqueries::{self, SubqueryPlace},
    outer_columns_in,
    outer_references::OuterKeys,
    quantified_comparison::QuantifiedComparison,
};

/// The input of a plan node (`input`), and the same input joined with the results of the node's
/// subqueries (`plan`).
pub struct SubqueryJoins<'a> {
    state: &'a DecorrelationState,
    input: Arc<LogicalPlan>,
    pub plan: Arc<LogicalPlan>,
    pub changed: bool,
}

impl<'a> SubqueryJoins<'a> {
    pub fn of(state: &'a DecorrelationState, input: Arc<LogicalPlan>) -> Self {
        Self { state, plan: Arc::clone(&input), input, changed: false }
    }

    pub fn rewrite_all(
        &mut self,
        exprs: Vec<Expr>,
        names: &NamePreserver,
        place: SubqueryPlace,
    ) -> Result<Vec<Expr>> {
        exprs
            .into_iter()
            .map(|expr| {
                let saved = names.save(&expr);
                self.rewrite(expr, place).map(|expr| saved.restore(expr))
            })
            .collect()
    }

    /// Rewrites one of the conditions that a filter joins by AND.
    pub fn condition(&mut self, condition: Expr) -> Result<Expr> {
        let place = match &condition {
            Expr::Exists(_) | Expr::InSubquery(_) => SubqueryPlace::Condition,
            Expr::Not(inner) if matches!(inner.as_ref(), Expr::Exists(_)) => {
                SubqueryPlace::Condition
            }
            _ => SubqueryPlace::Filter,
        };
        self.rewrite(condition, place)
    }

    /// Replaces the subqueries in an expression by columns of the join, except subqueries that
    /// DataFusion itself can execute.
    pub fn rewrite(&mut self, expr: Expr, place: SubqueryPlace) -> Result<Expr> {
        if !is_subquery_in(&expr)? {
            return Ok(expr);
        }
        expr.change_up(|expr| {
            if native_subqueries::subquery_plan(&expr).is_none()
                || native_subqueries::is_native(&expr, place, self.plan.schema())?
            {
                return Ok(Transformed::no(expr));
            }
            match expr {
                Expr::ScalarSubquery(subquery) => {
                    self.scalar(&subquery.subquery).map(Transformed::yes)
                }
                Expr::Exists(exists) => {
                    let found = self.exists(&exists.subquery.subquery)?;
                    Ok(Transformed::yes(if exists.negated { !found } else { found }))
                }
                Expr::InSubquery(membership) => {
                    let comparison =
                        QuantifiedComparison::is_member(membership, self.plan.schema())?;
                    self.quantified(comparison).map(Transformed::yes)
                }
                Expr::SetComparison(comparison) => {
                    let comparison =
                        QuantifiedComparison::compares(comparison, self.plan.schema())?;
                    self.quantified(comparison).map(Transformed::yes)
                }
                other => Ok(Transformed::no(other)),
            }
        })
        .map(|expr| expr.data)
    }

    fn quantified(&mut self, comparison: QuantifiedComparison) -> Result<Expr> {
        match comparison.plan.all_out_ref_exprs().is_empty() {
            // DataFusion computes an uncorrelated subquery once.
            true => Ok(comparison.into_scalar()),
            false => Ok(comparison.of(self.scalar(&comparison.plan)?)),
        }
    }

    fn outer_keys(&self, rows: &LogicalPlan) -> Result<OuterKeys<'a>> {
        let columns = outer_columns_in(rows, self.plan.schema());
        let of_input = columns.iter().all(|column| self.input.schema().has_column(column));
        let input = if of_input { &self.input } else { &self.plan };
        OuterKeys::of(self.state, input, columns)
    }

    /// Joins a scalar subquery, and returns an expression for its value.
    fn scalar(&mut self, subquery: &LogicalPlan) -> Result<Expr> {
        let keys = self.outer_keys(subquery)?;
        let rows = keys.rows_per_key(subquery)?;
        let (rows, value) = match native_subqueries::is_one_row(subquery) {
            true => keys.value(rows)?,
            false => keys.single_value(rows)?,
        };
        self.join(&keys, rows)?;
        Ok(value)
    }

    /// Joins a subquery, and returns an expression that is true if the subquery returns a row.
    fn exists(&mut self, rows: &LogicalPlan) -> Result<Expr> {
        let keys = self.outer_keys(rows)?;
        let (rows, found) = keys.existence(keys.rows_per_key(rows)?)?;
        self.join(&keys, rows)?;
        Ok(found)
    }

    fn join(&mut self, keys: &OuterKeys<'_>, rows: LogicalPlan) -> Result<()> {
        let on = conjunction(keys.match_conditions(&rows)?).unwrap_or_else(|| lit(true));
        self.state.count(&rows)?;
        self.plan = Arc::new(filter_join(Arc::clone(&self.plan), rows, Some(on), JoinType::Left)?);
        self.changed = true;
        Ok(())
    }
}
