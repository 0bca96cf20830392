//! Converts rows to JSON. Numbers, booleans, arrays and jsonb values become the same types of JSON;
//! all other values become strings with the SQL text.
//!
//! Each value is converted directly to JSON text, so that a number keeps all its digits. A tree of
//! JSON values would round numbers to double precision.

use std::collections::HashSet;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type},
};
use serde_json::Value;
use stratalog_model::{ColumnType, Result};
use stratalog_text::{ColumnWriter, TextStyle};

/// Converts each value of a batch to JSON text. Returns one list of values per column.
///
/// # Errors
/// `Internal` for a type without a text form.
pub(crate) fn cells(batch: &RecordBatch, style: &TextStyle) -> Result<Vec<Vec<String>>> {
    let schema = batch.schema();
    let columns = batch.columns().iter().zip(schema.fields());
    columns.map(|(array, field)| column(array, field, style)).collect()
}

/// Converts each row of a batch to a list of JSON values. A number that double precision would
/// round becomes a string.
///
/// # Errors
/// The errors of [`cells`].
pub(super) fn rows(batch: &RecordBatch, style: &TextStyle) -> Result<Vec<Vec<Value>>> {
    let columns = cells(batch, style)?;
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    let value = |cell: String| {
        let exact = numbers(&cell).all(is_exact);
        let value = if exact { serde_json::from_str(&cell).ok() } else { None };
        value.unwrap_or(Value::String(cell))
    };
    let rows = (0..batch.num_rows()).map(|_| {
        let cells = columns.iter_mut().map(|column| column.next().map_or(Value::Null, value));
        cells.collect()
    });
    Ok(rows.collect())
}

/// Converts each row of a batch to a JSON object. If two columns have the same name, the later
/// column gets a number: `v`, `v_1`.
///
/// # Errors
/// The errors of [`cells`].
pub(crate) fn objects(batch: &RecordBatch, style: &TextStyle) -> Result<Vec<String>> {
    let schema = batch.schema();
    let names = distinct(schema.fields().iter().map(|field| field.name().as_str()).collect());
    let columns = cells(batch, style)?;
    let row = |at: usize| {
        let pairs = names.iter().zip(&columns);
        let pairs: Vec<String> = pairs
            .map(|(name, cells)| format!("{name}:{}", cells.get(at).map_or("null", String::as_str)))
            .collect();
        format!("{{{}}}", pairs.join(","))
    };
    Ok((0..batch.num_rows()).map(row).collect())
}

/// Converts column names to JSON strings. Repeated names get numbers, which makes all results
/// different.
fn distinct(names: Vec<&str>) -> Vec<String> {
    let mut taken: HashSet<String> = names.iter().map(|name| (*name).to_string()).collect();
    let mut seen = HashSet::new();
    let quoted = |name: &str| Value::from(name).to_string();
    let of_name = |name: &&str| {
        if seen.insert((*name).to_string()) {
            return quoted(name);
        }
        let numbered = (1..).map(|number| format!("{name}_{number}"));
        let free = numbered.into_iter().find(|candidate| taken.insert(candidate.clone()));
        quoted(&free.unwrap_or_default())
    };
    names.iter().map(of_name).collect()
}

/// Finds the numbers in a JSON text, in their order.
pub(super) fn numbers(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = json;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find(|char: char| matches!(char, '"' | '-' | '0'..='9'))?;
            rest = rest.get(at..)?;
            if !rest.starts_with('"') {
                let is_outside =
                    |char: char| !matches!(char, '-' | '+' | '.' | 'e' | 'E' | '0'..='9');
                let (number, after) = rest.split_at(rest.find(is_outside).unwrap_or(rest.len()));
                rest = after;
                return Some(number);
            }
            rest = after_string(rest.get(1..)?);
        }
    })
}

/// The rest of the text after a JSON string; `text` begins inside the string.
fn after_string(text: &str) -> &str {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.and_then(|end| text.get(end + 1..)).unwrap_or_default()
}

