//! The parameters of scalar functions, and the casts of arguments to the types of the parameters.

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};

/// The kinds of values that a parameter accepts. The planner casts an argument to the type of the
/// parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// Any value. Only texts are cast, to Arrow's type Utf8View.
    Any,
    /// A text.
    Text,
    /// An integer; cast to Int64.
    Integer,
    /// A number; cast to Float64.
    Double,
    /// True or false.
    Boolean,
    /// An interval.
    Interval,
    /// A timestamp with or without zone, or a date, without a cast. A text is cast to timestamptz.
    Time,
    /// Bytes (bytea).
    Bytes,
    /// A list, without a cast.
    Array,
    /// A numeric, or an integer, which is cast to a numeric without loss.
    Numeric,
    /// Any number of further arguments of any type. Allowed only as the last parameter.
    Rest,
}

/// The types of the arguments after the casts; `None` if the types in `given` do not fit the
/// parameters.
pub(super) fn fit(parameters: &[Parameter], given: &[DataType]) -> Option<Vec<DataType>> {
    let (fixed, rest) = match parameters.split_last() {
        Some((Parameter::Rest, fixed)) => (fixed, true),
        _ => (parameters, false),
    };
    if given.len() < fixed.len() || given.len() > fixed.len() && !rest {
        return None;
    }
    let of = |at: usize| fixed.get(at).copied().unwrap_or(Parameter::Rest);
    given.iter().enumerate().map(|(at, given)| of(at).coerce(given)).collect()
}

impl Parameter {
    /// The type of an argument after the cast; `given` is the type before the cast. `None` if the
    /// argument does not fit.
    fn coerce(self, given: &DataType) -> Option<DataType> {
        let text = matches!(
            given,
            DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null
        );
        match self {
            Parameter::Any | Parameter::Rest => Some(match given {
                DataType::Null | DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
                DataType::Dictionary(_, value) => value.as_ref().clone(),
                other => other.clone(),
            }),
            Parameter::Text => text.then_some(DataType::Utf8View),
            Parameter::Integer => {
                (given.is_integer() || given.is_null()).then_some(DataType::Int64)
            }
            Parameter::Double => {
                (given.is_numeric() || given.is_null()).then_some(DataType::Float64)
            }
            Parameter::Boolean => {
                (*given == DataType::Boolean || given.is_null()).then_some(DataType::Boolean)
            }
            Parameter::Interval => (text || matches!(given, DataType::Interval(_)))
                .then_some(DataType::Interval(IntervalUnit::MonthDayNano)),
            Parameter::Time => match given {
                DataType::Timestamp(_, _) | DataType::Date32 => Some(given.clone()),
                _ if text => {
                    Some(DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))))
                }
                _ => None,
            },
            Parameter::Bytes => match given {
                DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_)
                | DataType::Null => Some(DataType::Binary),
                _ => None,
            },
            Parameter::Array => match given {
                DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => {
                    Some(given.clone())
                }
                DataType::Null => Some(DataType::new_list(DataType::Utf8View, true)),
                _ => None,
            },
            Parameter::Numeric => match given {
                DataType::Decimal128(_, _) => Some(given.clone()),
                DataType::Null => Some(DataType::Decimal128(38, 0)),
                _ => given.is_integer().then_some(DataType::Decimal128(20, 0)),
            },
        }
    }

    /// The name of the parameter's type in the documented signature.
    pub(super) fn name(self) -> &'static str {
        match self {
            Parameter::Any => "any",
            Parameter::Text => "text",
            Parameter::Integer => "bigint",
            Parameter::Double => "double precision",
            Parameter::Boolean => "boolean",
            Parameter::Interval => "interval",
            Parameter::Time => "timestamp",
            Parameter::Bytes => "bytea",
            Parameter::Array => "anyarray",
            Parameter::Numeric => "numeric",
            Parameter::Rest => "variadic any",
        }
    }
}
