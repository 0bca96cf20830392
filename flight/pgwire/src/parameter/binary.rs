//! Decodes parameters in binary format.

use std::sync::Arc;

use arrow::{
    array::{Array, ListArray, new_empty_array},
    buffer::OffsetBuffer,
    datatypes::{DataType, IntervalMonthDayNano, TimeUnit},
};
use bytes::{Buf, Bytes};
use datafusion::common::ScalarValue;
use stratalog_model::{ColumnType, Error, ErrorKind, Result, types::NUMERIC_PRECISION_MAX};
use stratalog_text::{
    TextStyle,
    calendar::{DAY_NS, POSTGRES_EPOCH_DAYS},
    normalize_jsonb,
};

use crate::{
    encode::POSTGRES_EPOCH_MICROS,
    encoding::invalid_encoding,
    types::{element_of, oid},
};

fn invalid(what: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::InvalidBinaryRepresentation,
        format!("incorrect binary data format of a value of type {what}"),
    )
}

fn fixed<const N: usize>(bytes: &[u8], what: &ColumnType) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| invalid(what))
}

fn text(bytes: &[u8]) -> Result<&str> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        Ok(_) => Err(invalid_encoding(b"\0")),
        Err(_) => Err(invalid_encoding(bytes)),
    }
}

/// Creates a timestamp scalar. `units` is the time since 1970 in units of `unit_ns` nanoseconds.
pub(super) fn timestamp(units: i64, unit_ns: i64, zoned: bool) -> ScalarValue {
    let zone = zoned.then(|| Arc::from("UTC"));
    match unit_ns {
        1 => ScalarValue::TimestampNanosecond(Some(units), zone),
        1_000 => ScalarValue::TimestampMicrosecond(Some(units), zone),
        1_000_000 => ScalarValue::TimestampMillisecond(Some(units), zone),
        _ => ScalarValue::TimestampSecond(Some(units), zone),
    }
}

