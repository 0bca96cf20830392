//! How Parquet stores each column type. Every Parquet reader knows these forms.
//!
//! ```text
//!   timestamp(0), timestamptz(0)   TIMESTAMP(MILLIS): Parquet has no seconds
//!   interval                       group of months INT32, days INT32, nanoseconds INT64
//!   uuid                           FIXED_LEN_BYTE_ARRAY(16) UUID
//!   jsonb                          STRING: not every reader converts JSON to text
//!   numeric(p, s)                  INT32 up to 9 digits, INT64 up to 18, bytes above
//!   element[]                      LIST of optional elements
//! ```
//! All other types are types of Parquet. Decoded values are identical to the original values.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray,
        StructArray, TimestampMillisecondArray, TimestampSecondArray,
    },
    datatypes::{
        DataType, Field, Fields, Int32Type, Int64Type, IntervalMonthDayNano,
        IntervalMonthDayNanoType, TimeUnit as ArrowTimeUnit, TimestampMillisecondType,
        TimestampSecondType,
    },
};
use parquet::{
    basic::{LogicalType, Repetition, TimeUnit, Type as Physical},
    errors::ParquetError,
    schema::types::Type,
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};

use crate::schema::repetition;

const SECOND_MS: i64 = 1000;

/// The Arrow type in which a column is handed to Parquet.
pub(crate) fn stored_type(column_type: &ColumnType) -> DataType {
    match column_type {
        ColumnType::Timestamp { precision: 0 } => {
            DataType::Timestamp(ArrowTimeUnit::Millisecond, None)
        }
        ColumnType::TimestampTz { precision: 0 } => {
            DataType::Timestamp(ArrowTimeUnit::Millisecond, Some(Arc::from("UTC")))
        }
        ColumnType::Interval => DataType::Struct(interval_fields()),
        ColumnType::Array(element) => {
            DataType::List(Arc::new(Field::new("element", stored_type(element), true)))
        }
        other => other.arrow_type(),
    }
}

/// The Parquet schema of a column.
pub(crate) fn parquet_type(
    name: &str,
    column_type: &ColumnType,
    nullable: bool,
    id: Option<i32>,
) -> Result<Type> {
    let repetition = repetition(nullable);
    let group = |fields: Vec<Type>, logical: Option<LogicalType>| {
        Type::group_type_builder(name)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .with_id(id)
            .with_fields(fields.into_iter().map(Arc::new).collect())
            .build()
            .map_err(defect)
    };
    match column_type {
        ColumnType::Interval => {
            let part = |name, physical| {
                let part = Type::primitive_type_builder(name, physical);
                part.with_repetition(Repetition::REQUIRED).build().map_err(defect)
            };
            let parts = vec![
                part("months", Physical::INT32)?,
                part("days", Physical::INT32)?,
                part("nanoseconds", Physical::INT64)?,
            ];
            group(parts, None)
        }
        ColumnType::Array(element) => {
            let element = parquet_type("element", element, true, None)?;
            let list = Type::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![Arc::new(element)])
                .build()
                .map_err(defect)?;
            group(vec![list], Some(LogicalType::List))
        }
        _ => primitive(name, column_type, repetition, id),
    }
}

