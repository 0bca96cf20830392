//! Rewrites SIMILAR TO and names such as CURRENT_TIMESTAMP as calls that the planner knows, and
//! operators in front of constants without a type.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectNamePart, TimezoneInfo, UnaryOperator, Value, ValueWithSpan,
};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    names::{CLOCK_FUNCTIONS, fold},
    parse::call,
};

/// Rewrites one expression.
///
/// # Errors
/// An invalid precision of a time; `AmbiguousFunction` for an operator before a constant without a
/// type.
pub fn respell(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Plus, expr: operand } if is_untyped(operand) => {
            let constant = take(operand);
            **operand = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(constant),
                data_type: DataType::DoublePrecision,
                array: false,
                format: None,
            };
        }
        Expr::UnaryOp {
            op: op @ (UnaryOperator::Minus | UnaryOperator::BitwiseNot),
            expr: operand,
        } if is_untyped(operand) => {
            let message = format!("operator is not unique: {op} unknown");
            return Err(Error::new(ErrorKind::AmbiguousFunction, message).with_hint(
                "Could not choose a best candidate operator. You might need to add explicit type casts.",
            ));
        }
        Expr::SimilarTo { negated, expr: value, pattern, escape_char } => {
            let mut arguments = vec![take(pattern)];
            arguments.extend(escape_char.take().map(Expr::Value));
            let Some(regex) = call("similar_to_escape", arguments) else { return Ok(()) };
            let op = match negated {
                true => BinaryOperator::PGRegexNotMatch,
                false => BinaryOperator::PGRegexMatch,
            };
            *expr = Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(take(value)))),
                op,
                right: Box::new(regex),
            }));
        }
        Expr::Function(function) => {
            remove_all(function);
            order_interval_parts(function)?;
            if let Some(types) = clock(function)?
                && let Some(now) = call("now", Vec::new())
            {
                *expr = types.into_iter().fold(now, |inner, data_type| Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(inner),
                    data_type,
                    array: false,
                    format: None,
                });
            }
        }
        _ => {}
    }
    Ok(())
}

/// True for a quoted constant or NULL without a cast.
fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_untyped(inner),
        Expr::Value(ValueWithSpan { value, .. }) => {
            matches!(value, Value::SingleQuotedString(_) | Value::Null)
        }
        _ => false,
    }
}

/// Renames `array_replace` to `array_replace_all`: PostgreSQL's function replaces every equal
/// element, and DataFusion's only the first.
fn remove_all(function: &mut Function) {
    let Some(ObjectNamePart::Identifier(name)) = function.name.0.last_mut() else { return };
    let all = match fold(name).as_str() {
        "array_replace" => "array_replace_all",
        _ => return,
    };
    *name = Ident::new(all);
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}

/// Orders the named arguments of `make_interval`: `make_interval(days => 3)` becomes
/// `make_interval(0, 0, 0, 3)`.
fn order_interval_parts(function: &mut Function) -> Result<()> {
    const PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold);
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    let named = list.args.iter().any(|argument| !matches!(argument, FunctionArg::Unnamed(_)));
    if name.as_deref() != Some("make_interval") || !named {
        return Ok(());
    }
    let mut parts: Vec<Option<FunctionArg>> = Vec::new();
    for argument in std::mem::take(&mut list.args) {
        let (at, argument) = match argument {
            FunctionArg::Named { name, arg, .. }
            | FunctionArg::ExprNamed { name: Expr::Identifier(name), arg, .. } => {
                let name = fold(&name);
                let at = PARTS.iter().position(|part| *part == name);
                let at = at.ok_or_else(|| {
                    let message = format!("make_interval() has no argument named \"{name}\"");
                    Error::new(ErrorKind::UndefinedFunction, message)
                        .with_hint("arguments are years, months, weeks, days, hours, mins and secs")
                })?;
                (at, FunctionArg::Unnamed(arg))
            }
            other => (parts.len(), other),
        };
        parts.resize(parts.len().max(at + 1), None);
        if let Some(part) = parts.get_mut(at)
            && part.replace(argument).is_some()
        {
            let message = "an argument of make_interval() is given more than once";
            return Err(Error::new(ErrorKind::SyntaxError, message));
        }
    }
    let zero = || {
        let zero = Expr::Value(Value::Number("0".to_string(), false).into());
        FunctionArg::Unnamed(FunctionArgExpr::Expr(zero))
    };
    list.args = parts.into_iter().map(|part| part.unwrap_or_else(zero)).collect();
    Ok(())
}