/// True if a JSON reader with double precision and 64-bit integers reads the number without
/// rounding.
fn is_exact(number: &str) -> bool {
    let kept = number.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
    number.parse::<i64>().is_ok()
        || number.parse::<u64>().is_ok()
        || kept.is_some_and(|kept| significant(&kept.to_string()) == significant(number))
}

/// The digits of a number from the first to the last nonzero digit.
fn significant(number: &str) -> String {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_string()
}

fn column(array: &ArrayRef, field: &Field, style: &TextStyle) -> Result<Vec<String>> {
    let rows = 0..array.len();
    let null = || "null".to_string();
    let unless_null = |of: &dyn Fn(usize) -> String| -> Vec<String> {
        rows.clone().map(|row| if array.is_null(row) { null() } else { of(row) }).collect()
    };
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            return Ok(unless_null(&|row| values.value(row).to_string()));
        }
        DataType::Int16 => {
            let values = array.as_primitive::<Int16Type>();
            return Ok(unless_null(&|row| values.value(row).to_string()));
        }
        DataType::Int32 => {
            let values = array.as_primitive::<Int32Type>();
            return Ok(unless_null(&|row| values.value(row).to_string()));
        }
        DataType::Int64 => {
            let values = array.as_primitive::<Int64Type>();
            return Ok(unless_null(&|row| values.value(row).to_string()));
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            return Ok(unless_null(&|row| number(&values.value(row).to_string())));
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            return Ok(unless_null(&|row| {
                let value = values.value(row);
                serde_json::Number::from_f64(value)
                    .map_or_else(|| number(&value.to_string()), |number| number.to_string())
            }));
        }
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let mut all = Vec::with_capacity(array.len());
            for row in rows {
                all.push(match array.is_null(row) {
                    true => null(),
                    false => format!("[{}]", column(&lists.value(row), item, style)?.join(",")),
                });
            }
            return Ok(all);
        }
        _ => {}
    }
    let is_json = ColumnType::from_arrow_field(field) == Some(ColumnType::Jsonb);
    let is_number = array.data_type().is_decimal();
    let writer = ColumnWriter::new(array, field, style)?;
    let mut bytes = Vec::new();
    let mut all = Vec::with_capacity(array.len());
    for row in rows {
        if array.is_null(row) {
            all.push(null());
            continue;
        }
        bytes.clear();
        writer.write(row, &mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        all.push(match () {
            () if is_json => text.into_owned(),
            () if is_number => number(&text),
            () => Value::from(&*text).to_string(),
        });
    }
    Ok(all)
}

/// Converts the text of a number to JSON. The number keeps all its digits; NaN and infinity become
/// strings.
fn number(text: &str) -> String {
    match serde_json::from_str::<serde_json::Number>(text) {
        Ok(_) => text.to_string(),
        // Beyond the range of double precision, digits still make a valid JSON number.
        Err(_) if text.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte)) => {
            text.to_string()
        }
        Err(_) => Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_outside_of_strings() {
        let json = r#"{"a 1\"2":-1.5e+3,"b\\":[10,"3"],"c":12345678901234567890.5}"#;
        let found: Vec<&str> = numbers(json).collect();
        assert_eq!(found, ["-1.5e+3", "10", "12345678901234567890.5"]);
    }

    #[test]
    fn numbers_that_double_precision_rounds_are_not_exact() {
        for (number, exact) in [
            ("0.000123456789012345", true),
            ("9007199254740993", true),
            ("12345678901234567890", true),
            ("123456789012345678901", false),
            ("-1234567890.1234567", true),
            ("-1234567890.12345678", false),
            ("0.30000000000000004", true),
            ("1.50", true),
            ("1.5e300", true),
        ] {
            assert_eq!(is_exact(number), exact, "{number}");
        }
    }

    #[test]
    fn equal_names_get_numbers() {
        assert_eq!(
            distinct(vec!["v", "v_1", "v", "v"]),
            [r#""v""#, r#""v_1""#, r#""v_2""#, r#""v_3""#]
        );
    }
}
