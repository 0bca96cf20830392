//! Default values of columns.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, TimestampNanosecondArray, UInt32Array},
    compute::take,
};
use datafusion::{logical_expr::LogicalPlan, sql::sqlparser::ast::Expr};
use stratalog_model::{ColumnDefinition, ColumnType, Error, Result};
use stratalog_postgres::{errors::from_arrow, parse};

use super::{
    cells::{Cell, one_column},
    compute::{self, ComputeContext},
};
use crate::{
    Session,
    assign::{self, Assignment},
};

/// The default of a column.
#[derive(Debug)]
pub enum ColumnDefault {
    /// NULL.
    Null,
    /// The present time, for the tick column and for `now()`.
    Now,
    /// One constant value.
    Constant(ArrayRef),
    /// An expression that is evaluated once for each batch of rows.
    Once(Box<LogicalPlan>),
    /// An expression that is evaluated for each row.
    Each(Box<Expr>),
}

impl ColumnDefault {
    /// Reads the default of a column from the table definition.
    ///
    /// # Errors
    /// An error if the stored DEFAULT cannot be read any more.
    pub async fn of(session: &Session, column: &ColumnDefinition, is_tick: bool) -> Result<Self> {
        let Some(sql) = &column.default_sql else {
            return Ok(if is_tick { ColumnDefault::Now } else { ColumnDefault::Null });
        };
        if column.defaults_to_now() {
            return Ok(ColumnDefault::Now);
        }
        let expr = parse::expression(sql)?;
        match Cell::of(&expr, Some(&column.column_type), &mut Vec::new())? {
            Cell::Null => Ok(ColumnDefault::Null),
            cell @ (Cell::Text(_) | Cell::Number(_) | Cell::Boolean(_)) => {
                let computing = ComputeContext::constants(session);
                let array = one_column(&computing, &[&cell], &column.column_type, &column.name)?;
                Ok(ColumnDefault::Constant(array))
            }
            _ => {
                let is_integer = |_| column.column_type.arrow_type().is_integer();
                let place = super::DEFAULT_EXPRESSIONS;
                let plan = compute::plan(session, [&expr], place, is_integer).await?;
                Ok(if compute::is_volatile(&plan)? {
                    ColumnDefault::Each(Box::new(expr))
                } else {
                    ColumnDefault::Once(Box::new(plan))
                })
            }
        }
    }

    /// Computes `rows` values of the default.
    ///
    /// # Errors
    /// An error of the computation.
    pub async fn array(
        &self,
        computing: &ComputeContext<'_>,
        column: &ColumnDefinition,
        rows: usize,
    ) -> Result<ArrayRef> {
        let session = computing.session;
        let style = assign::style(session);
        let assignment =
            Assignment { column_type: &column.column_type, name: &column.name, style: &style };
        let computed = |plan| {
            let computing = Box::pin(computing.run(plan));
            async move {
                let value = computing.await?.pop();
                let value = value.ok_or_else(|| Error::internal("a default without a value"))?;
                assignment.convert(&value.array, &value.field)
            }
        };
        match self {
            ColumnDefault::Null => {
                Ok(arrow::array::new_null_array(&column.column_type.arrow_type(), rows))
            }
            ColumnDefault::Now => {
                // Round down to microseconds, as `now()` does: clients read no more digits.
                let now_ns = session.parts().clock.now_ns();
                let now = TimestampNanosecondArray::from(vec![now_ns - now_ns.rem_euclid(1_000)]);
                let now: ArrayRef = match column.column_type {
                    ColumnType::TimestampTz { .. } => Arc::new(now.with_timezone("UTC")),
                    _ => Arc::new(now),
                };
                let field = arrow::datatypes::Field::new("now", now.data_type().clone(), true);
                repeat(&assignment.truncate_time(&now, &field)?, rows)
            }
            ColumnDefault::Constant(value) => repeat(value, rows),
            ColumnDefault::Once(plan) => repeat(&computed(plan).await?, rows),
            ColumnDefault::Each(expr) => {
                computed(&compute::plan_repeated(session, expr, rows).await?).await
            }
        }
    }
}

/// Repeats a value `rows` times.
fn repeat(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    if value.is_empty() {
        return Err(Error::internal("a default without a value"));
    }
    if rows == 1 {
        return Ok(Arc::clone(value));
    }
    take(value, &UInt32Array::from(vec![0; rows]), None).map_err(from_arrow)
}
