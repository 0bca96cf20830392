//! Rewrites expressions that PostgreSQL and the planner write differently.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, UnaryOperator, Value, ValueWithSpan,
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_text::{TextStyle, parse_value, write_value};

use crate::{
    names::{fold, type_of_function},
    parse::{self, call},
};

/// Maximum number of digits of a number written without its exponent: the digits of a numeric.
const DIGITS_MAX: usize = 76;

/// Rewrites one expression.
///
/// # Errors
/// An error in an interval.
pub fn respell(expr: &mut Expr, style: &TextStyle) -> Result<()> {
    settle_now(expr, style)?;
    reach_far(expr, style);
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) => {
            if let Some(plain) = without_exponent(text) {
                *text = plain;
            }
        }
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, ..
        } if is_floating(data_type) => {
            // Parses the text directly as the target type: a numeric in between would round twice.
            if let Some(text) = number_of(inner) {
                **inner = Expr::Value(Value::SingleQuotedString(text).into());
            }
        }
        Expr::Cast { expr: inner, data_type, .. } if is_any_numeric(data_type) => {
            // Keeps all digits of the number as written.
            if let Some(text) = number_of(inner).filter(|text| !text.contains(['e', 'E'])) {
                let point = if text.contains('.') { "" } else { "." };
                *expr = Expr::Value(Value::Number(format!("{text}{point}"), false).into());
            }
        }
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedByteStringLiteral(_), .. }) => {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                "bit strings are not supported",
            )
            .with_hint(r"write bytes as bytea '\x1f'"));
        }
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } => {
            let ones = Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: Box::new(Expr::Value(Value::Number("1".to_string(), false).into())),
            };
            *expr = Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(Expr::Nested(inner.clone())),
                op: BinaryOperator::PGBitwiseXor,
                right: Box::new(Expr::Nested(Box::new(ones))),
            }));
        }
        Expr::UnaryOp { op, expr: inner } => {
            let function = match op {
                UnaryOperator::PGAbs => "abs",
                UnaryOperator::PGSquareRoot => "sqrt",
                UnaryOperator::PGCubeRoot => "cbrt",
                _ => return Ok(()),
            };
            if let Some(called) = call(function, vec![inner.as_ref().clone()]) {
                *expr = called;
            }
        }
        Expr::Substring { .. } | Expr::Overlay { .. } | Expr::Position { .. } => parts(expr),
        Expr::BinaryOp { left, op: BinaryOperator::PGStartsWith, right } => {
            let arguments = vec![left.as_ref().clone(), right.as_ref().clone()];
            if let Some(called) = call("starts_with", arguments) {
                *expr = called;
            }
        }
        Expr::Function(_) => respell_function(expr)?,
        _ => {}
    }
    Ok(())
}

/// Rewrites SUBSTRING, OVERLAY and POSITION as function calls, which also accept bytes.
/// `SUBSTRING(s FROM pattern)`, with text after FROM, returns the part of `s` that matches the
/// pattern.
fn parts(expr: &mut Expr) {
    let take = |expr: &mut Expr| std::mem::replace(expr, Expr::Value(Value::Null.into()));
    let called = match expr {
        Expr::Substring {
            expr: whole,
            substring_from: Some(pattern),
            substring_for: None,
            shorthand: false,
            ..
        } if !matches!(
            pattern.as_ref(),
            Expr::Value(ValueWithSpan { value: Value::Number(..), .. })
        ) =>
        {
            // For a computed argument, its type decides whether it is a pattern or a position.
            call("regexp_substring", vec![take(whole), take(pattern)])
        }
        Expr::Substring {
            expr: whole,
            substring_from: Some(pattern),
            substring_for: Some(escape),
            ..
        } if is_text(pattern) && is_text(escape) => {
            let pattern = call("similar_to_escape", vec![take(pattern), take(escape)]);
            pattern.and_then(|pattern| call("regexp_substring", vec![take(whole), pattern]))
        }
        Expr::Substring { expr: whole, substring_from, substring_for, .. } => {
            let first = Expr::Value(Value::Number("1".to_string(), false).into());
            let from = substring_from.as_mut().map_or(first, |from| take(from));
            let mut arguments = vec![take(whole), from];
            arguments.extend(substring_for.as_mut().map(|length| take(length)));
            call("substr", arguments)
        }
        Expr::Overlay { expr: whole, overlay_what, overlay_from, overlay_for } => {
            let mut arguments = vec![take(whole), take(overlay_what), take(overlay_from)];
            arguments.extend(overlay_for.as_mut().map(|length| take(length)));
            call("overlay", arguments)
        }
        Expr::Position { expr: part, r#in } => call("strpos", vec![take(r#in), take(part)]),
        _ => None,
    };
    if let Some(called) = called {
        *expr = called;
    }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }))
}

