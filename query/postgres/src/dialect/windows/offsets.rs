//! Rewrites the offsets of window frames. The planner accepts only numbers. The value of another
//! constant expression, for example of a parameter, is known only at run time: the rewrite stores
//! the expression in a call of `$frame_offset` in PARTITION BY, and `rules::windows::frames` later
//! computes the value.
//!
//! ```text
//!   OVER (ORDER BY i ROWS (1+1) PRECEDING)  ─►  OVER (ORDER BY i ROWS 2 PRECEDING)
//!   OVER (ORDER BY i ROWS $1 PRECEDING)     ─►
//!       OVER (PARTITION BY $frame_offset(0, $1::bigint) ORDER BY i ROWS 0 PRECEDING)
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Interval, ObjectNamePart, UnaryOperator, Value,
    ValueWithSpan, WindowFrameBound, WindowFrameUnits, WindowSpec,
};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{parse::call, rules::windows::frames::OFFSET_FUNCTION, walk};

/// Writes the offsets of a frame as numbers, or moves them into `$frame_offset` calls.
///
/// # Errors
/// `InvalidFrameOffset` for a negative offset, `InvalidColumnReference` for a column,
/// `FeatureNotSupported` for a subquery.
pub fn write_out(window: &mut WindowSpec) -> Result<()> {
    // The walk visits both the query and its SELECT, and thus the same windows twice.
    if window.partition_by.iter().any(is_call) {
        return Ok(());
    }
    let Some(frame) = &mut window.window_frame else { return Ok(()) };
    let units = frame.units;
    let bounds = [Some(&mut frame.start_bound), frame.end_bound.as_mut()];
    for (at, bound) in bounds.into_iter().enumerate() {
        if let Some(
            WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset)),
        ) = bound
        {
            of_bound(offset, units)?;
            if is_computed(offset, units) {
                check_constant(offset, units)?;
                let zero = Expr::value(Value::Number("0".to_string(), false));
                let offset = std::mem::replace(offset.as_mut(), zero);
                window.partition_by.extend(offset_call(offset, at, units));
            }
        }
    }
    Ok(())
}

/// True if a call of `$frame_offset` must compute the offset. In a RANGE frame this includes
/// numbers: the planner would accept a number for a key of any type, and treat a number out of
/// range of the key's type as an unbounded frame.
fn is_computed(offset: &Expr, units: WindowFrameUnits) -> bool {
    match offset {
        Expr::Value(ValueWithSpan { value: Value::Number(..), .. }) => {
            matches!(units, WindowFrameUnits::Range)
        }
        // The parser reads every quoted offset as an interval.
        Expr::Interval(Interval { value, leading_field: None, .. }) => {
            let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) =
                value.as_ref()
            else {
                return false;
            };
            text.trim().parse::<f64>().is_ok()
        }
        Expr::Interval(_) => false,
        _ => true,
    }
}

/// True if a PARTITION BY key is a call of `$frame_offset`.
fn is_call(key: &Expr) -> bool {
    let Expr::Function(function) = key else { return false };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return false };
    name.value == OFFSET_FUNCTION
}

/// Builds the `$frame_offset` call for the offset at the start (`at` 0) or at the end (`at` 1) of a
/// frame.
fn offset_call(offset: Expr, at: usize, units: WindowFrameUnits) -> Option<Expr> {
    let offset = match offset {
        Expr::Interval(Interval { value, .. }) => *value,
        other => other,
    };
    let offset = match units {
        WindowFrameUnits::Range => offset,
        WindowFrameUnits::Rows | WindowFrameUnits::Groups => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(offset),
            data_type: DataType::BigInt(None),
            array: false,
            format: None,
        },
    };
    let at = Expr::value(Value::Number(at.to_string(), false));
    let mut call = call("f", vec![at, offset])?;
    if let Expr::Function(function) = &mut call {
        function.name = datafusion::sql::sqlparser::ast::ObjectName::from(vec![
            datafusion::sql::sqlparser::ast::Ident::new(OFFSET_FUNCTION),
        ]);
    }
    Some(call)
}

/// Refuses columns and subqueries in an offset: an offset must be the same for all rows.
fn check_constant(offset: &Expr, units: WindowFrameUnits) -> Result<()> {
    let mut outcome = Ok(());
    let _ = walk::own_expressions(offset, |expr| {
        outcome = match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => Err(Error::new(
                ErrorKind::InvalidColumnReference,
                format!("argument of {units} must not contain variables"),
            )),
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                Err(Error::not_yet("a subquery as the offset of a frame"))
            }
            _ => return ControlFlow::Continue(()),
        };
        ControlFlow::Break(())
    });
    outcome
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
                // A row count is a whole number: a half rounds up, as in an assignment.
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

/// The expression without parentheses, and without casts that do not change a number.
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

/// The value of a constant integer expression, as far as this function can compute it; `None` for
/// other expressions.
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