fn primitive(
    name: &str,
    column_type: &ColumnType,
    repetition: Repetition,
    id: Option<i32>,
) -> Result<Type> {
    debug_assert!(column_type.validate().is_ok(), "no valid type");
    let (mut precision_digits, mut scale_digits, mut length) = (-1, -1, -1);
    let timestamp = |precision: u8, utc: bool| LogicalType::timestamp(utc, time_unit(precision));
    let (physical, logical) = match column_type {
        ColumnType::Boolean => (Physical::BOOLEAN, None),
        ColumnType::SmallInt => (Physical::INT32, Some(LogicalType::integer(16, true))),
        ColumnType::Integer => (Physical::INT32, None),
        ColumnType::BigInt => (Physical::INT64, None),
        ColumnType::Real => (Physical::FLOAT, None),
        ColumnType::Double => (Physical::DOUBLE, None),
        ColumnType::Numeric { precision, scale } => {
            (precision_digits, scale_digits) = (i32::from(*precision), i32::from(*scale));
            let physical = match precision {
                0..=9 => Physical::INT32,
                10..=18 => Physical::INT64,
                _ => {
                    length = decimal_bytes(*precision);
                    Physical::FIXED_LEN_BYTE_ARRAY
                }
            };
            (physical, Some(LogicalType::decimal(scale_digits, precision_digits)))
        }
        ColumnType::Text | ColumnType::Jsonb => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnType::Bytea => (Physical::BYTE_ARRAY, None),
        ColumnType::Timestamp { precision } => {
            (Physical::INT64, Some(timestamp(*precision, false)))
        }
        ColumnType::TimestampTz { precision } => {
            (Physical::INT64, Some(timestamp(*precision, true)))
        }
        ColumnType::Date => (Physical::INT32, Some(LogicalType::Date)),
        ColumnType::Time => (Physical::INT64, Some(LogicalType::time(false, TimeUnit::MICROS))),
        ColumnType::Uuid => {
            length = 16;
            (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid))
        }
        ColumnType::Interval | ColumnType::Array(_) => {
            return Err(Error::internal(format!("{column_type} is no single value to Parquet")));
        }
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .with_length(length)
        .with_precision(precision_digits)
        .with_scale(scale_digits)
        .with_id(id)
        .build()
        .map_err(defect)
}

/// Converts an array to the Arrow type of the column; decodes a dictionary.
///
/// # Errors
/// `DatatypeMismatch` if the array has a different type.
pub(crate) fn plain(array: &ArrayRef, column_type: &ColumnType) -> Result<ArrayRef> {
    let wanted = column_type.arrow_type();
    if array.data_type() == &wanted {
        return Ok(Arc::clone(array));
    }
    match array.data_type() {
        DataType::Dictionary(_, value) => {
            let plain = arrow::compute::cast(array, value)?;
            Ok(arrow::compute::cast(&plain, &wanted)?)
        }
        other => Err(Error::new(
            ErrorKind::DatatypeMismatch,
            format!("a column of {column_type} comes as {other}"),
        )),
    }
}

/// Converts an array of the column's Arrow type to the type that Parquet stores.
///
/// # Errors
/// `DatetimeOverflow` for a timestamp(0) that is too large for milliseconds.
pub(crate) fn to_stored(array: &ArrayRef, column_type: &ColumnType) -> Result<ArrayRef> {
    debug_assert_eq!(array.data_type(), &column_type.arrow_type(), "values of another type");
    let stored: ArrayRef = match column_type {
        ColumnType::Timestamp { precision: 0 } | ColumnType::TimestampTz { precision: 0 } => {
            let seconds = array.as_primitive::<TimestampSecondType>();
            let zone = zone_of(&stored_type(column_type));
            let ms: TimestampMillisecondArray = seconds.try_unary(milliseconds)?;
            Arc::new(ms.with_timezone_opt(zone))
        }
        ColumnType::Interval => {
            let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
            let parts = |of: fn(&IntervalMonthDayNano) -> i32| -> ArrayRef {
                Arc::new(Int32Array::from_iter_values(intervals.values().iter().map(of)))
            };
            let nanoseconds = intervals.values().iter().map(|value| value.nanoseconds);
            Arc::new(StructArray::new(
                interval_fields(),
                vec![
                    parts(|value| value.months),
                    parts(|value| value.days),
                    Arc::new(Int64Array::from_iter_values(nanoseconds)),
                ],
                intervals.nulls().cloned(),
            ))
        }
        ColumnType::Array(element) => {
            let lists = array.as_list::<i32>();
            let field = Arc::new(Field::new("element", stored_type(element), true));
            let values = to_stored(lists.values(), element)?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Arc::new(ListArray::new(field, offsets, values, nulls))
        }
        _ => Arc::clone(array),
    };
    debug_assert_eq!(stored.data_type(), &stored_type(column_type), "a form of another type");
    debug_assert_eq!(stored.len(), array.len(), "values are lost in the stored form");
    Ok(stored)
}

