//! Rows as JSON: numbers, booleans, arrays and jsonb as such, everything else as SQL shows it.

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type},
};
use serde_json::{Map, Value};
use stratalog_model::{ColumnType, Result};
use stratalog_text::{ColumnWriter, TextStyle};

/// The rows of a batch as lists.
///
/// # Errors
/// `Internal` for a type that has no text.
pub(super) fn rows(batch: &RecordBatch, style: &TextStyle) -> Result<Vec<Vec<Value>>> {
    let schema = batch.schema();
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(array, field)| column(array, field, style))
        .collect::<Result<Vec<_>>>()?;
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    let rows = (0..batch.num_rows())
        .map(|_| columns.iter_mut().map(|column| column.next().unwrap_or(Value::Null)).collect());
    Ok(rows.collect())
}

/// The rows of a batch as objects, each on a line of its own; of columns with one name the last counts.
///
/// # Errors
/// As [`rows`].
pub(crate) fn objects(batch: &RecordBatch, style: &TextStyle) -> Result<Vec<Value>> {
    let schema = batch.schema();
    let rows = rows(batch, style)?.into_iter().map(|row| {
        let pairs = schema.fields().iter().map(|field| field.name().clone()).zip(row);
        Value::Object(pairs.collect::<Map<String, Value>>())
    });
    Ok(rows.collect())
}

fn column(array: &ArrayRef, field: &Field, style: &TextStyle) -> Result<Vec<Value>> {
    let rows = 0..array.len();
    let unless_null = |of: &dyn Fn(usize) -> Value| -> Vec<Value> {
        rows.clone().map(|row| if array.is_null(row) { Value::Null } else { of(row) }).collect()
    };
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            return Ok(unless_null(&|row| Value::from(values.value(row))));
        }
        DataType::Int16 => {
            let values = array.as_primitive::<Int16Type>();
            return Ok(unless_null(&|row| Value::from(values.value(row))));
        }
        DataType::Int32 => {
            let values = array.as_primitive::<Int32Type>();
            return Ok(unless_null(&|row| Value::from(values.value(row))));
        }
        DataType::Int64 => {
            let values = array.as_primitive::<Int64Type>();
            return Ok(unless_null(&|row| Value::from(values.value(row))));
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
                    .map_or_else(|| Value::from(value.to_string()), Value::Number)
            }));
        }
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let mut all = Vec::with_capacity(array.len());
            for row in rows {
                all.push(match array.is_null(row) {
                    true => Value::Null,
                    false => Value::Array(column(&lists.value(row), item, style)?),
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
            all.push(Value::Null);
            continue;
        }
        bytes.clear();
        writer.write(row, &mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        all.push(match () {
            () if is_json => serde_json::from_str(&text).unwrap_or_else(|_| Value::from(&*text)),
            () if is_number => number(&text),
            () => Value::from(&*text),
        });
    }
    Ok(all)
}

/// A number with the digits that it has here; what JSON has no number for is text.
fn number(text: &str) -> Value {
    serde_json::from_str::<serde_json::Number>(text)
        .map_or_else(|_| Value::from(text), Value::Number)
}
