//! Values of columns that a statement gives no value for.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, TimestampNanosecondArray, UInt32Array},
    compute::take,
};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    logical_expr::LogicalPlan,
    sql::sqlparser::ast::Expr,
};
use stratalog_model::{ColumnDefinition, ColumnType, Error, Result};

use super::cells::{Cell, one_column};
use crate::{
    Session,
    assign::{self, Assignment},
    errors::{from_arrow, from_datafusion},
    statement::parse,
};

/// What a column gets when a statement gives nothing.
#[derive(Debug)]
pub enum Missing {
    /// NULL.
    Null,
    /// The clock's time: the tick column, and `now()`.
    Now,
    /// One value, always the same.
    Constant(ArrayRef),
    /// Evaluated once per statement.
    Once(Box<Expr>),
    /// Evaluated for each row.
    Each(Box<Expr>),
}

impl Missing {
    /// The default of a column.
    ///
    /// # Errors
    /// When the DEFAULT that is kept can no longer be read.
    pub async fn of(
        session: &Session,
        column: &ColumnDefinition,
        is_tick: bool,
        _position: usize,
    ) -> Result<Self> {
        let Some(sql) = &column.default_sql else {
            return Ok(if is_tick { Missing::Now } else { Missing::Null });
        };
        let lower = sql.trim().to_ascii_lowercase();
        if column.column_type.is_timestamp()
            && matches!(
                lower.as_str(),
                "now()"
                    | "current_timestamp"
                    | "transaction_timestamp()"
                    | "statement_timestamp()"
                    | "clock_timestamp()"
            )
            && matches!(column.column_type, ColumnType::TimestampTz { .. })
        {
            return Ok(Missing::Now);
        }
        let expr = parse::expression(sql)?;
        match Cell::of(&expr, Some(&column.column_type), &mut Vec::new())? {
            Cell::Null => Ok(Missing::Null),
            cell @ (Cell::Text(_) | Cell::Number(_) | Cell::Boolean(_)) => {
                let array =
                    one_column(session, &[&cell], &column.column_type, &column.name, &[], &[])
                        .await?;
                Ok(Missing::Constant(array))
            }
            _ => {
                let plan = super::plan_expressions(session, std::slice::from_ref(&expr)).await?;
                Ok(if is_volatile(&plan)? {
                    Missing::Each(Box::new(expr))
                } else {
                    Missing::Once(Box::new(expr))
                })
            }
        }
    }

    /// `rows` values.
    ///
    /// # Errors
    /// What evaluating says.
    pub async fn array(
        &self,
        session: &Session,
        column: &ColumnDefinition,
        rows: usize,
    ) -> Result<ArrayRef> {
        match self {
            Missing::Null => {
                Ok(arrow::array::new_null_array(&column.column_type.arrow_type(), rows))
            }
            Missing::Now => {
                let now = TimestampNanosecondArray::from(vec![session.parts().clock.now_ns()]);
                let now: ArrayRef = match column.column_type {
                    ColumnType::TimestampTz { .. } => Arc::new(now.with_timezone("UTC")),
                    _ => Arc::new(now),
                };
                let style = assign::style(session);
                let assignment = Assignment {
                    column_type: &column.column_type,
                    name: &column.name,
                    style: &style,
                };
                let field = arrow::datatypes::Field::new("now", now.data_type().clone(), true);
                repeat(&assignment.truncate_time(&now, &field)?, rows)
            }
            Missing::Constant(value) => repeat(value, rows),
            Missing::Once(expr) => {
                let cell = Cell::Expression(expr.clone());
                let value = Box::pin(one_column(
                    session,
                    &[&cell],
                    &column.column_type,
                    &column.name,
                    &[],
                    &[],
                ))
                .await?;
                repeat(&value, rows)
            }
            Missing::Each(expr) => {
                let cell = Cell::Expression(expr.clone());
                let cells: Vec<&Cell> = std::iter::repeat_n(&cell, rows).collect();
                Box::pin(one_column(session, &cells, &column.column_type, &column.name, &[], &[]))
                    .await
            }
        }
    }
}

/// One value, `rows` times.
fn repeat(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    if value.is_empty() {
        return Err(Error::internal("a default without a value"));
    }
    if rows == 1 {
        return Ok(Arc::clone(value));
    }
    take(value, &UInt32Array::from(vec![0; rows]), None).map_err(from_arrow)
}

fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut volatile = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|inner| {
                volatile |= inner.is_volatile_node();
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map_err(from_datafusion)?;
    Ok(volatile)
}
