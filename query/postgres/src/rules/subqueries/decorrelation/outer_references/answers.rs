//! The results of a subquery for each key.

use std::sync::Arc;

use datafusion::{
    common::Result,
    functions_aggregate::{count::count_udaf, first_last::first_value_udaf},
    logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, lit},
};
use stratalog_model::{Error, ErrorKind};

use super::{
    super::{one_row::one_row, project},
    OuterKeys, column_named,
};
use crate::errors::to_datafusion;

impl OuterKeys<'_> {
    /// The rows of a subquery that returns at most one row for each key, and an expression for its
    /// value.
    pub fn value(&self, rows: LogicalPlan) -> Result<(LogicalPlan, Expr)> {
        let name = format!("__value_{}", self.state.number());
        let value = self.last(&rows)?.alias(name.clone());
        Ok((project(rows, self.key_columns().into_iter().chain([value]))?, column_named(&name)))
    }

    /// The rows of a subquery, reduced to one row for each key, and an expression for the value.
    /// The expression fails if a key has several rows.
    pub fn single_value(&self, rows: LogicalPlan) -> Result<(LogicalPlan, Expr)> {
        let number = self.state.number();
        let (value, count) = (format!("__value_{number}"), format!("__rows_{number}"));
        let column = self.last(&rows)?;
        let first = first_value_udaf().call(vec![column]).alias(value.clone());
        let counted = count_udaf().call(vec![lit(1_i64)]).alias(count.clone());
        let rows = Aggregate::try_new(Arc::new(rows), self.key_columns(), vec![first, counted])?;
        Ok((LogicalPlan::Aggregate(rows), one_row(column_named(&value), column_named(&count))))
    }

    /// The distinct keys for which the subquery returns a row, and an expression that is true for
    /// these keys.
    pub fn existence(&self, rows: LogicalPlan) -> Result<(LogicalPlan, Expr)> {
        let name = format!("__rows_{}", self.state.number());
        let counted = count_udaf().call(vec![lit(1_i64)]).alias(name.clone());
        let mut rows = LogicalPlanBuilder::from(rows);
        if self.keys.is_empty() {
            rows = rows.limit(0, Some(1))?;
        }
        let rows = Aggregate::try_new(Arc::new(rows.build()?), self.key_columns(), vec![counted])?;
        Ok((LogicalPlan::Aggregate(rows), column_named(&name).gt(lit(0_i64)).is_true()))
    }

    fn last(&self, rows: &LogicalPlan) -> Result<Expr> {
        match rows.schema().columns().pop() {
            Some(column) => Ok(Expr::Column(column)),
            None => Err(to_datafusion(Error::new(
                ErrorKind::SyntaxError,
                "subquery must return only one column",
            ))),
        }
    }
}
