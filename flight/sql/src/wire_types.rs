//! Converts columns to the types that Flight clients receive. String and binary views become plain
//! text and binary columns, which every client can read. Dictionaries stay.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use stratalog_model::{
    ColumnType, Error, Result,
    types::{ORIGIN_METADATA, PG_TYPE_METADATA},
};

/// The keys of Flight SQL's column metadata: type name, precision and scale.
const TYPE_NAME: &str = "ARROW:FLIGHT:SQL:TYPE_NAME";
const PRECISION: &str = "ARROW:FLIGHT:SQL:PRECISION";
const SCALE: &str = "ARROW:FLIGHT:SQL:SCALE";
const IS_AUTO_INCREMENT: &str = "ARROW:FLIGHT:SQL:IS_AUTO_INCREMENT";
const IS_CASE_SENSITIVE: &str = "ARROW:FLIGHT:SQL:IS_CASE_SENSITIVE";
const IS_READ_ONLY: &str = "ARROW:FLIGHT:SQL:IS_READ_ONLY";
const IS_SEARCHABLE: &str = "ARROW:FLIGHT:SQL:IS_SEARCHABLE";

/// Converts the schema of a result to the schema that clients receive.
pub(crate) fn outgoing(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(
        schema.fields().iter().map(|field| plain_field(field)).collect::<Vec<_>>(),
    ))
}

/// The schema of a result without rows.
pub(crate) fn no_columns() -> SchemaRef {
    Arc::new(Schema::empty())
}

/// Converts a batch to a schema made by [`outgoing`].
///
/// # Errors
/// `Internal` if a column cannot be converted.
pub(crate) fn convert(batch: &RecordBatch, outgoing: &SchemaRef) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .zip(outgoing.fields())
        .map(|(array, field)| {
            if array.data_type() == field.data_type() {
                return Ok(Arc::clone(array));
            }
            cast(array, field.data_type()).map_err(Error::from)
        })
        .collect::<Result<_>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(outgoing), columns, &rows).map_err(Error::from)
}

/// Converts a field to the type that clients receive, and adds the metadata of Flight SQL.
pub(crate) fn plain_field(field: &Field) -> Field {
    let column_type = ColumnType::from_arrow_field(field);
    let mut metadata: HashMap<String, String> = field.metadata().clone();
    let named = metadata.remove(PG_TYPE_METADATA);
    metadata.remove(ORIGIN_METADATA);
    let name = named.or_else(|| column_type.as_ref().map(short_name));
    let mut tell = |key: &str, value: String| metadata.insert(key.to_string(), value);
    if let Some(name) = name {
        tell(TYPE_NAME, name);
    }
    if let Some((precision, scale)) = column_type.as_ref().and_then(size) {
        tell(PRECISION, precision.to_string());
        tell(SCALE, scale.to_string());
    }
    tell(IS_AUTO_INCREMENT, "0".to_string());
    tell(IS_READ_ONLY, "0".to_string());
    tell(IS_SEARCHABLE, "1".to_string());
    let case = matches!(column_type, Some(ColumnType::Text | ColumnType::Jsonb));
    tell(IS_CASE_SENSITIVE, u8::from(case).to_string());
    Field::new(field.name(), plain_type(field.data_type()), field.is_nullable())
        .with_metadata(metadata)
}

/// The SQL name of a type without precision and scale.
pub(crate) fn short_name(column_type: &ColumnType) -> String {
    match column_type {
        ColumnType::Numeric { .. } => "numeric".to_string(),
        ColumnType::Timestamp { .. } => "timestamp".to_string(),
        ColumnType::TimestampTz { .. } => "timestamptz".to_string(),
        ColumnType::Time => "time".to_string(),
        ColumnType::Array(element) => format!("{}[]", short_name(element)),
        other => other.to_string(),
    }
}

/// The precision and scale of a numeric type: the total number of digits, and the digits after the
/// decimal point. `None` for all other types.
fn size(column_type: &ColumnType) -> Option<(u8, u8)> {
    match column_type {
        ColumnType::SmallInt => Some((5, 0)),
        ColumnType::Integer => Some((10, 0)),
        ColumnType::BigInt => Some((19, 0)),
        ColumnType::Real => Some((8, 8)),
        ColumnType::Double => Some((17, 17)),
        ColumnType::Numeric { precision, scale } => Some((*precision, *scale)),
        ColumnType::Timestamp { precision } | ColumnType::TimestampTz { precision } => {
            Some((29, *precision))
        }
        _ => None,
    }
}

fn plain_type(data_type: &DataType) -> DataType {
    let item = |field: &Field| {
        let plain = plain_type(field.data_type());
        Arc::new(field.clone().with_data_type(plain))
    };
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(field) | DataType::ListView(field) => DataType::List(item(field)),
        DataType::LargeList(field) | DataType::LargeListView(field) => {
            DataType::LargeList(item(field))
        }
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(item(field), *size),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| item(field)).collect())
        }
        DataType::Dictionary(key, value) => {
            DataType::Dictionary(key.clone(), Box::new(plain_type(value)))
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
