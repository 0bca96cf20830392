//! `generate_series` in FROM. A series between constants produces its rows one batch at a time; the
//! planner reads its bounds during planning. Every other series is first built as a list. The
//! bounds of a list are ordinary expressions: parameters are allowed, and each row of the query may
//! have other bounds.

use std::ops::ControlFlow;

use arrow::{
    array::AsArray,
    compute::cast,
    datatypes::{DataType as ArrowType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType},
};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, Interval, ObjectName,
    ObjectNamePart, TableFactor, UnaryOperator, Value, ValueWithSpan,
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_text::{TextStyle, parse_value, write_value};

use super::{intervals, time_of};
use crate::{
    names::fold,
    rules::functions::series::{OF_BIGINTS, OF_TIMES},
    walk,
};

/// True if [`settle`] or the planner can read all arguments of a series as constants.
pub fn is_constant(arguments: &[Expr]) -> bool {
    arguments.iter().all(is_whole_constant) || is_of_constant_times(arguments)
}

/// True for smallint, integer and bigint.
pub fn is_whole(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int(_)
            | DataType::Integer(_)
            | DataType::Int2(_)
            | DataType::Int4(_)
            | DataType::Int8(_)
            | DataType::SmallInt(_)
            | DataType::BigInt(_)
    )
}

fn is_whole_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) => {
            text.bytes().all(|byte| byte.is_ascii_digit())
        }
        Expr::Value(ValueWithSpan { value: Value::Null, .. }) => true,
        Expr::Nested(inner)
        | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            is_whole_constant(inner)
        }
        Expr::Cast { expr: inner, data_type, .. } => {
            is_whole(data_type) && (is_whole_constant(inner) || text_of(inner).is_some())
        }
        Expr::BinaryOp {
            left,
            op:
                BinaryOperator::Plus
                | BinaryOperator::Minus
                | BinaryOperator::Multiply
                | BinaryOperator::Divide
                | BinaryOperator::Modulo,
            right,
        } => is_whole_constant(left) && is_whole_constant(right),
        _ => false,
    }
}

fn is_of_constant_times(arguments: &[Expr]) -> bool {
    let [first, last, step] = arguments else { return false };
    let is_bound = |expr: &Expr| time_of(expr).is_some() || text_of(expr).is_some();
    let is_typed = time_of(first).is_some() || time_of(last).is_some();
    is_typed && is_bound(first) && is_bound(last) && is_step(step)
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

fn is_step(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_step(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => {
            matches!(inner.as_ref(), Expr::Interval(_)) && is_step(inner)
        }
        Expr::Interval(interval) => text_of(&interval.value).is_some(),
        Expr::Cast { expr: inner, data_type: DataType::Interval { .. }, .. } => {
            text_of(inner).is_some()
        }
        Expr::TypedString(typed) => matches!(typed.data_type, DataType::Interval { .. }),
        other => text_of(other).is_some(),
    }
}

/// Renames `generate_series` to [`OF_TIMES`] for constant times, and to [`OF_BIGINTS`] for integers
/// that include a bigint. Also writes constant times as the arguments that [`OF_TIMES`] reads.
///
/// # Errors
/// An error in a time or an interval.
pub fn settle(factor: &mut TableFactor, style: &TextStyle) -> Result<()> {
    let TableFactor::Table { name, args: Some(arguments), .. } = factor else {
        return Ok(());
    };
    let function = name.0.last().and_then(|part| part.as_ident()).map(fold);
    if function.as_deref() != Some("generate_series") {
        return Ok(());
    }
    let given: Option<Vec<Expr>> = arguments.args.iter().map(expr_of).collect();
    let Some(given) = given else { return Ok(()) };
    let function = match given.as_slice() {
        [first, last, step] if is_of_constant_times(&given) => {
            let settled = times(first, last, step, style)?;
            let text = |text: String| {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(
                    Value::SingleQuotedString(text).into(),
                )))
            };
            arguments.args = settled.into_iter().map(text).collect();
            OF_TIMES
        }
        _ if given.iter().any(says_bigint) => OF_BIGINTS,
        _ => return Ok(()),
    };
    *name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new(function))]);
    Ok(())
}

fn expr_of(argument: &FunctionArg) -> Option<Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    }
}

