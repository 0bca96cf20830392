//! Reads quoted constants in place of conditions as booleans: `WHERE 't'`, `NOT 'f'`, `'f' OR a =
//! 1`.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, Select, TableFactor, TableWithJoins, UnaryOperator,
    Value, ValueWithSpan,
};
use stratalog_functions::literal;
use stratalog_model::{ColumnType, Result};

use super::merged_columns;
use crate::errors::from_datafusion;

/// Reads quoted constants as booleans in the operands of AND, OR, NOT and IS TRUE, and in the
/// conditions of CASE and FILTER.
///
/// # Errors
/// `InvalidTextRepresentation` for a non-boolean constant.
pub fn respell(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            boolean(left)?;
            boolean(right)
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr }
        | Expr::IsTrue(expr)
        | Expr::IsNotTrue(expr)
        | Expr::IsFalse(expr)
        | Expr::IsNotFalse(expr)
        | Expr::IsUnknown(expr)
        | Expr::IsNotUnknown(expr) => boolean(expr),
        Expr::Case { operand: None, conditions, .. } => {
            conditions.iter_mut().try_for_each(|when| boolean(&mut when.condition))
        }
        Expr::Function(function) => match &mut function.filter {
            Some(filter) => boolean(filter),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Reads quoted constants in the conditions of a SELECT as booleans.
///
/// # Errors
/// `InvalidTextRepresentation` for a non-boolean constant.
pub fn of_select(select: &mut Select) -> Result<()> {
    select.selection.iter_mut().chain(&mut select.having).try_for_each(boolean)?;
    select.from.iter_mut().try_for_each(of_joins)
}

/// Reads quoted constants in the ON conditions of joins as booleans.
fn of_joins(tables: &mut TableWithJoins) -> Result<()> {
    for join in &mut tables.joins {
        if let Some((JoinConstraint::On(condition), _)) =
            merged_columns::constraint(&mut join.join_operator)
        {
            boolean(condition)?;
        }
    }
    Ok(())
}

/// Reads quoted constants in the ON conditions of parenthesized joins as booleans.
///
/// # Errors
/// `InvalidTextRepresentation` for a non-boolean constant.
pub fn in_from(factor: &mut TableFactor) -> Result<()> {
    match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => of_joins(table_with_joins),
        _ => Ok(()),
    }
}

fn boolean(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Nested(inner) => boolean(inner),
        Expr::Value(ValueWithSpan { value, .. }) => {
            let Value::SingleQuotedString(text) = &*value else { return Ok(()) };
            let read = literal::parse(text, &ColumnType::Boolean).map_err(from_datafusion)?;
            *value = match read {
                datafusion::scalar::ScalarValue::Boolean(Some(truth)) => Value::Boolean(truth),
                _ => Value::Null,
            };
            Ok(())
        }
        _ => Ok(()),
    }
}