/// True for a constant number less than one.
fn is_below_one(expr: &Expr) -> bool {
    number_of(expr).and_then(|text| text.parse::<i64>().ok()).is_some_and(|number| number < 1)
}

fn is_floating(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Real
            | DataType::Float(ExactNumberInfo::None)
            | DataType::Float4
            | DataType::Float8
            | DataType::Double(ExactNumberInfo::None)
            | DataType::DoublePrecision
    )
}

fn is_any_numeric(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Numeric(ExactNumberInfo::None)
            | DataType::Decimal(ExactNumberInfo::None)
            | DataType::Dec(ExactNumberInfo::None)
    )
}

fn number_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) => Some(text.clone()),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let positive = number_of(expr)?;
            // Drops the sign of a zero, because a numeric has no negative zero.
            let zero = !positive.contains(|digit: char| ('1'..='9').contains(&digit));
            Some(match positive.strip_prefix('-') {
                Some(twice_negated) => twice_negated.to_string(),
                None if zero => positive,
                None => format!("-{positive}"),
            })
        }
        Expr::Nested(inner) => number_of(inner),
        _ => None,
    }
}

/// Writes a number without its exponent: `1.5e3` becomes `1500.`, a numeric.
fn without_exponent(text: &str) -> Option<String> {
    let (mantissa, exponent) = text.split_once(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if !mantissa.contains(|digit: char| ('1'..='9').contains(&digit)) {
        return Some("0.".to_string());
    }
    let digits = format!("{whole}{fraction}");
    let point = i64::try_from(whole.len()).ok()? + i64::from(exponent);
    let written = if point <= 0 {
        let zeros = usize::try_from(-point).ok().filter(|zeros| *zeros <= DIGITS_MAX)?;
        format!("0.{}{digits}", "0".repeat(zeros))
    } else {
        let point = usize::try_from(point).ok().filter(|point| *point <= DIGITS_MAX)?;
        let padded = format!("{digits:0<point$}");
        let (whole, fraction) = padded.split_at_checked(point)?;
        format!("{whole}.{fraction}")
    };
    (written.len() <= DIGITS_MAX).then_some(written)
}

fn respell_function(expr: &mut Expr) -> Result<()> {
    let Expr::Function(called) = expr else { return Ok(()) };
    let Some(name) = called.name.0.last().and_then(|part| part.as_ident()).map(fold) else {
        return Ok(());
    };
    let FunctionArguments::List(list) = &mut called.args else { return Ok(()) };
    let mut arguments: Vec<&mut Expr> = list
        .args
        .iter_mut()
        .filter_map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect();
    let cast_to = type_of_function(&name);
    match (name.as_str(), arguments.as_mut_slice()) {
        ("mod", [left, right]) => {
            let nested = |expr: &mut Expr| {
                let taken = std::mem::replace(expr, Expr::Value(Value::Null.into()));
                Box::new(Expr::Nested(Box::new(taken)))
            };
            let (left, right) = (nested(left), nested(right));
            let remainder = Expr::BinaryOp { left, op: BinaryOperator::Modulo, right };
            *expr = Expr::Nested(Box::new(remainder));
        }
        ("nth_value", [_, place]) if is_below_one(place) => {
            let message = "argument of nth_value must be greater than zero";
            return Err(Error::new(ErrorKind::InvalidNthValue, message));
        }
        ("ntile", [buckets]) if is_below_one(buckets) => {
            let message = "argument of ntile must be greater than zero";
            return Err(Error::new(ErrorKind::InvalidNtile, message));
        }
        (_, [value]) if cast_to.is_some() => {
            let value = Box::new(std::mem::replace(*value, Expr::Value(Value::Null.into())));
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: value,
                data_type: cast_to.unwrap_or(DataType::Text),
                array: false,
                format: None,
            };
        }
        // With one argument, `age` counts up to midnight of the current day.
        ("age", [_]) => {
            if let (Some(today), FunctionArguments::List(list)) =
                (call("current_date", Vec::new()), &mut called.args)
            {
                list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(today)));
            }
        }
        // An empty array has no dimension, and therefore no length.
        ("array_length", [_] | [_, _]) => {
            let inner = expr.clone();
            if let Some(Expr::Function(outer)) = scalar("nullif(CAST(NULL AS INT), 0)") {
                let mut outer = outer;
                if let FunctionArguments::List(list) = &mut outer.args
                    && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Cast {
                        expr: first,
                        ..
                    }))) = list.args.first_mut()
                {
                    // Uses the planner's own name of the function, so that this rewrite does not
                    // apply to the result again.
                    let mut inner = inner;
                    if let Expr::Function(call) = &mut inner {
                        call.name =
                            ObjectName(vec![ObjectNamePart::Identifier(Ident::new("list_length"))]);
                    }
                    **first = inner;
                }
                *expr = Expr::Function(outer);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Replaces `'yesterday'`, `'now'` and similar words in a constant with the time of the statement.