/// True if an integer expression contains a cast to bigint.
fn says_bigint(expr: &Expr) -> bool {
    let found = walk::expressions(expr, |expr| match expr {
        Expr::Cast { data_type: DataType::BigInt(_) | DataType::Int8(_), .. } => {
            ControlFlow::Break(())
        }
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. })
            if text.parse::<i32>().is_err() =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The arguments of [`OF_TIMES`]: the bounds in units since 1970; the months, days and nanoseconds
/// of the step; the length of a unit in nanoseconds; and the time zone, empty for `timestamp`.
fn times(first: &Expr, last: &Expr, step: &Expr, style: &TextStyle) -> Result<[String; 7]> {
    let types: Vec<ColumnType> =
        [first, last].into_iter().filter_map(time_of).map(|(_, column_type)| column_type).collect();
    let has_zone = types.iter().any(|of| matches!(of, ColumnType::TimestampTz { .. }));
    let is_local = types.iter().any(|of| matches!(of, ColumnType::Timestamp { .. }));
    let zoned = has_zone || !is_local;
    let of_precision = |precision| match zoned {
        true => ColumnType::TimestampTz { precision },
        false => ColumnType::Timestamp { precision },
    };
    let (first, last) = (plain(first, style)?, plain(last, style)?);
    let bounds = |precision| -> Result<(i64, i64)> {
        let column_type = of_precision(precision);
        Ok((units(&first, &column_type, style)?, units(&last, &column_type, style)?))
    };
    let ((first, last), unit_ns) = match bounds(9) {
        Err(error) if error.kind() == ErrorKind::DatetimeOverflow => (bounds(6)?, 1_000),
        bounds => (bounds?, 1),
    };
    let step = step_of(step, style)?;
    let zone = if zoned { style.time_zone.to_string() } else { String::new() };
    Ok([
        first.to_string(),
        last.to_string(),
        step.months.to_string(),
        step.days.to_string(),
        step.nanoseconds.to_string(),
        unit_ns.to_string(),
        zone,
    ])
}

/// The text of a bound in the format of its own type: a date has no time of day, and a `timestamp`
/// no time zone.
fn plain(bound: &Expr, style: &TextStyle) -> Result<String> {
    let Some((text, column_type)) = time_of(bound) else {
        return Ok(text_of(bound).unwrap_or_default().to_string());
    };
    let read = |column_type: &ColumnType| parse_value(Some(&text), column_type, style);
    let coarse = match column_type {
        ColumnType::Timestamp { precision: 9 } => Some(ColumnType::Timestamp { precision: 6 }),
        ColumnType::TimestampTz { precision: 9 } => Some(ColumnType::TimestampTz { precision: 6 }),
        _ => None,
    };
    let (array, column_type) = match (read(&column_type), coarse) {
        (Err(error), Some(coarse)) if error.kind() == ErrorKind::DatetimeOverflow => {
            (read(&coarse)?, coarse)
        }
        (array, _) => (array?, column_type),
    };
    let field = column_type.arrow_field("", true);
    let written = write_value(&array, 0, &field, &TextStyle::default())?;
    written.ok_or_else(|| Error::internal("a bound of a series was read"))
}

fn units(text: &str, column_type: &ColumnType, style: &TextStyle) -> Result<i64> {
    let array = parse_value(Some(text), column_type, style)?;
    let counts = cast(&array, &ArrowType::Int64).map_err(crate::errors::from_arrow)?;
    let first = counts.as_primitive_opt::<Int64Type>().and_then(|counts| counts.iter().next());
    first.flatten().ok_or_else(|| Error::internal("a bound of a series was read"))
}

fn step_of(step: &Expr, style: &TextStyle) -> Result<IntervalMonthDayNano> {
    let mut step = step.clone();
    while let Expr::Nested(inner) = step {
        step = *inner;
    }
    intervals::respell(&mut step, style)?;
    while let Expr::Nested(inner) = step {
        step = *inner;
    }
    let text = match &step {
        Expr::Interval(Interval { value, .. }) => text_of(value),
        Expr::Cast { expr, .. } => text_of(expr),
        Expr::TypedString(typed) => match &typed.value.value {
            Value::SingleQuotedString(text) => Some(text.as_str()),
            _ => None,
        },
        other => text_of(other),
    };
    let array = parse_value(text, &ColumnType::Interval, style)?;
    let steps = array.as_primitive_opt::<IntervalMonthDayNanoType>();
    steps
        .and_then(|steps| steps.iter().next().flatten())
        .ok_or_else(|| Error::internal("the step of a series was read"))
}
