//! The common type of the values in `coalesce`, `CASE`, `greatest`, `UNION` and similar
//! expressions. Like in PostgreSQL, an untyped literal gets the type of the other values. Among
//! types of one category, for example numbers, the widest type is used.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::{DFSchema, Result, ScalarValue},
    logical_expr::{Cast, Expr, ExprSchemable, ReturnFieldArgs},
};
use stratalog_functions::literal;
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_text::TextStyle;

use super::floats;
use crate::{errors::to_datafusion, rules::calendar::times::as_interval};

mod choices;
mod sets;
mod sql_typed;
mod unions;

pub use choices::{CommonTypes, gives_an_argument, unified};
pub use sets::{SetTypes, in_common_types, is_set_operation, sides};
pub use unions::{
    UnionTypes, ValuesTypes, check_terms, columns_of, narrowed, outside_recursion, unaliased,
    uncast,
};

/// Maximum number of decimal digits in a numeric.
const DIGITS_MAX: u8 = 38;

/// What is known about the type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueType {
    /// A quoted constant without a type, and its text.
    Text(String),
    /// NULL without a type.
    Null,
    /// A value of this type. The flag is false if the real type is another one: for example, an oid
    /// has the Arrow type of a number.
    Typed(ColumnType, bool),
    /// A value whose type has no SQL name here.
    Other,
}

impl ValueType {
    /// The type of a field.
    pub fn of_field(field: &FieldRef) -> Self {
        let exact = !field.data_type().is_unsigned_integer();
        match (field.data_type(), ColumnType::from_arrow_field(field)) {
            (DataType::Null, _) => ValueType::Null,
            (DataType::UInt64, _) => ValueType::Typed(ColumnType::BigInt, exact),
            (DataType::Decimal256(_, _) | DataType::Float16, _) | (_, None) => ValueType::Other,
            (_, Some(column_type)) => ValueType::Typed(column_type, exact),
        }
    }

    /// The type of a constant; `None` if only the type of its field is known.
    pub fn of_constant(value: &ScalarValue) -> Option<Self> {
        match value {
            ScalarValue::Int64(Some(number)) if i32::try_from(*number).is_ok() => {
                Some(ValueType::Typed(ColumnType::Integer, true))
            }
            value => value.try_as_str().flatten().map(|text| ValueType::Text(text.to_string())),
        }
    }

    /// The types of the arguments of a call.
    pub fn of_arguments(arguments: &ReturnFieldArgs<'_>) -> Vec<Self> {
        let each = arguments.arg_fields.iter().zip(arguments.scalar_arguments);
        each.map(|(field, value)| {
            value.and_then(Self::of_constant).unwrap_or_else(|| Self::of_field(field))
        })
        .collect()
    }

    /// The type of an expression.
    pub fn of(expr: &Expr, schema: &DFSchema) -> Self {
        if let Expr::Literal(value, None) = expr
            && let Some(given) = Self::of_constant(value)
        {
            return given;
        }
        match expr.to_field(schema) {
            Ok((_, field)) => Self::of_field(&field),
            Err(_) => ValueType::Other,
        }
    }
}

/// The common type of the given values; `None` leaves the choice to DataFusion.
///
/// # Errors
/// `DatatypeMismatch` for types without a common type. `what` is the name of the expression for the
/// message.
pub fn common_type(what: &str, given: &[ValueType]) -> Result<Option<ColumnType>> {
    use ColumnType as T;
    let mut common: Option<(ColumnType, bool)> = None;
    for given in given {
        match (given, common.take()) {
            (ValueType::Other, _) => return Ok(None),
            (ValueType::Text(_) | ValueType::Null, before) => common = before,
            (ValueType::Typed(first, exact), None) => common = Some((first.clone(), *exact)),
            (ValueType::Typed(next, exact), Some((before, exactly))) => {
                match wider(&before, next) {
                    Some(wider) => common = Some((wider, *exact && exactly)),
                    None if !(*exact && exactly) || is_array(&before) || is_array(next) => {
                        return Ok(None);
                    }
                    None => {
                        return Err(to_datafusion(Error::new(
                            ErrorKind::DatatypeMismatch,
                            format!("{what} types {before} and {next} cannot be matched"),
                        )));
                    }
                }
            }
        }
    }
    if !given.iter().any(|given| matches!(given, ValueType::Typed(_, true) | ValueType::Text(_))) {
        return Ok(None);
    }
    Ok(match common {
        None | Some((ColumnType::Text, _)) => None,
        Some((numeric @ ColumnType::Numeric { .. }, _)) => {
            let texts = given.iter().filter_map(|given| match given {
                ValueType::Text(text) => literal::numeric_type(text),
                _ => None,
            });
            Some(texts.fold(numeric, |before, text| wider(&before, &text).unwrap_or(before)))
        }
        // A literal must not lose decimal digits because of the precision of the other values.
        Some((T::Timestamp { precision }, _)) => {
            Some(T::Timestamp { precision: precision_beside(precision, given) })
        }
        Some((T::TimestampTz { precision }, _)) => {
            Some(T::TimestampTz { precision: precision_beside(precision, given) })
        }
        Some((other, _)) => Some(other),
    })
}

/// The common precision of times and literals: `precision`, but at least 6 if a literal has more
/// decimal digits than `precision`.
fn precision_beside(precision: u8, given: &[ValueType]) -> u8 {
    let finer = given.iter().any(|given| match given {
        ValueType::Text(text) => {
            let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
            fraction.bytes().take_while(u8::is_ascii_digit).count() > usize::from(precision)
        }
        _ => false,
    });
    if finer { precision.max(6) } else { precision }
}

