//! Values for the parameters of a statement.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, NullArray, RecordBatch,
        RecordBatchOptions, StringArray, TimestampNanosecondArray,
    },
    datatypes::{Field, Schema},
};

use crate::error::Result;

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// SQL's NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A double-precision number.
    Float(f64),
    /// A text. The server parses the text as PostgreSQL's text format of the parameter's type.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Nanoseconds since 1970, UTC.
    Timestamp(i64),
}

macro_rules! from {
    ($($type:ty => $variant:ident),* $(,)?) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Value::$variant(value.into())
            }
        })*
    };
}

from!(bool => Bool, i16 => Int, i32 => Int, i64 => Int, u32 => Int, f32 => Float, f64 => Float,
    &str => Text, String => Text, &[u8] => Bytes, Vec<u8> => Bytes);

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl Value {
    fn array(&self) -> ArrayRef {
        match self {
            Value::Null => Arc::new(NullArray::new(1)),
            Value::Bool(value) => Arc::new(BooleanArray::from(vec![*value])),
            Value::Int(value) => Arc::new(Int64Array::from(vec![*value])),
            Value::Float(value) => Arc::new(Float64Array::from(vec![*value])),
            Value::Text(value) => Arc::new(StringArray::from(vec![value.as_str()])),
            Value::Bytes(value) => Arc::new(BinaryArray::from(vec![value.as_slice()])),
            Value::Timestamp(value) => {
                Arc::new(TimestampNanosecondArray::from(vec![*value]).with_timezone("UTC"))
            }
        }
    }
}

/// Types usable as the parameters of a statement: a batch with one column per parameter and one row
/// per execution, or the values of a single execution.
pub trait IntoParams {
    /// Converts the values to a batch.
    ///
    /// # Errors
    /// `InvalidBatch` for values that cannot be encoded.
    fn into_params(self) -> Result<RecordBatch>;
}

impl IntoParams for RecordBatch {
    fn into_params(self) -> Result<RecordBatch> {
        Ok(self)
    }
}

impl IntoParams for &RecordBatch {
    fn into_params(self) -> Result<RecordBatch> {
        Ok(self.clone())
    }
}

impl IntoParams for &[Value] {
    fn into_params(self) -> Result<RecordBatch> {
        let arrays: Vec<ArrayRef> = self.iter().map(Value::array).collect();
        let fields = arrays
            .iter()
            .enumerate()
            .map(|(at, array)| Field::new(format!("${}", at + 1), array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let one = RecordBatchOptions::new().with_row_count(Some(1));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &one)?)
    }
}

impl IntoParams for Vec<Value> {
    fn into_params(self) -> Result<RecordBatch> {
        self.as_slice().into_params()
    }
}

impl<const N: usize> IntoParams for [Value; N] {
    fn into_params(self) -> Result<RecordBatch> {
        self.as_slice().into_params()
    }
}

/// The empty tuple, for statements without parameters.
impl IntoParams for () {
    fn into_params(self) -> Result<RecordBatch> {
        [].as_slice().into_params()
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn values_become_a_row() {
        let values = [1.into(), 0.5.into(), "x".into(), Value::Null, Some(true).into()];
        let batch = values.into_params().unwrap();
        assert_eq!((batch.num_rows(), batch.num_columns()), (1, 5));
        let types: Vec<_> =
            batch.schema().fields().iter().map(|field| field.data_type().clone()).collect();
        use DataType::{Boolean, Float64, Int64, Null, Utf8};
        assert_eq!(types, [Int64, Float64, Utf8, Null, Boolean]);
        assert_eq!(().into_params().unwrap().num_columns(), 0);
    }
}