/// Converts an array read from Parquet back to the column's Arrow type.
///
/// # Errors
/// `DataCorrupted` if the array has a different type.
pub(crate) fn from_stored(array: &ArrayRef, column_type: &ColumnType) -> Result<ArrayRef> {
    if array.data_type() != &stored_type(column_type) {
        return Err(Error::new(
            ErrorKind::DataCorrupted,
            format!("a column of {column_type} is stored as {}", array.data_type()),
        ));
    }
    let values: ArrayRef = match column_type {
        ColumnType::Timestamp { precision: 0 } | ColumnType::TimestampTz { precision: 0 } => {
            let zone = zone_of(&column_type.arrow_type());
            let ms = array.as_primitive::<TimestampMillisecondType>();
            let seconds: TimestampSecondArray = ms.unary(seconds);
            Arc::new(seconds.with_timezone_opt(zone))
        }
        ColumnType::Interval => {
            let parts = array.as_struct();
            let [months, days, nanoseconds] = parts.columns() else {
                return Err(Error::internal("an interval has three parts"));
            };
            let values = months
                .as_primitive::<Int32Type>()
                .values()
                .iter()
                .zip(days.as_primitive::<Int32Type>().values())
                .zip(nanoseconds.as_primitive::<Int64Type>().values())
                .map(|((months, days), nanoseconds)| {
                    IntervalMonthDayNano::new(*months, *days, *nanoseconds)
                });
            let values = values.collect::<Vec<_>>().into();
            Arc::new(IntervalMonthDayNanoArray::new(values, parts.nulls().cloned()))
        }
        ColumnType::Array(element) => {
            let lists = array.as_list::<i32>();
            let values = from_stored(lists.values(), element)?;
            let field = Arc::new(element.arrow_field("item", true));
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Arc::new(ListArray::new(field, offsets, values, nulls))
        }
        _ => Arc::clone(array),
    };
    debug_assert_eq!(values.data_type(), &column_type.arrow_type(), "values of another type");
    debug_assert_eq!(values.len(), array.len(), "values are lost on the way back");
    Ok(values)
}

/// Converts seconds to milliseconds. The smallest and the largest value represent infinity and stay
/// unchanged.
fn milliseconds(seconds: i64) -> Result<i64> {
    match seconds {
        i64::MIN | i64::MAX => Ok(seconds),
        _ => {
            let ms = seconds.checked_mul(SECOND_MS).ok_or_else(|| {
                Error::new(
                    ErrorKind::DatetimeOverflow,
                    format!("timestamp {seconds} s is out of the range of stories"),
                )
            })?;
            debug_assert_eq!(self::seconds(ms), seconds, "a timestamp does not come back");
            Ok(ms)
        }
    }
}

/// Converts stored milliseconds to seconds. The smallest and the largest value represent infinity
/// and stay unchanged.
pub(crate) fn seconds(milliseconds: i64) -> i64 {
    match milliseconds {
        i64::MIN | i64::MAX => milliseconds,
        _ => milliseconds.div_euclid(SECOND_MS),
    }
}

fn zone_of(data_type: &DataType) -> Option<Arc<str>> {
    match data_type {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    }
}

fn time_unit(precision: u8) -> TimeUnit {
    debug_assert!(matches!(precision, 0 | 3 | 6 | 9), "no unit has this precision");
    match precision {
        0 | 3 => TimeUnit::MILLIS,
        6 => TimeUnit::MICROS,
        _ => TimeUnit::NANOS,
    }
}

fn interval_fields() -> Fields {
    Fields::from(vec![
        Field::new("months", DataType::Int32, false),
        Field::new("days", DataType::Int32, false),
        Field::new("nanoseconds", DataType::Int64, false),
    ])
}

/// Bytes that a two's complement number with `precision` decimal digits needs.
fn decimal_bytes(precision: u8) -> i32 {
    debug_assert!((1..=38).contains(&precision), "no number has so many digits");
    let largest = 10_u128.checked_pow(u32::from(precision)).unwrap_or(u128::MAX) - 1;
    let bits = u128::BITS - largest.leading_zeros() + 1;
    debug_assert!(bits <= u128::BITS, "the number does not fit");
    bits.div_ceil(8).cast_signed()
}

fn defect(error: ParquetError) -> Error {
    Error::internal(format!("a column cannot be described to Parquet: {error}"))
}
