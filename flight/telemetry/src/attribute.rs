//! Decodes the values of attributes and of log bodies (`AnyValue`, `KeyValue`).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use stratalog_model::{Error, ErrorKind};

use crate::{
    fault::Refusal,
    json::text::{put_double, put_text},
    wire::{Fault, Fields, once, text},
};

/// A decoded value. Lists and maps stay encoded until the value is converted to text or JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyValue<'a> {
    Empty,
    Text(&'a str),
    Boolean(bool),
    Integer(i64),
    Double(f64),
    /// An encoded `ArrayValue`.
    List(&'a [u8]),
    /// An encoded `KeyValueList`.
    Map(&'a [u8]),
    Bytes(&'a [u8]),
}

impl<'a> AnyValue<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Result<Self, Fault> {
        let mut fields = Fields::of(message);
        let mut value = Self::Empty;
        while let Some(field) = fields.next()? {
            let next = match field.number {
                1 => Self::Text(field.text("a value of text")?),
                2 => Self::Boolean(field.varint()? != 0),
                3 => Self::Integer(field.varint()?.cast_signed()),
                4 => Self::Double(field.double()?),
                5 => Self::List(field.bytes()?),
                6 => Self::Map(field.bytes()?),
                7 => Self::Bytes(field.bytes()?),
                // The field is an index into a string table. Only OTLP profiles have such tables,
                // so here the value counts as missing.
                8 => {
                    field.varint()?;
                    Self::Empty
                }
                _ => continue,
            };
            if !matches!(value, Self::Empty) {
                return Err(Fault::Twice("a value"));
            }
            value = next;
        }
        Ok(value)
    }

    /// Converts the value to the text of a tag. Text stays unchanged, bytes become base64, lists
    /// and maps become JSON, and an empty value becomes ''.
    pub(crate) fn to_text(self, depth_max: u32) -> Result<String, Refusal> {
        Ok(match self {
            Self::Empty => String::new(),
            Self::Text(text) => text.to_string(),
            Self::Bytes(bytes) => STANDARD.encode(bytes),
            Self::Double(value) if !value.is_finite() => float_text(value),
            other => {
                let mut out = String::new();
                other.put_json(&mut out, depth_max)?;
                out
            }
        })
    }

    /// Appends the value as JSON: integers become numbers, bytes become a base64 string.
    pub(crate) fn put_json(self, out: &mut String, depth: u32) -> Result<(), Refusal> {
        match self {
            Self::Empty => out.push_str("null"),
            Self::Text(text) => put_text(out, text),
            Self::Boolean(value) => out.push_str(if value { "true" } else { "false" }),
            Self::Integer(value) => out.push_str(itoa::Buffer::new().format(value)),
            Self::Double(value) => put_double(out, value),
            Self::Bytes(bytes) => {
                out.push('"');
                STANDARD.encode_string(bytes, out);
                out.push('"');
            }
            Self::Map(message) => put_object(out, message, 1, depth)?,
            Self::List(message) => {
                let depth = deeper(depth)?;
                out.push('[');
                let mut fields = Fields::of(message);
                let mut first = true;
                while let Some(field) = fields.next()? {
                    if field.number != 1 {
                        continue;
                    }
                    if !std::mem::take(&mut first) {
                        out.push(',');
                    }
                    Self::read(field.bytes()?)?.put_json(out, depth)?;
                }
                out.push(']');
            }
        }
        Ok(())
    }
}

/// Appends a JSON object of the `KeyValue`s in field `number` of a message.
pub(crate) fn put_object(
    out: &mut String,
    message: &[u8],
    number: u32,
    depth: u32,
) -> Result<(), Refusal> {
    let depth = deeper(depth)?;
    out.push('{');
    let mut fields = Fields::of(message);
    let mut first = true;
    while let Some(field) = fields.next()? {
        if field.number != number {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        let (key, value) = key_value(field.bytes()?)?;
        put_text(out, key);
        out.push(':');
        value.put_json(out, depth)?;
    }
    out.push('}');
    Ok(())
}

/// Decodes a `KeyValue`.
pub(crate) fn key_value(message: &[u8]) -> Result<(&str, AnyValue<'_>), Fault> {
    let mut fields = Fields::of(message);
    let (mut key, mut value) = (None, None);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => once(&mut key, field.bytes()?, "the key of an attribute")?,
            2 => once(&mut value, field.bytes()?, "the value of an attribute")?,
            _ => {}
        }
    }
    let key = text(key.unwrap_or_default(), "the key of an attribute")?;
    Ok((key, AnyValue::read(value.unwrap_or_default())?))
}

/// Formats a number in the syntax of Prometheus's label values, for example `+Inf`.
pub(crate) fn float_text(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_string(),
        f64::NEG_INFINITY => "-Inf".to_string(),
        // The addition turns -0 into 0.
        other => (other + 0.0).to_string(),
    }
}

fn deeper(depth: u32) -> Result<u32, Refusal> {
    depth.checked_sub(1).ok_or_else(|| {
        let error = Error::new(
            ErrorKind::StatementTooComplex,
            "values are nested too deeply in an attribute or body",
        );
        Refusal::Item(error.with_hint("send less nested attributes, or one text"))
    })
}
