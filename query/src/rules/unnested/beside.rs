//! Answers of subqueries beside the outside rows.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{
        Expr, JoinType, LogicalPlan, expr_rewriter::NamePreserver, lit, utils::conjunction,
    },
};

use super::{
    Unnest,
    asked::Asked,
    is_subquery_in, joined, named_of,
    outside::Outside,
    plain::{self, SubqueryPlace},
};

/// The input of a node, with the answers of subqueries beside its rows.
pub struct Beside<'a> {
    unnest: &'a Unnest,
    input: Arc<LogicalPlan>,
    pub plan: Arc<LogicalPlan>,
    pub changed: bool,
}

impl<'a> Beside<'a> {
    pub fn of(unnest: &'a Unnest, input: Arc<LogicalPlan>) -> Self {
        Self { unnest, plan: Arc::clone(&input), input, changed: false }
    }

    pub fn all(
        &mut self,
        exprs: Vec<Expr>,
        names: &NamePreserver,
        place: SubqueryPlace,
    ) -> Result<Vec<Expr>> {
        exprs
            .into_iter()
            .map(|expr| {
                let saved = names.save(&expr);
                self.one(expr, place).map(|expr| saved.restore(expr))
            })
            .collect()
    }

    /// Rewrites one condition of a conjunction.
    pub fn condition(&mut self, condition: Expr) -> Result<Expr> {
        let place = match &condition {
            Expr::Exists(_) | Expr::InSubquery(_) => SubqueryPlace::Condition,
            Expr::Not(inner) if matches!(inner.as_ref(), Expr::Exists(_)) => {
                SubqueryPlace::Condition
            }
            _ => SubqueryPlace::Filter,
        };
        self.one(condition, place)
    }

    /// Replaces the subqueries in an expression, except subqueries that DataFusion turns into
    /// joins.
    pub fn one(&mut self, expr: Expr, place: SubqueryPlace) -> Result<Expr> {
        if !is_subquery_in(&expr)? {
            return Ok(expr);
        }
        expr.transform_up(|expr| {
            if plain::rows_of(&expr).is_none() || plain::is_plain(&expr, place, self.plan.schema())?
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
                    let asked = Asked::is_member(membership, self.plan.schema())?;
                    self.asked(asked).map(Transformed::yes)
                }
                Expr::SetComparison(comparison) => {
                    let asked = Asked::compares(comparison, self.plan.schema())?;
                    self.asked(asked).map(Transformed::yes)
                }
                other => Ok(Transformed::no(other)),
            }
        })
        .map(|expr| expr.data)
    }

    fn asked(&mut self, asked: Asked) -> Result<Expr> {
        match asked.plan.all_out_ref_exprs().is_empty() {
            // DataFusion computes the subquery once.
            true => Ok(asked.into_scalar()),
            false => Ok(asked.of(self.scalar(&asked.plan)?)),
        }
    }

    fn outside(&self, rows: &LogicalPlan) -> Result<Outside<'a>> {
        let asked = named_of(rows, self.plan.schema());
        let of_input = asked.iter().all(|column| self.input.schema().has_column(column));
        let input = if of_input { &self.input } else { &self.plan };
        Outside::of(self.unnest, input, asked)
    }

    /// The value of the only row.
    fn scalar(&mut self, rows: &LogicalPlan) -> Result<Expr> {
        let outside = self.outside(rows)?;
        let asked = outside.within(rows)?;
        let (rows, value) = match plain::is_one_row(rows) {
            true => outside.value(asked)?,
            false => outside.only_value(asked)?,
        };
        self.join(&outside, rows)?;
        Ok(value)
    }

    /// True if the subquery has a row.
    fn exists(&mut self, rows: &LogicalPlan) -> Result<Expr> {
        let outside = self.outside(rows)?;
        let (rows, found) = outside.found(outside.within(rows)?)?;
        self.join(&outside, rows)?;
        Ok(found)
    }

    fn join(&mut self, outside: &Outside<'_>, rows: LogicalPlan) -> Result<()> {
        let on = conjunction(outside.equal_to(&rows)?).unwrap_or_else(|| lit(true));
        self.unnest.count(&rows)?;
        self.plan = Arc::new(joined(Arc::clone(&self.plan), rows, Some(on), JoinType::Left)?);
        self.changed = true;
        Ok(())
    }
}
