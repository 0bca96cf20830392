//! Makes `length`, `octet_length` and `bit_length` accept bytes; DataFusion's functions accept only
//! text.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Int32Array},
    compute::cast,
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{Result, ScalarValue, plan_err},
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Signature, Volatility,
    },
};

use crate::rules::layers::{self, ScalarLayer, types_fitted};

/// Wraps the three length functions to accept bytes. Other functions stay unchanged.
pub fn of_bytes(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    let units = match function.name() {
        "character_length" | "octet_length" => 1,
        "bit_length" => 8,
        _ => return function,
    };
    let signature = Signature::user_defined(Volatility::Immutable);
    layers::scalar(function, ByteLength { units, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ByteLength {
    /// The units in one byte: 1 if the function counts bytes, 8 if it counts bits.
    units: i32,
    signature: Signature,
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

impl ByteLength {
    fn of(&self, bytes: &ArrayRef) -> Result<ArrayRef> {
        let bytes = cast(bytes, &DataType::Binary)?;
        let lengths: Int32Array = bytes
            .as_binary::<i32>()
            .iter()
            .map(|bytes| {
                let length = i32::try_from(bytes?.len()).unwrap_or(i32::MAX);
                Some(length.saturating_mul(self.units))
            })
            .collect();
        Ok(Arc::new(lengths))
    }
}

impl ScalarLayer for ByteLength {
    fn signature<'a>(&'a self, _: &'a ScalarUDF) -> &'a Signature {
        &self.signature
    }

    fn return_type(&self, inner: &ScalarUDF, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [bytes] if is_bytes(bytes) => Ok(DataType::Int32),
            _ => inner.return_type(arguments),
        }
    }

    fn return_field(&self, inner: &ScalarUDF, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match arguments.arg_fields {
            [bytes] if is_bytes(bytes.data_type()) => {
                Ok(Arc::new(Field::new(inner.name(), DataType::Int32, true)))
            }
            _ => inner.return_field_from_args(arguments),
        }
    }

    fn coerce_types(&self, inner: &ScalarUDF, given: &[DataType]) -> Result<Vec<DataType>> {
        if let [bytes] = given
            && is_bytes(bytes)
        {
            return Ok(given.to_vec());
        }
        if let [other] = given
            && (other.is_numeric() || other.is_temporal() || *other == DataType::Boolean)
        {
            let name = stratalog_functions::function::sql_name(other);
            let this = match inner.name() {
                "character_length" => "length",
                name => name,
            };
            return plan_err!(
                "function {this}({name}) does not exist; there is {this}(text), {this}(bytea)"
            );
        }
        types_fitted(inner, given)
    }

    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.as_slice() {
            [ColumnarValue::Array(bytes)] if is_bytes(bytes.data_type()) => {
                Ok(ColumnarValue::Array(self.of(bytes)?))
            }
            [ColumnarValue::Scalar(bytes)] if is_bytes(&bytes.data_type()) => {
                let length = self.of(&bytes.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&length, 0)?))
            }
            _ => inner.invoke_with_args(arguments),
        }
    }
}
