//! Decodes the parameters of a Bind message.

mod binary;

use std::sync::Arc;

use arrow::array::AsArray as _;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_text::{
    TextStyle,
    parse::{
        datetime::parse_timestamp,
        number::{exact_type, parse_bigint, parse_double, parse_integer},
        parse_boolean,
    },
    parse_value, write_value,
};

use crate::{
    encoding::invalid_encoding,
    types::{column_type, element_of, oid},
};

/// Decodes the value of a parameter into the Arrow type of `target`. `wire` is the object id of the
/// value's type: the type that the client has declared, or the type of `target`.
///
/// A numeric keeps digits beyond the scale of `target`, and a time outside of the range of
/// nanoseconds stays in microseconds: the statement decides whether to accept such values.
///
/// # Errors
/// PostgreSQL's error for an invalid text; `InvalidBinaryRepresentation` for a binary value of a
/// wrong length; `InvalidParameterValue` for an unknown format.
pub fn decode(
    value: Option<&Bytes>,
    format: i16,
    wire: u32,
    target: &ColumnType,
    style: &TextStyle,
) -> Result<ScalarValue> {
    let Some(bytes) = value else {
        if let ColumnType::Array(_) = target {
            let array = parse_value(None, target, style)?;
            return Ok(ScalarValue::List(Arc::new(array.as_list().clone())));
        }
        return ScalarValue::try_from(&target.arrow_type())
            .map_err(|error| Error::internal(format!("no NULL of type {target}: {error}")));
    };
    match format {
        0 => {
            let text = simdutf8::basic::from_utf8(bytes).map_err(|_| invalid_encoding(bytes))?;
            if text.contains('\0') {
                return Err(invalid_encoding(b"\0"));
            }
            from_text(text, target, style)
        }
        1 => from_binary(bytes, wire, target, style),
        other => Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!("unsupported format code: {other}"),
        )),
    }
}

/// Parses a text into the Arrow type of `target`. Common types need no intermediate array.
fn from_text(text: &str, target: &ColumnType, style: &TextStyle) -> Result<ScalarValue> {
    Ok(match target {
        ColumnType::Text => ScalarValue::Utf8View(Some(text.to_string())),
        ColumnType::Boolean => ScalarValue::Boolean(Some(parse_boolean(text)?)),
        ColumnType::Integer => ScalarValue::Int32(Some(parse_integer(text)?)),
        ColumnType::BigInt => ScalarValue::Int64(Some(parse_bigint(text)?)),
        ColumnType::Double => ScalarValue::Float64(Some(parse_double(text)?)),
        ColumnType::Timestamp { .. } | ColumnType::TimestampTz { .. } => {
            let unit_ns = target.timestamp_unit_ns().unwrap_or(1);
            let zoned = matches!(target, ColumnType::TimestampTz { .. });
            match parse_timestamp(text, unit_ns, zoned, style) {
                Err(error) if error.kind() == ErrorKind::DatetimeOverflow && unit_ns == 1 => {
                    let micros = parse_timestamp(text, MICROSECOND_NS, zoned, style);
                    binary::timestamp(micros.map_err(|_| error)?, MICROSECOND_NS, zoned)
                }
                units => binary::timestamp(units?, unit_ns, zoned),
            }
        }
        // A scalar made from a single element would lose the extension type of the elements.
        other @ ColumnType::Array(_) => {
            let exact = exact_type(text, other);
            let array = parse_value(Some(text), exact.as_ref().unwrap_or(other), style)?;
            ScalarValue::List(Arc::new(array.as_list().clone()))
        }
        other => {
            let exact = exact_type(text, other);
            let other = exact.as_ref().unwrap_or(other);
            let array = parse_value(Some(text), other, style)?;
            ScalarValue::try_from_array(&array, 0)
                .map_err(|error| Error::internal(format!("a value of type {other}: {error}")))?
        }
    })
}

/// The number of nanoseconds in a microsecond.
const MICROSECOND_NS: i64 = 1_000;

fn from_binary(
    bytes: &Bytes,
    wire: u32,
    target: &ColumnType,
    style: &TextStyle,
) -> Result<ScalarValue> {
    if wire == oid::NUMERIC {
        let text = binary::numeric_text(bytes)?;
        return from_text(&text, target, style);
    }
    let source = if element_of(wire) == Some(oid::NUMERIC) {
        ColumnType::Array(Box::new(match target {
            ColumnType::Array(element) => element.as_ref().clone(),
            _ => ColumnType::NUMERIC,
        }))
    } else {
        let source = column_type(wire).ok_or_else(|| {
            Error::new(
                ErrorKind::FeatureNotSupported,
                format!("binary parameters of type {wire} are not supported"),
            )
            .with_hint("send the parameter as text")
        })?;
        with_precision_of(source, target)
    };
    let value = binary::decode(bytes, wire, &source, style)?;
    if source == *target {
        return Ok(value);
    }
    // The client's type differs from the type in the statement. The conversion uses the text
    // format, which both types have.
    let array = value
        .to_array()
        .map_err(|error| Error::internal(format!("a value of type {source}: {error}")))?;
    let text = write_value(array.as_ref(), 0, &source.arrow_field("value", true), style)?;
    from_text(&text.unwrap_or_default(), target, style)
}

/// Returns `source` with the precision of `target`, because an object id does not contain a
/// precision.
fn with_precision_of(source: ColumnType, target: &ColumnType) -> ColumnType {
    match (&source, target) {
        (ColumnType::Timestamp { .. }, ColumnType::Timestamp { .. })
        | (ColumnType::TimestampTz { .. }, ColumnType::TimestampTz { .. }) => target.clone(),
        (ColumnType::Array(element), ColumnType::Array(wanted)) => {
            ColumnType::Array(Box::new(with_precision_of(element.as_ref().clone(), wanted)))
        }
        _ => source,
    }
}

#[cfg(test)]
mod tests;