fn settle_now(expr: &mut Expr, style: &TextStyle) -> Result<()> {
    let (value, data_type) = match expr {
        Expr::TypedString(typed) => (&mut typed.value.value, &typed.data_type),
        Expr::Cast { expr, data_type, .. } => match &mut **expr {
            Expr::Value(ValueWithSpan { value, .. }) => (value, &*data_type),
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    let Value::SingleQuotedString(text) = value else { return Ok(()) };
    let lower = text.to_ascii_lowercase();
    if !["now", "today", "tomorrow", "yesterday"].iter().any(|word| lower.contains(word)) {
        return Ok(());
    }
    let Ok(column_type) = crate::types::column_type(data_type) else { return Ok(()) };
    let is_time = matches!(
        column_type,
        ColumnType::Date
            | ColumnType::Time
            | ColumnType::Timestamp { .. }
            | ColumnType::TimestampTz { .. }
    );
    if is_time {
        let array = parse_value(Some(text), &column_type, style)?;
        let iso = TextStyle { time_zone: style.time_zone, ..TextStyle::default() };
        if let Some(settled) = write_value(&array, 0, &column_type.arrow_field("", true), &iso)? {
            *text = settled;
        }
    }
    Ok(())
}

/// Gives a constant time outside of the range of nanoseconds a precision of microseconds. Constants
/// with an explicit precision stay unchanged.
fn reach_far(expr: &mut Expr, style: &TextStyle) {
    let (value, data_type) = match expr {
        Expr::TypedString(typed) => (&typed.value.value, &mut typed.data_type),
        Expr::Cast { expr, data_type, .. } => match &**expr {
            Expr::Value(ValueWithSpan { value, .. }) => (value, data_type),
            _ => return,
        },
        _ => return,
    };
    let (Value::SingleQuotedString(text), DataType::Timestamp(precision @ None, _)) =
        (value, &mut *data_type)
    else {
        return;
    };
    *precision = Some(6);
    let far = |data_type: &DataType| {
        let fine = match crate::types::column_type(data_type).ok()? {
            ColumnType::TimestampTz { .. } => ColumnType::TimestampTz { precision: 9 },
            _ => ColumnType::Timestamp { precision: 9 },
        };
        let error = parse_value(Some(text), &fine, style).err()?;
        (error.kind() == ErrorKind::DatetimeOverflow).then_some(())
    };
    if far(data_type).is_none()
        && let DataType::Timestamp(precision, _) = data_type
    {
        *precision = None;
    }
}

fn scalar(sql: &str) -> Option<Expr> {
    parse::expression(sql).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_written_out() {
        for (text, plain) in [
            ("1e15", Some("1000000000000000.")),
            ("1.5e3", Some("1500.")),
            ("1.25E1", Some("12.5")),
            ("1e-3", Some("0.001")),
            ("12.5e-1", Some("1.25")),
            ("0e100", Some("0.")),
            ("1e1000", None),
            ("15", None),
        ] {
            assert_eq!(without_exponent(text).as_deref(), plain, "{text}");
        }
    }

    #[test]
    fn statements_are_respelled() {
        for (sql, wanted) in [
            ("mod(a + 1, 2)", "((a + 1) % (2))"),
            ("array_length(x, 1)", "nullif(CAST(list_length(x, 1) AS INT), 0)"),
            ("1e2::double precision", "'1e2'::DOUBLE PRECISION"),
            ("(-0.0)::float8", "'0.0'::FLOAT8"),
            ("(-1.5)::float8", "'-1.5'::FLOAT8"),
            ("2.50::numeric", "2.50"),
        ] {
            let mut expr = parse::expression(sql).unwrap();
            respell(&mut expr, &TextStyle::default()).unwrap();
            assert_eq!(expr.to_string(), wanted);
        }
    }
}
