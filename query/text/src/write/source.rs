//! Converts the values of one Arrow array to text. The array is downcast once.

use arrow::{
    array::{
        Array, AsArray, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray,
        LargeBinaryArray, LargeStringArray, PrimitiveArray, StringArray, StringViewArray,
    },
    buffer::NullBuffer,
    datatypes::{
        ArrowDictionaryKeyType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type,
        Decimal128Type, Decimal256Type, DurationMicrosecondType, DurationMillisecondType,
        DurationNanosecondType, DurationSecondType, Field, Float16Type, Float32Type, Float64Type,
        Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType,
        IntervalUnit, IntervalYearMonthType, Time32MillisecondType, Time32SecondType,
        Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
        UInt16Type, UInt32Type, UInt64Type,
    },
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result, types::PG_TYPE_METADATA};

use super::extents::Extents;
use super::{
    datetime::{write_date, write_time, write_timestamp},
    interval::{Interval, write_interval},
    number::{write_decimal, write_decimal_text, write_double, write_integer, write_real},
    write_bytea, write_element, write_uuid,
};
use crate::{
    TextStyle,
    calendar::{DAY_SECONDS, SECOND_NS, per_second},
};

/// An Arrow array, downcast to its concrete type, with the conversion of its values to text.
#[derive(Debug)]
pub(super) struct Source<'a> {
    nulls: Option<&'a NullBuffer>,
    kind: SourceKind<'a>,
}

