//! `round` of a double precision: halves go to the even neighbour, as in PostgreSQL; those
//! of a numeric go away from zero, which DataFusion does for both.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Float32Array, Float64Array},
    datatypes::{DataType, FieldRef, Float32Type, Float64Type},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature,
        sort_properties::{ExprProperties, SortProperties},
    },
};

/// `function` with PostgreSQL's rounding, if it rounds.
pub fn round_to_even(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match function.name() {
        "round" => Arc::new(ScalarUDF::new_from_impl(Round { inner: function })),
        _ => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Round {
    inner: Arc<ScalarUDF>,
}

fn rounded(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let rounded: Float32Array =
                array.as_primitive::<Float32Type>().unary(f32::round_ties_even);
            Arc::new(rounded)
        }
        _ => {
            let rounded: Float64Array =
                array.as_primitive::<Float64Type>().unary(f64::round_ties_even);
            Arc::new(rounded)
        }
    }
}

impl ScalarUDFImpl for Round {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let floating = |value: &ColumnarValue| {
            matches!(value.data_type(), DataType::Float32 | DataType::Float64)
        };
        match arguments.args.as_slice() {
            [value] if floating(value) => match value {
                ColumnarValue::Array(array) => Ok(ColumnarValue::Array(rounded(array))),
                ColumnarValue::Scalar(value) => {
                    let rounded = rounded(&value.to_array()?);
                    Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?))
                }
            },
            _ => self.inner.invoke_with_args(arguments),
        }
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.inner().output_ordering(input)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