/// Decodes a binary value into the Arrow type of `source`. `wire` is the object id of the value's
/// type.
pub(super) fn decode(
    bytes: &Bytes,
    wire: u32,
    source: &ColumnType,
    style: &TextStyle,
) -> Result<ScalarValue> {
    Ok(match source {
        ColumnType::Boolean => {
            let [value] = fixed(bytes, source)?;
            ScalarValue::Boolean(Some(value != 0))
        }
        ColumnType::SmallInt => ScalarValue::Int16(Some(i16::from_be_bytes(fixed(bytes, source)?))),
        ColumnType::Integer => ScalarValue::Int32(Some(i32::from_be_bytes(fixed(bytes, source)?))),
        ColumnType::BigInt if wire == oid::OID => {
            let id = u32::from_be_bytes(fixed(bytes, source)?);
            ScalarValue::Int64(Some(i64::from(id)))
        }
        ColumnType::BigInt => ScalarValue::Int64(Some(i64::from_be_bytes(fixed(bytes, source)?))),
        ColumnType::Real => ScalarValue::Float32(Some(f32::from_be_bytes(fixed(bytes, source)?))),
        ColumnType::Double => ScalarValue::Float64(Some(f64::from_be_bytes(fixed(bytes, source)?))),
        ColumnType::Numeric { .. } => {
            return super::from_text(&numeric_text(bytes)?, source, style);
        }
        ColumnType::Text => ScalarValue::Utf8View(Some(text(bytes)?.to_string())),
        ColumnType::Jsonb => {
            let json = if wire == oid::JSONB {
                match bytes.split_first() {
                    Some((1, json)) => json,
                    _ => return Err(invalid("jsonb")),
                }
            } else {
                bytes.as_ref()
            };
            ScalarValue::Utf8View(Some(normalize_jsonb(text(json)?)?))
        }
        ColumnType::Bytea => ScalarValue::Binary(Some(bytes.to_vec())),
        ColumnType::Timestamp { .. } | ColumnType::TimestampTz { .. } => {
            let micros = i64::from_be_bytes(fixed(bytes, source)?);
            if micros == i64::MAX || micros == i64::MIN {
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    format!("{source} cannot hold infinity"),
                ));
            }
            let unit_ns = source.timestamp_unit_ns().unwrap_or(1);
            let range = || Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range");
            let micros = micros.checked_add(POSTGRES_EPOCH_MICROS).ok_or_else(range)?;
            let (units, unit_ns) = if unit_ns <= 1_000 {
                match micros.checked_mul(1_000 / unit_ns) {
                    Some(units) => (units, unit_ns),
                    None => (micros, 1_000),
                }
            } else {
                // Rounds half up, as the text format does.
                let unit_micros = unit_ns / 1_000;
                (micros.saturating_add(unit_micros / 2).div_euclid(unit_micros), unit_ns)
            };
            timestamp(units, unit_ns, matches!(source, ColumnType::TimestampTz { .. }))
        }
        ColumnType::Date => {
            let days = i32::from_be_bytes(fixed(bytes, source)?);
            if days == i32::MAX || days == i32::MIN {
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    "date cannot hold infinity",
                ));
            }
            let epoch = i32::try_from(POSTGRES_EPOCH_DAYS).unwrap_or(0);
            let days = days
                .checked_add(epoch)
                .ok_or_else(|| Error::new(ErrorKind::DatetimeOverflow, "date out of range"))?;
            ScalarValue::Date32(Some(days))
        }
        ColumnType::Time => {
            let micros = i64::from_be_bytes(fixed(bytes, source)?);
            if !(0..=DAY_NS / 1_000).contains(&micros) {
                return Err(Error::new(ErrorKind::DatetimeOverflow, "time out of range"));
            }
            ScalarValue::Time64Microsecond(Some(micros))
        }
        ColumnType::Interval => {
            let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = fixed(bytes, source)?;
            let nanos = i64::from_be_bytes([a, b, c, d, e, f, g, h])
                .checked_mul(1_000)
                .ok_or_else(|| Error::new(ErrorKind::DatetimeOverflow, "interval out of range"))?;
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(
                i32::from_be_bytes([m, n, o, p]),
                i32::from_be_bytes([i, j, k, l]),
                nanos,
            )))
        }
        ColumnType::Uuid => {
            let id: [u8; 16] = fixed(bytes, source)?;
            ScalarValue::FixedSizeBinary(16, Some(id.to_vec()))
        }
        ColumnType::Array(element) => array(bytes, wire, element, style)?,
    })
}

fn array(bytes: &Bytes, wire: u32, element: &ColumnType, style: &TextStyle) -> Result<ScalarValue> {
    let broken = || invalid(format_args!("{element}[]"));
    let mut rest = bytes.clone();
    let dimensions = take_i32(&mut rest).ok_or_else(broken)?;
    let _has_nulls = take_i32(&mut rest).ok_or_else(broken)?;
    let element_wire = take_i32(&mut rest).ok_or_else(broken)?;
    if element_of(wire) != u32::try_from(element_wire).ok() {
        return Err(Error::new(
            ErrorKind::DatatypeMismatch,
            format!("wrong element type {element_wire} in an array of {element}"),
        ));
    }
    let element_wire = element_of(wire).unwrap_or(0);
    let mut values = Vec::new();
    match dimensions {
        0 => {}
        1 => {
            let length = take_i32(&mut rest).ok_or_else(broken)?;
            let _lower_bound = take_i32(&mut rest).ok_or_else(broken)?;
            for _ in 0..length {
                let size = take_i32(&mut rest).ok_or_else(broken)?;
                let value = match usize::try_from(size) {
                    Err(_) => None,
                    Ok(size) if size <= rest.len() => Some(rest.split_to(size)),
                    Ok(_) => return Err(broken()),
                };
                values.push(super::decode(value.as_ref(), 1, element_wire, element, style)?);
            }
        }
        _ => {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                "arrays of more than one dimension are not supported",
            ));
        }
    }
    if !rest.is_empty() {
        return Err(broken());
    }
    let length = values.len();
    let failed = |error| Error::internal(format!("an array of {element}: {error}"));
    let widest = values.iter().map(ScalarValue::data_type).fold(element.arrow_type(), wider);
    let child = if values.is_empty() {
        new_empty_array(&widest)
    } else {
        let values: Result<Vec<ScalarValue>> =
            values.iter().map(|value| in_type(value, &widest, element)).collect();
        ScalarValue::iter_to_array(values?).map_err(failed)?
    };
    let field = Arc::new(element.arrow_field("item", true).with_data_type(widest));
    let list = ListArray::try_new(field, OffsetBuffer::from_lengths([length]), child, None)?;
    debug_assert_eq!(list.len(), 1);
    Ok(ScalarValue::List(Arc::new(list)))
}

