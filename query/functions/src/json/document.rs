//! Converts SQL values to JSON: `to_jsonb`, `jsonb_build_object`, `jsonb_build_array`.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Field},
};
use datafusion::common::Result;
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_text::{TextStyle, normalize_jsonb, write_value};

use super::scan;
use crate::{
    failed,
    function::{Arguments, text_rows},
    literal::style_of,
    text_form::field_of,
};

/// An argument whose values are written as JSON, with the field that determines their format.
struct JsonArgument<'a> {
    array: &'a ArrayRef,
    field: Field,
}

fn arguments_of<'a>(arguments: &'a Arguments<'_>) -> Result<Vec<JsonArgument<'a>>> {
    (0..arguments.arrays.len())
        .map(|at| Ok(JsonArgument { array: arguments.array(at)?, field: field_of(arguments, at)? }))
        .collect()
}

/// Computes `to_jsonb(value)`; NULL gives NULL.
pub(super) fn of_value(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let style = style_of(arguments.config);
    let given = arguments_of(arguments)?;
    let Some(value) = given.first() else {
        return Err(failed(Error::internal("to_jsonb needs a value")));
    };
    text_rows(arguments.rows, |row| {
        if value.array.is_null(row) {
            return Ok(None);
        }
        let mut out = String::new();
        append(value.array, &value.field, row, &style, &mut out)?;
        normalize_jsonb(&out).map(Some).map_err(failed)
    })
}

/// Computes `jsonb_build_array(…)`.
pub(super) fn array(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let style = style_of(arguments.config);
    let given = arguments_of(arguments)?;
    text_rows(arguments.rows, |row| {
        let mut out = String::from("[");
        for (at, value) in given.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            append(value.array, &value.field, row, &style, &mut out)?;
        }
        out.push(']');
        normalize_jsonb(&out).map(Some).map_err(failed)
    })
}

/// Computes `jsonb_build_object(key, value, …)`.
pub(super) fn object(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let style = style_of(arguments.config);
    let given = arguments_of(arguments)?;
    let (pairs, []) = given.as_chunks::<2>() else {
        return Err(failed(
            Error::new(
                ErrorKind::InvalidParameterValue,
                "argument list must have even number of elements",
            )
            .with_hint("The arguments of jsonb_build_object() must consist of alternating keys and values."),
        ));
    };
    text_rows(arguments.rows, |row| {
        let mut out = String::from("{");
        for (at, [key, value]) in pairs.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            append_string(&key_of(key, at * 2 + 1, row, &style)?, &mut out);
            out.push(':');
            append(value.array, &value.field, row, &style, &mut out)?;
        }
        out.push('}');
        normalize_jsonb(&out).map(Some).map_err(failed)
    })
}

/// Computes `left || right` for two normalized jsonb values.
pub(super) fn concat(left: &str, right: &str) -> Result<String> {
    let kinds = (scan::type_name(left), scan::type_name(right));
    let (open, close) = if kinds == ("object", "object") { ('{', '}') } else { ('[', ']') };
    let inside = |json: &str| match (open, scan::type_name(json)) {
        ('{', _) | (_, "array") => {
            json.get(1..json.len().saturating_sub(1)).unwrap_or_default().to_string()
        }
        _ => json.to_string(),
    };
    let parts = [inside(left), inside(right)];
    let parts: Vec<&str> =
        parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    normalize_jsonb(&format!("{open}{}{close}", parts.join(","))).map_err(failed)
}

fn key_of(
    key: &JsonArgument<'_>,
    position: usize,
    row: usize,
    style: &TextStyle,
) -> Result<String> {
    let invalid = |message: String| failed(Error::new(ErrorKind::InvalidParameterValue, message));
    match ColumnType::from_arrow_field(&key.field) {
        _ if key.array.is_null(row) => {
            Err(invalid(format!("argument {position}: key must not be null")))
        }
        Some(ColumnType::Jsonb | ColumnType::Array(_)) => {
            Err(invalid("key value must be scalar, not array, composite, or json".to_string()))
        }
        _ => json_text(key.array, &key.field, row, style),
    }
}

fn json_text(array: &ArrayRef, field: &Field, row: usize, style: &TextStyle) -> Result<String> {
    if array.data_type() == &DataType::Boolean {
        return Ok(array.as_boolean().value(row).to_string());
    }
    Ok(write_value(array, row, field, style).map_err(failed)?.unwrap_or_default())
}

fn append_string(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// Appends a value as JSON. If JSON lacks the type of the value, the value becomes a string.
fn append(
    array: &ArrayRef,
    field: &Field,
    row: usize,
    style: &TextStyle,
    out: &mut String,
) -> Result<()> {
    if array.is_null(row) {
        out.push_str("null");
        return Ok(());
    }
    let items = match array.data_type() {
        DataType::List(item) => Some((item, array.as_list::<i32>().value(row))),
        DataType::LargeList(item) => Some((item, array.as_list::<i64>().value(row))),
        DataType::FixedSizeList(item, _) => Some((item, array.as_fixed_size_list().value(row))),
        _ => None,
    };
    if let Some((item, items)) = items {
        out.push('[');
        for at in 0..items.len() {
            if at > 0 {
                out.push(',');
            }
            append(&items, item, at, style, out)?;
        }
        out.push(']');
        return Ok(());
    }
    let text = json_text(array, field, row, style)?;
    match ColumnType::from_arrow_field(field) {
        Some(ColumnType::Jsonb | ColumnType::Boolean) => out.push_str(&text),
        Some(
            ColumnType::SmallInt
            | ColumnType::Integer
            | ColumnType::BigInt
            | ColumnType::Numeric { .. }
            | ColumnType::Real
            | ColumnType::Double,
        ) if text.bytes().any(|byte| byte.is_ascii_digit()) => out.push_str(&text),
        Some(ColumnType::Timestamp { .. }) => append_string(&text.replacen(' ', "T", 1), out),
        Some(ColumnType::TimestampTz { .. }) => {
            let mut text = text.replacen(' ', "T", 1);
            // ISO 8601 requires the minutes of an offset.
            if text.rfind(['+', '-']).is_some_and(|sign| sign + 3 == text.len()) {
                text.push_str(":00");
            }
            append_string(&text, out);
        }
        _ => append_string(&text, out),
    }
    Ok(())
}