fn is_array(column_type: &ColumnType) -> bool {
    matches!(column_type, ColumnType::Array(_))
}

/// The number of digits before and after the decimal point.
fn digits(column_type: &ColumnType) -> (u8, u8) {
    match column_type {
        ColumnType::SmallInt => (5, 0),
        ColumnType::Integer => (10, 0),
        ColumnType::BigInt => (19, 0),
        ColumnType::Numeric { precision, scale } => (precision.saturating_sub(*scale), *scale),
        _ => (0, 0),
    }
}

/// The wider of two types; `None` if no implicit cast between the types exists.
fn wider(left: &ColumnType, right: &ColumnType) -> Option<ColumnType> {
    use ColumnType as T;
    if left == right {
        return Some(left.clone());
    }
    if let (Some(left_rank), Some(right_rank)) =
        (literal::number_rank(left), literal::number_rank(right))
    {
        if left_rank.max(right_rank) != 3 {
            return Some(if left_rank < right_rank { right } else { left }.clone());
        }
        let ((left_whole, left_scale), (right_whole, right_scale)) = (digits(left), digits(right));
        let whole = left_whole.max(right_whole);
        let scale = left_scale.max(right_scale).min(DIGITS_MAX);
        let precision = whole.saturating_add(scale).clamp(1, DIGITS_MAX);
        return Some(T::Numeric { precision, scale });
    }
    Some(match (left, right) {
        (T::Date, time @ (T::Timestamp { .. } | T::TimestampTz { .. }))
        | (time @ (T::Timestamp { .. } | T::TimestampTz { .. }), T::Date) => time.clone(),
        (T::Timestamp { precision: left }, T::Timestamp { precision: right }) => {
            T::Timestamp { precision: *left.max(right) }
        }
        (
            T::Timestamp { precision: left } | T::TimestampTz { precision: left },
            T::Timestamp { precision: right } | T::TimestampTz { precision: right },
        ) => T::TimestampTz { precision: *left.max(right) },
        _ => return None,
    })
}

/// Casts `expr` to the common type.
///
/// # Errors
/// PostgreSQL's error for a literal that is not valid for the type.
pub fn in_type(
    expr: Expr,
    given: &ValueType,
    wanted: &ColumnType,
    schema: &DFSchema,
    style: &TextStyle,
) -> Result<Expr> {
    let field = Arc::new(wanted.arrow_field("", true));
    match (given, &expr) {
        (ValueType::Text(text), _) => literal::read(text, wanted, style),
        (_, Expr::Literal(ScalarValue::Int64(Some(number)), None))
            if *wanted == ColumnType::Integer =>
        {
            match i32::try_from(*number) {
                Ok(number) => Ok(Expr::Literal(ScalarValue::Int32(Some(number)), None)),
                Err(_) => Ok(expr),
            }
        }
        (ValueType::Typed(column_type, _), _) => {
            let data_type = expr.get_type(schema)?;
            Ok(match (&data_type, column_type) {
                (given, column_type) if given == field.data_type() && column_type == wanted => expr,
                (DataType::Duration(_), _) => as_interval().call(vec![expr]),
                (_, ColumnType::Numeric { .. }) if *wanted == ColumnType::Double => {
                    floats::float(expr)
                }
                _ => Expr::Cast(Cast::new_from_field(Box::new(expr), field)),
            })
        }
        (ValueType::Null | ValueType::Other, _) => {
            Ok(Expr::Cast(Cast::new_from_field(Box::new(expr), field)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_of_a_kind_counts() {
        use ColumnType as T;
        let numeric = |precision, scale| T::Numeric { precision, scale };
        for (left, right, wanted) in [
            (T::SmallInt, T::BigInt, Some(T::BigInt)),
            (T::Integer, numeric(3, 1), Some(numeric(11, 1))),
            (numeric(10, 2), numeric(8, 4), Some(numeric(12, 4))),
            // Keeps all decimal places; a number that is too large for the type is an error.
            (numeric(38, 0), numeric(38, 38), Some(numeric(38, 38))),
            (numeric(38, 0), numeric(3, 2), Some(numeric(38, 2))),
            (numeric(10, 2), T::Real, Some(T::Real)),
            (T::Real, T::Double, Some(T::Double)),
            (T::Date, T::TimestampTz { precision: 3 }, Some(T::TimestampTz { precision: 3 })),
            (
                T::Timestamp { precision: 6 },
                T::TimestampTz { precision: 3 },
                Some(T::TimestampTz { precision: 6 }),
            ),
            (T::Integer, T::Text, None),
            (T::Date, T::Time, None),
        ] {
            assert_eq!(wider(&left, &right), wanted, "{left} {right}");
            assert_eq!(wider(&right, &left), wanted, "{right} {left}");
        }
    }

    #[test]
    fn literals_take_the_type_of_the_others() {
        let text = |text: &str| ValueType::Text(text.to_string());
        let integer = ValueType::Typed(ColumnType::Integer, true);
        let common = |given: &[ValueType]| common_type("UNION", given);
        assert_eq!(common(&[text("1"), integer.clone()]).unwrap(), Some(ColumnType::Integer));
        assert_eq!(common(&[text("1"), ValueType::Null]).unwrap(), None);
        let numeric = ValueType::Typed(ColumnType::Numeric { precision: 3, scale: 1 }, true);
        assert_eq!(
            common(&[numeric, text("0.125")]).unwrap(),
            Some(ColumnType::Numeric { precision: 5, scale: 3 })
        );
        assert!(common(&[integer.clone(), ValueType::Typed(ColumnType::Text, true)]).is_err());
        assert_eq!(common(&[integer, ValueType::Typed(ColumnType::Text, false)]).unwrap(), None);
    }
}