/// A type that can represent the values of both types. Both are numeric types, or both are
/// timestamp types.
fn wider(one: DataType, other: DataType) -> DataType {
    match (&one, &other) {
        (DataType::Decimal128(precision, scale), DataType::Decimal128(digits, behind)) => {
            let scale = (*scale).max(*behind);
            let whole = |precision: u8, scale: i8| precision.saturating_sub(scale.unsigned_abs());
            let whole = whole(*precision, scale).max(whole(*digits, *behind));
            let precision = whole.saturating_add(scale.unsigned_abs()).min(NUMERIC_PRECISION_MAX);
            DataType::Decimal128(precision, scale)
        }
        (DataType::Timestamp(..), DataType::Timestamp(TimeUnit::Microsecond, _)) => other,
        _ => one,
    }
}

/// Converts an array element to `wanted`, the common type of all elements.
fn in_type(value: &ScalarValue, wanted: &DataType, element: &ColumnType) -> Result<ScalarValue> {
    value.cast_to(wanted).map_err(|_| {
        Error::new(
            ErrorKind::NumericOutOfRange,
            format!("the numbers of an array of {element} have too many digits"),
        )
    })
}

fn take_i32(bytes: &mut Bytes) -> Option<i32> {
    (bytes.len() >= 4).then(|| bytes.get_i32())
}

/// Converts a numeric in binary format to text.
pub(super) fn numeric_text(bytes: &[u8]) -> Result<String> {
    let broken = || invalid("numeric");
    let mut words = bytes.chunks_exact(2).map(|word| match word {
        [a, b] => u16::from_be_bytes([*a, *b]),
        _ => 0,
    });
    let mut next = || words.next().ok_or_else(broken);
    let count = next()?;
    let weight = i32::from(next()?.cast_signed());
    let sign = next()?;
    let scale = usize::from(next()?);
    if bytes.len() != 8 + usize::from(count) * 2 || scale > 16_383 {
        return Err(broken());
    }
    match sign {
        0 | 0x4000 => {}
        0xc000 => return Ok("NaN".to_string()),
        0xd000 => return Ok("Infinity".to_string()),
        0xf000 => return Ok("-Infinity".to_string()),
        _ => return Err(broken()),
    }
    let groups: Vec<u16> = words.collect();
    if groups.iter().any(|group| *group > 9_999) {
        return Err(broken());
    }
    let group_at = |position: i32| {
        usize::try_from(weight - position).ok().and_then(|at| groups.get(at)).copied().unwrap_or(0)
    };
    let mut text = String::new();
    if sign == 0x4000 {
        text.push('-');
    }
    if weight < 0 {
        text.push('0');
    }
    for position in (0..=weight).rev() {
        let group = group_at(position);
        if position == weight {
            text.push_str(&group.to_string());
        } else {
            text.push_str(&format!("{group:04}"));
        }
    }
    if scale > 0 {
        text.push('.');
        let start = text.len();
        let mut position = -1;
        while text.len() < start + scale {
            text.push_str(&format!("{:04}", group_at(position)));
            position -= 1;
        }
        text.truncate(start + scale);
    }
    Ok(text)
}