/// The types to which the rewrite casts `now()`, in order, in place of LOCALTIMESTAMP and
/// LOCALTIME, and of CURRENT_TIMESTAMP and CURRENT_TIME with a precision. `None` for other
/// functions.
fn clock(function: &Function) -> Result<Option<Vec<DataType>>> {
    let [part] = function.name.0.as_slice() else { return Ok(None) };
    let name = match part.as_ident() {
        Some(ident) if ident.quote_style.is_none() => fold(ident),
        _ => return Ok(None),
    };
    let is_local = matches!(name.as_str(), "localtimestamp" | "localtime");
    if !CLOCK_FUNCTIONS.contains(&name.as_str()) {
        return Ok(None);
    }
    let precision = match &function.args {
        FunctionArguments::None if is_local => None,
        FunctionArguments::List(list) => match list.args.as_slice() {
            [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ValueWithSpan {
                    value: Value::Number(digits, _),
                    ..
                }))),
            ] => Some(digits.parse().unwrap_or(u64::MAX)),
            [] if !is_local => return Ok(None),
            _ => {
                let message = format!("syntax error: {name} accepts at most a precision");
                return Err(Error::new(ErrorKind::SyntaxError, message));
            }
        },
        FunctionArguments::None | FunctionArguments::Subquery(_) => return Ok(None),
    };
    let zone = match name.as_str() {
        "current_timestamp" => TimezoneInfo::WithTimeZone,
        _ => TimezoneInfo::None,
    };
    let time = DataType::Time(None, TimezoneInfo::None);
    Ok(Some(match (name.as_str(), precision) {
        ("localtime" | "current_time", None | Some(6)) => vec![time],
        // The type time always keeps microseconds; a first cast to timestamp therefore applies the
        // precision.
        ("localtime" | "current_time", _) => vec![DataType::Timestamp(precision, zone), time],
        _ => vec![DataType::Timestamp(Some(precision.unwrap_or(6)), zone)],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn operators_become_calls() {
        for (sql, wanted) in [
            ("a SIMILAR TO 'x%'", "((a) ~ similar_to_escape('x%'))"),
            ("a || b NOT SIMILAR TO p ESCAPE '#'", "((a || b) !~ similar_to_escape(p, '#'))"),
            ("LOCALTIMESTAMP", "CAST(now() AS TIMESTAMP(6))"),
            ("localtimestamp(0)", "CAST(now() AS TIMESTAMP(0))"),
            ("LOCALTIME", "CAST(now() AS TIME)"),
            ("localtime(3)", "CAST(CAST(now() AS TIMESTAMP(3)) AS TIME)"),
            ("CURRENT_TIME(0)", "CAST(CAST(now() AS TIMESTAMP(0)) AS TIME)"),
            ("current_timestamp(3)", "CAST(now() AS TIMESTAMP(3) WITH TIME ZONE)"),
            ("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
            ("\"localtime\"()", "\"localtime\"()"),
            ("make_interval(1, days => 3)", "make_interval(1, 0, 0, 3)"),
            ("make_interval(secs => 1.5)", "make_interval(0, 0, 0, 0, 0, 0, 1.5)"),
        ] {
            let mut expr = parse::expression(sql).unwrap();
            respell(&mut expr).unwrap();
            assert_eq!(expr.to_string(), wanted);
        }
        let mut expr = parse::expression("localtime('x')").unwrap();
        assert_eq!(respell(&mut expr).unwrap_err().kind(), ErrorKind::SyntaxError);
    }
}
