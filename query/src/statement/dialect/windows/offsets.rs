//! Offsets of frames that are written as constant expressions, `ROWS (1+1) PRECEDING` or
//! `RANGE 1::bigint PRECEDING`, in the form that the planner takes: one number.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, UnaryOperator, Value, WindowFrame, WindowFrameBound,
    WindowFrameUnits,
};
use stratalog_model::{Error, ErrorKind, Result};

/// Writes the offsets of a frame as numbers, where they are computed from integers.
///
/// # Errors
/// `InvalidFrameOffset` for a negative one, `InvalidColumnReference` for a column.
pub fn write_out(frame: &mut WindowFrame) -> Result<()> {
    let units = frame.units;
    for bound in [Some(&mut frame.start_bound), frame.end_bound.as_mut()].into_iter().flatten() {
        if let WindowFrameBound::Preceding(Some(offset))
        | WindowFrameBound::Following(Some(offset)) = bound
        {
            of_bound(offset, units)?;
        }
    }
    Ok(())
}

fn of_bound(offset: &mut Expr, units: WindowFrameUnits) -> Result<()> {
    let counts_rows = !matches!(units, WindowFrameUnits::Range);
    if let Some(value) = integer(offset) {
        if value < 0 {
            return Err(Error::new(
                ErrorKind::InvalidFrameOffset,
                match counts_rows {
                    true => "a frame's offset must not be negative",
                    false => "invalid preceding or following size in window function",
                },
            ));
        }
        *offset = Expr::value(Value::Number(value.to_string(), false));
        return Ok(());
    }
    match unwrapped(offset) {
        Expr::Value(value) => {
            if let Value::Number(digits, _) = &value.value {
                // Rows are whole: as in an assignment, a half is rounded up.
                let digits = match digits.parse::<f64>() {
                    Ok(rows) if counts_rows => rows.round().to_string(),
                    _ => digits.clone(),
                };
                *offset = Expr::value(Value::Number(digits, false));
            }
            Ok(())
        }
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => Err(Error::new(
            ErrorKind::InvalidColumnReference,
            format!("argument of {units} must not contain variables"),
        )),
        _ => Ok(()),
    }
}

/// What stands within parentheses, and casts that keep a number.
fn unwrapped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unwrapped(inner),
        Expr::Cast { expr, data_type, .. }
            if matches!(
                data_type,
                DataType::Double(_)
                    | DataType::DoublePrecision
                    | DataType::Float8
                    | DataType::Numeric(datafusion::sql::sqlparser::ast::ExactNumberInfo::None)
            ) && matches!(unwrapped(expr), Expr::Value(value) if matches!(value.value, Value::Number(..))) =>
        {
            unwrapped(expr)
        }
        other => other,
    }
}

/// The value of a constant expression of integers; `None` for others.
fn integer(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => digits.parse().ok(),
            _ => None,
        },
        Expr::Nested(inner) => integer(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => integer(expr)?.checked_neg(),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => integer(expr),
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (integer(left)?, integer(right)?);
            match op {
                BinaryOperator::Plus => left.checked_add(right),
                BinaryOperator::Minus => left.checked_sub(right),
                BinaryOperator::Multiply => left.checked_mul(right),
                BinaryOperator::Divide => left.checked_div(right),
                BinaryOperator::Modulo => left.checked_rem(right),
                _ => None,
            }
        }
        Expr::Cast { expr, data_type, .. } => {
            let value = integer(expr)?;
            match data_type {
                DataType::SmallInt(_) | DataType::Int2(_) => {
                    i16::try_from(value).ok().map(i64::from)
                }
                DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => {
                    i32::try_from(value).ok().map(i64::from)
                }
                DataType::BigInt(_) | DataType::Int8(_) => Some(value),
                _ => None,
            }
        }
        _ => None,
    }
}