#[derive(Debug)]
enum SourceKind<'a> {
    Null,
    Boolean(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float16(&'a PrimitiveArray<Float16Type>),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Decimal32(&'a [i32], i8),
    Decimal64(&'a [i64], i8),
    Decimal128(&'a [i128], i8),
    Decimal256(&'a PrimitiveArray<Decimal256Type>, i8),
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
    FixedBinary(&'a FixedSizeBinaryArray),
    Uuid(&'a FixedSizeBinaryArray),
    Timestamp {
        values: &'a [i64],
        per_second: i64,
        zoned: bool,
    },
    Date32(&'a [i32]),
    Date64(&'a [i64]),
    Time32 {
        values: &'a [i32],
        per_second: i64,
    },
    Time64 {
        values: &'a [i64],
        per_second: i64,
    },
    YearMonth(&'a [i32]),
    DayTime(&'a PrimitiveArray<IntervalDayTimeType>),
    MonthDayNano(&'a PrimitiveArray<IntervalMonthDayNanoType>),
    Duration {
        values: &'a [i64],
        per_second: i64,
    },
    List {
        extents: Extents<'a>,
        child: Box<Source<'a>>,
    },
    /// A vector type of PostgreSQL's catalogs, such as `int2vector`. Its text is a list of numbers,
    /// separated by spaces.
    Vector {
        extents: Extents<'a>,
        child: Box<Source<'a>>,
    },
    Mapped {
        keys: Keys<'a>,
        values: Box<Source<'a>>,
    },
}

/// Finds the value of a row: the keys of a dictionary array, or the run ends of a run-end encoded
/// array.
#[derive(Debug)]
enum Keys<'a> {
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Runs(&'a dyn Array),
}

impl Keys<'_> {
    fn of(&self, row: usize) -> usize {
        macro_rules! key {
            ($keys:expr) => {
                $keys.get(row).and_then(|key| usize::try_from(*key).ok()).unwrap_or(0)
            };
        }
        match self {
            Self::Int8(keys) => key!(keys),
            Self::Int16(keys) => key!(keys),
            Self::Int32(keys) => key!(keys),
            Self::Int64(keys) => key!(keys),
            Self::UInt8(keys) => key!(keys),
            Self::UInt16(keys) => key!(keys),
            Self::UInt32(keys) => key!(keys),
            Self::UInt64(keys) => key!(keys),
            Self::Runs(array) => {
                if let Some(runs) = array.as_run_opt::<Int16Type>() {
                    runs.get_physical_index(row)
                } else if let Some(runs) = array.as_run_opt::<Int32Type>() {
                    runs.get_physical_index(row)
                } else if let Some(runs) = array.as_run_opt::<Int64Type>() {
                    runs.get_physical_index(row)
                } else {
                    0
                }
            }
        }
    }
}

/// Splits a time into whole seconds, rounded down, and the remaining nanoseconds. `value` counts
/// units; `per_second` is the number of units in a second.
#[inline]
fn split(value: i64, per_second: i64) -> (i64, u32) {
    let nanos = value.rem_euclid(per_second) * (SECOND_NS / per_second);
    (value.div_euclid(per_second), u32::try_from(nanos).unwrap_or(0))
}

/// The SQL name of a field's type, for error messages. A struct field has the name `record`.
pub fn type_name(field: &Field) -> String {
    match (ColumnType::from_arrow_field(field), field.data_type()) {
        (Some(known), _) => known.to_string(),
        (None, DataType::List(element) | DataType::LargeList(element)) => {
            format!("{}[]", type_name(element))
        }
        (None, _) => "record".to_string(),
    }
}

impl<'a> Source<'a> {
    pub(super) fn new(array: &'a dyn Array, field: &Field) -> Result<Self> {
        let unsupported = || {
            Error::new(
                ErrorKind::FeatureNotSupported,
                format!(
                    "column \"{}\" has type {}, which has no text form",
                    field.name(),
                    type_name(field)
                ),
            )
            .with_hint("cast the column to an SQL type, or select its fields separately")
        };
        let uuid = ColumnType::from_arrow_field(field) == Some(ColumnType::Uuid);
        let kind = match array.data_type() {
            DataType::Null => SourceKind::Null,
            DataType::Boolean => SourceKind::Boolean(array.as_boolean()),
            DataType::Int8 => SourceKind::Int8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => SourceKind::Int16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => SourceKind::Int32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => SourceKind::Int64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt8 => SourceKind::UInt8(array.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => SourceKind::UInt16(array.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => SourceKind::UInt32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => SourceKind::UInt64(array.as_primitive::<UInt64Type>().values()),
            DataType::Float16 => SourceKind::Float16(array.as_primitive::<Float16Type>()),
            DataType::Float32 => SourceKind::Float32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => SourceKind::Float64(array.as_primitive::<Float64Type>().values()),
            DataType::Decimal32(_, scale) => {
                SourceKind::Decimal32(array.as_primitive::<Decimal32Type>().values(), *scale)
            }
            DataType::Decimal64(_, scale) => {
                SourceKind::Decimal64(array.as_primitive::<Decimal64Type>().values(), *scale)
            }
            DataType::Decimal128(_, scale) => {
                SourceKind::Decimal128(array.as_primitive::<Decimal128Type>().values(), *scale)
            }
            DataType::Decimal256(_, scale) => {
                SourceKind::Decimal256(array.as_primitive::<Decimal256Type>(), *scale)
            }
            DataType::Utf8 => SourceKind::Utf8(array.as_string()),
            DataType::LargeUtf8 => SourceKind::LargeUtf8(array.as_string()),
            DataType::Utf8View => SourceKind::Utf8View(array.as_string_view()),
            DataType::Binary => SourceKind::Binary(array.as_binary()),
            DataType::LargeBinary => SourceKind::LargeBinary(array.as_binary()),
            DataType::BinaryView => SourceKind::BinaryView(array.as_binary_view()),
            DataType::FixedSizeBinary(_) if uuid => SourceKind::Uuid(array.as_fixed_size_binary()),
            DataType::FixedSizeBinary(_) => SourceKind::FixedBinary(array.as_fixed_size_binary()),
            DataType::Timestamp(unit, zone) => SourceKind::Timestamp {
                values: match unit {
                    TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
                    TimeUnit::Millisecond => {
                        array.as_primitive::<TimestampMillisecondType>().values()
                    }
                    TimeUnit::Microsecond => {
                        array.as_primitive::<TimestampMicrosecondType>().values()
                    }
                    TimeUnit::Nanosecond => {
                        array.as_primitive::<TimestampNanosecondType>().values()
                    }
                },
                per_second: per_second(*unit),
                zoned: zone.is_some(),
            },
            DataType::Date32 => SourceKind::Date32(array.as_primitive::<Date32Type>().values()),
            DataType::Date64 => SourceKind::Date64(array.as_primitive::<Date64Type>().values()),
            DataType::Time32(unit) => SourceKind::Time32 {
                values: match unit {
                    TimeUnit::Second => array.as_primitive::<Time32SecondType>().values(),
                    _ => array.as_primitive::<Time32MillisecondType>().values(),
                },
                per_second: per_second(*unit),
            },
            DataType::Time64(unit) => SourceKind::Time64 {
                values: match unit {
                    TimeUnit::Microsecond => array.as_primitive::<Time64MicrosecondType>().values(),
                    _ => array.as_primitive::<Time64NanosecondType>().values(),
                },
                per_second: per_second(*unit),
            },
            DataType::Interval(IntervalUnit::YearMonth) => {
                SourceKind::YearMonth(array.as_primitive::<IntervalYearMonthType>().values())
            }
            DataType::Interval(IntervalUnit::DayTime) => SourceKind::DayTime(array.as_primitive()),
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                SourceKind::MonthDayNano(array.as_primitive())
            }
            DataType::Duration(unit) => SourceKind::Duration {
                values: match unit {
                    TimeUnit::Second => array.as_primitive::<DurationSecondType>().values(),
                    TimeUnit::Millisecond => {
                        array.as_primitive::<DurationMillisecondType>().values()
                    }
                    TimeUnit::Microsecond => {
                        array.as_primitive::<DurationMicrosecondType>().values()
                    }
                    TimeUnit::Nanosecond => array.as_primitive::<DurationNanosecondType>().values(),
                },
                per_second: per_second(*unit),
            },
            DataType::List(item) => {
                let list = array.as_list::<i32>();
                let extents = Extents::Offsets32(list.value_offsets());
                let child = Box::new(Self::new(list.values(), item)?);
                match field.metadata().get(PG_TYPE_METADATA).map(String::as_str) {
                    Some("int2vector" | "oidvector") => SourceKind::Vector { extents, child },
                    _ => SourceKind::List { extents, child },
                }
            }
            DataType::LargeList(item) => {
                let list = array.as_list::<i64>();
                SourceKind::List {
                    extents: Extents::Offsets64(list.value_offsets()),
                    child: Box::new(Self::new(list.values(), item)?),
                }
            }
            DataType::ListView(item) => {
                let list = array.as_list_view::<i32>();
                SourceKind::List {
                    extents: Extents::Views32(list.value_offsets(), list.value_sizes()),
                    child: Box::new(Self::new(list.values(), item)?),
                }
            }
            DataType::LargeListView(item) => {
                let list = array.as_list_view::<i64>();
                SourceKind::List {
                    extents: Extents::Views64(list.value_offsets(), list.value_sizes()),
                    child: Box::new(Self::new(list.values(), item)?),
                }
            }
            DataType::FixedSizeList(item, size) => {
                let list = array.as_fixed_size_list();
                SourceKind::List {
                    extents: Extents::Fixed(usize::try_from(*size).unwrap_or(0)),
                    child: Box::new(Self::new(list.values(), item)?),
                }
            }
            DataType::Dictionary(key, value) => {
                let value_field = Field::new(field.name(), value.as_ref().clone(), true)
                    .with_metadata(field.metadata().clone());
                let dictionary = array.as_any_dictionary();
                let keys = dictionary.keys();
                SourceKind::Mapped {
                    keys: match key.as_ref() {
                        DataType::Int8 => Keys::Int8(native::<Int8Type>(keys)),
                        DataType::Int16 => Keys::Int16(native::<Int16Type>(keys)),
                        DataType::Int32 => Keys::Int32(native::<Int32Type>(keys)),
                        DataType::Int64 => Keys::Int64(native::<Int64Type>(keys)),
                        DataType::UInt8 => Keys::UInt8(native::<UInt8Type>(keys)),
                        DataType::UInt16 => Keys::UInt16(native::<UInt16Type>(keys)),
                        DataType::UInt32 => Keys::UInt32(native::<UInt32Type>(keys)),
                        DataType::UInt64 => Keys::UInt64(native::<UInt64Type>(keys)),
                        _ => return Err(unsupported()),
                    },
                    values: Box::new(Self::new(dictionary.values().as_ref(), &value_field)?),
                }
            }
            DataType::RunEndEncoded(_, value) => {
                let values = if let Some(runs) = array.as_run_opt::<Int16Type>() {
                    runs.values()
                } else if let Some(runs) = array.as_run_opt::<Int32Type>() {
                    runs.values()
                } else if let Some(runs) = array.as_run_opt::<Int64Type>() {
                    runs.values()
                } else {
                    return Err(unsupported());
                };
                SourceKind::Mapped {
                    keys: Keys::Runs(array),
                    values: Box::new(Self::new(values.as_ref(), value)?),
                }
            }
            _ => return Err(unsupported()),
        };
        Ok(Self { nulls: array.nulls(), kind })
    }

    #[inline]
    pub(super) fn is_null(&self, row: usize) -> bool {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return true;
        }
        match &self.kind {
            SourceKind::Null => true,
            SourceKind::Mapped { keys, values } => values.is_null(keys.of(row)),
            _ => false,
        }
    }

    pub(super) fn write(&self, row: usize, style: &TextStyle, out: &mut Vec<u8>) {
        macro_rules! integer {
            ($values:expr) => {
                write_integer($values.get(row).copied().unwrap_or_default(), out)
            };
        }
        macro_rules! value {
            ($values:expr) => {
                $values.get(row).copied().unwrap_or_default()
            };
        }
        match &self.kind {
            SourceKind::Null => {}
            SourceKind::Boolean(array) => out.push(if array.value(row) { b't' } else { b'f' }),
            SourceKind::Int8(values) => integer!(values),
            SourceKind::Int16(values) => integer!(values),
            SourceKind::Int32(values) => integer!(values),
            SourceKind::Int64(values) => integer!(values),
            SourceKind::UInt8(values) => integer!(values),
            SourceKind::UInt16(values) => integer!(values),
            SourceKind::UInt32(values) => integer!(values),
            SourceKind::UInt64(values) => integer!(values),
            SourceKind::Float16(array) => {
                write_real(array.value(row).to_f32(), style.extra_float_digits, out);
            }
            SourceKind::Float32(values) => {
                write_real(value!(values), style.extra_float_digits, out)
            }
            SourceKind::Float64(values) => {
                write_double(value!(values), style.extra_float_digits, out)
            }
            SourceKind::Decimal32(values, scale) => {
                write_decimal(i128::from(value!(values)), *scale, out);
            }
            SourceKind::Decimal64(values, scale) => {
                write_decimal(i128::from(value!(values)), *scale, out);
            }
            SourceKind::Decimal128(values, scale) => write_decimal(value!(values), *scale, out),
            SourceKind::Decimal256(array, scale) => {
                write_decimal_text(&array.value(row).to_string(), *scale, out);
            }
            SourceKind::Utf8(array) => out.extend_from_slice(array.value(row).as_bytes()),
            SourceKind::LargeUtf8(array) => out.extend_from_slice(array.value(row).as_bytes()),
            SourceKind::Utf8View(array) => out.extend_from_slice(array.value(row).as_bytes()),
            SourceKind::Binary(array) => write_bytea(array.value(row), style.bytea_output, out),
            SourceKind::LargeBinary(array) => {
                write_bytea(array.value(row), style.bytea_output, out)
            }
            SourceKind::BinaryView(array) => write_bytea(array.value(row), style.bytea_output, out),
            SourceKind::FixedBinary(array) => {
                write_bytea(array.value(row), style.bytea_output, out)
            }
            SourceKind::Uuid(array) => write_uuid(array.value(row), out),
            SourceKind::Timestamp { values, per_second, zoned } => {
                let (seconds, nanos) = split(value!(values), *per_second);
                let nanos = style.fraction(nanos);
                if *zoned {
                    let offset = style.time_zone.offset_at(seconds);
                    let local = seconds.saturating_add(i64::from(offset));
                    write_timestamp(local, nanos, Some(offset), out);
                } else {
                    write_timestamp(seconds, nanos, None, out);
                }
            }
            SourceKind::Date32(values) => write_date(i64::from(value!(values)), out),
            SourceKind::Date64(values) => {
                write_date(value!(values).div_euclid(DAY_SECONDS * 1_000), out);
            }
            SourceKind::Time32 { values, per_second } => {
                let (seconds, nanos) = split(i64::from(value!(values)), *per_second);
                write_time(seconds, style.fraction(nanos), out);
            }
            SourceKind::Time64 { values, per_second } => {
                let (seconds, nanos) = split(value!(values), *per_second);
                write_time(seconds, style.fraction(nanos), out);
            }
            SourceKind::YearMonth(values) => {
                let interval = Interval { months: value!(values), ..Interval::default() };
                write_interval(interval, style.interval_style, out);
            }
            SourceKind::DayTime(array) => {
                let value = array.value(row);
                let nanos = i128::from(value.milliseconds) * 1_000_000;
                let interval = Interval { months: 0, days: value.days, nanos };
                write_interval(interval, style.interval_style, out);
            }
            SourceKind::MonthDayNano(array) => {
                let value = array.value(row);
                let nanos = style.interval_fraction(i128::from(value.nanoseconds));
                let interval = Interval { months: value.months, days: value.days, nanos };
                write_interval(interval, style.interval_style, out);
            }
            SourceKind::Duration { values, per_second } => {
                let value = value!(values);
                let per_day = per_second * 86_400;
                // The number of days fits 32 bits, because it is smaller than the number of seconds
                // in an i64.
                let days = i32::try_from(value / per_day).unwrap_or(i32::MAX);
                let rest = i128::from(value) - i128::from(days) * i128::from(per_day);
                let nanos = style.interval_fraction(rest * i128::from(SECOND_NS / per_second));
                write_interval(Interval { months: 0, days, nanos }, style.interval_style, out);
            }
            SourceKind::List { extents, child } => child.write_list(extents.of(row), style, out),
            SourceKind::Vector { extents, child } => {
                for (at, row) in extents.of(row).enumerate() {
                    if at > 0 {
                        out.push(b' ');
                    }
                    child.write(row, style, out);
                }
            }
            SourceKind::Mapped { keys, values } => values.write(keys.of(row), style, out),
        }
    }

    fn write_list(&self, rows: std::ops::Range<usize>, style: &TextStyle, out: &mut Vec<u8>) {
        let nested = matches!(self.kind, SourceKind::List { .. });
        let mut element = Vec::new();
        out.push(b'{');
        let first = rows.start;
        for row in rows {
            if row > first {
                out.push(b',');
            }
            if self.is_null(row) {
                out.extend_from_slice(b"NULL");
            } else if nested {
                self.write(row, style, out);
            } else {
                element.clear();
                self.write(row, style, &mut element);
                write_element(&element, out);
            }
        }
        out.push(b'}');
    }
}

fn native<K: ArrowDictionaryKeyType>(keys: &dyn Array) -> &[K::Native] {
    keys.as_primitive::<K>().values()
}
