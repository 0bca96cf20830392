//! VALUES with cells of different types. Like in PostgreSQL, literals and NULL take the type of a
//! cell in the same column that names a type. The planner requires equal types, or converts floats
//! to numerics.

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType, ExactNumberInfo, Expr, TimezoneInfo, UnaryOperator,
    Value, ValueWithSpan, Values,
};
use stratalog_functions::literal::numeric_type;
use stratalog_model::ColumnType;

/// Casts the literals in each column of VALUES to the type that another cell of the column names,
/// without its precision or length.
pub fn align(values: &mut Values) {
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    if values.rows.len() < 2 {
        return;
    }
    for at in 0..columns {
        let cells = || values.rows.iter().filter_map(|row| row.content.get(at));
        let types: Vec<&DataType> = cells().filter_map(named_type).collect();
        let widest = |rank: fn(&DataType) -> u8| {
            let widest = types.iter().max_by_key(|data_type| rank(data_type));
            widest.filter(|data_type| rank(data_type) > 0)
        };
        let floating = widest(number_rank).filter(|data_type| is_floating(data_type));
        let number = types.first().filter(|data_type| number_rank(data_type) > 0);
        let number = floating.or_else(|| number.and_then(|_| widest(number_rank)));
        let Some(wanted) = number.or_else(|| widest(time_rank)).or(types.first()) else {
            continue;
        };
        let digits = cells().filter_map(text_of).map(digits_of_second).max().unwrap_or(0);
        let wanted = unmodified(wanted, time_precision(&types, digits));
        let floating = is_floating(&wanted);
        for cell in values.rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
            let widened = match named_type(cell) {
                Some(given) if floating => (1..number_rank(&wanted)).contains(&number_rank(given)),
                Some(given) => (1..time_rank(&wanted)).contains(&time_rank(given)),
                None => floating && is_number(cell),
            };
            let is_numeric = matches!(wanted, DataType::Numeric(_));
            let data_type = match text_of(cell) {
                Some(text) if is_numeric => numeric_of(text).unwrap_or_else(|| wanted.clone()),
                // The planner gives NULL the precision and scale of the other cells.
                None if is_numeric && is_untyped(cell) => continue,
                _ => wanted.clone(),
            };
            if is_untyped(cell) || widened {
                let inner = std::mem::replace(cell, Expr::Value(Value::Null.into()));
                *cell = Expr::Cast {
                    kind: CastKind::DoubleColon,
                    expr: Box::new(inner),
                    data_type,
                    array: false,
                    format: None,
                };
            }
        }
    }
}

/// The type without a precision or a length; a timestamp gets the precision `time`.
fn unmodified(data_type: &DataType, time: Option<u64>) -> DataType {
    match data_type {
        // The planner treats a `varchar(n)` like text.
        DataType::Varchar(Some(_))
        | DataType::CharacterVarying(Some(_))
        | DataType::CharVarying(Some(_)) => DataType::Text,
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => {
            DataType::Numeric(ExactNumberInfo::None)
        }
        DataType::Timestamp(_, zone) => DataType::Timestamp(time, *zone),
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, length)) => {
            let element = Box::new(unmodified(element, None));
            DataType::Array(ArrayElemTypeDef::SquareBracket(element, *length))
        }
        other => other.clone(),
    }
}

/// The precision of a column of timestamps with the given types, and with literals of up to
/// `digits` decimal digits; `None` if a type has no explicit precision.
fn time_precision(types: &[&DataType], digits: u64) -> Option<u64> {
    let mut precisions = types.iter().filter_map(|data_type| match data_type {
        DataType::Timestamp(precision, _) => Some(*precision),
        _ => None,
    });
    let named = precisions.try_fold(0, |before, precision| Some(before.max(precision?)))?;
    Some(if digits > named { named.max(TIME_DIGITS) } else { named })
}

/// Decimal digits of the seconds in a PostgreSQL time without an explicit precision.
const TIME_DIGITS: u64 = 6;

fn digits_of_second(text: &str) -> u64 {
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    fraction.bytes().take_while(u8::is_ascii_digit).map(|_| 1).sum()
}

/// The numeric type with the precision and scale of the number in `text`; `None` if `text` is not a
/// number.
fn numeric_of(text: &str) -> Option<DataType> {
    match numeric_type(text)? {
        ColumnType::Numeric { precision, scale } => Some(DataType::Numeric(
            ExactNumberInfo::PrecisionAndScale(u64::from(precision), i64::from(scale)),
        )),
        _ => None,
    }
}

/// The text of a literal without a type.
fn text_of(cell: &Expr) -> Option<&str> {
    match cell {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        Expr::Nested(inner) => text_of(inner),
        _ => None,
    }
}

/// The type that a cell names by a cast or a typed constant (`date '…'`); `None` for other cells.
fn named_type(cell: &Expr) -> Option<&DataType> {
    const INTERVAL: &DataType = &DataType::Interval { fields: None, precision: None };
    const NUMERIC: &DataType = &DataType::Numeric(ExactNumberInfo::None);
    match cell {
        Expr::Cast { data_type, .. } => Some(data_type),
        Expr::TypedString(typed) => Some(&typed.data_type),
        Expr::Interval(_) => Some(INTERVAL),
        Expr::Value(ValueWithSpan { value: Value::Boolean(_), .. }) => Some(&DataType::Boolean),
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. })
            if digits.contains(['.', 'e', 'E'])
                || digits.bytes().all(|byte| byte.is_ascii_digit())
                    && digits.parse::<i64>().is_err() =>
        {
            Some(NUMERIC)
        }
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => named_type(inner),
        _ => None,
    }
}

/// The rank of a time type in PostgreSQL's implicit casts, from the narrowest; 0 for other types.
fn time_rank(data_type: &DataType) -> u8 {
    match data_type {
        DataType::Date => 1,
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => 2,
        DataType::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => 3,
        _ => 0,
    }
}

/// The rank of a number type in PostgreSQL's implicit casts, from the narrowest; 0 for other types.
fn number_rank(data_type: &DataType) -> u8 {
    match data_type {
        DataType::SmallInt(_) | DataType::Int2(_) => 1,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => 2,
        DataType::BigInt(_) | DataType::Int8(_) => 3,
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => 4,
        DataType::Real | DataType::Float4 | DataType::Float(ExactNumberInfo::Precision(1..=24)) => {
            5
        }
        DataType::DoublePrecision | DataType::Double(_) | DataType::Float8 | DataType::Float(_) => {
            6
        }
        _ => 0,
    }
}

fn is_floating(data_type: &DataType) -> bool {
    number_rank(data_type) >= 5
}

/// True for a quoted constant or NULL. A NULL needs a cast, because some types, for example uuid,
/// have metadata that the planner would not give the NULL.
fn is_untyped(cell: &Expr) -> bool {
    match cell {
        Expr::Value(ValueWithSpan { value, .. }) => {
            matches!(value, Value::SingleQuotedString(_) | Value::Null)
        }
        Expr::Nested(inner) => is_untyped(inner),
        _ => false,
    }
}

fn is_number(cell: &Expr) -> bool {
    match cell {
        Expr::Value(ValueWithSpan { value: Value::Number(_, _), .. }) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_number(expr),
        _ => false,
    }
}
