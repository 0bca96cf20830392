//! `length`, `octet_length` and `bit_length` of bytes, which DataFusion knows of text only.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Int32Array},
    compute::cast,
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{Result, ScalarValue, plan_err},
    logical_expr::{
        ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility, type_coercion::functions::fields_with_udf,
    },
};

/// `function` for bytes too, if it is a length of text.
pub fn of_bytes(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    let units = match function.name() {
        "character_length" | "octet_length" => 1,
        "bit_length" => 8,
        _ => return function,
    };
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Length { inner: function, units, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    inner: Arc<ScalarUDF>,
    /// What one byte counts.
    units: i32,
    signature: Signature,
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

impl Length {
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

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [bytes] if is_bytes(bytes) => Ok(DataType::Int32),
            _ => self.inner.return_type(arguments),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match arguments.arg_fields {
            [bytes] if is_bytes(bytes.data_type()) => {
                Ok(Arc::new(Field::new(self.name(), DataType::Int32, true)))
            }
            _ => self.inner.return_field_from_args(arguments),
        }
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        if let [bytes] = given
            && is_bytes(bytes)
        {
            return Ok(given.to_vec());
        }
        if let [other] = given
            && (other.is_numeric() || other.is_temporal() || *other == DataType::Boolean)
        {
            let name = stratalog_functions::function::sql_name(other);
            let this = match self.name() {
                "character_length" => "length",
                name => name,
            };
            return plan_err!(
                "function {this}({name}) does not exist; there is {this}(text), {this}(bytea)"
            );
        }
        let fields: Vec<FieldRef> =
            given.iter().map(|given| Arc::new(Field::new("", given.clone(), true))).collect();
        let fitted = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fitted.iter().map(|field| field.data_type().clone()).collect())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.as_slice() {
            [ColumnarValue::Array(bytes)] if is_bytes(bytes.data_type()) => {
                Ok(ColumnarValue::Array(self.of(bytes)?))
            }
            [ColumnarValue::Scalar(bytes)] if is_bytes(&bytes.data_type()) => {
                let length = self.of(&bytes.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&length, 0)?))
            }
            _ => self.inner.invoke_with_args(arguments),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
