//! `round` of a double precision rounds halves to the even neighbour, like in PostgreSQL. `round`
//! of a numeric rounds halves away from zero. DataFusion rounds halves of both types away from
//! zero. `trunc` keeps the sign of -0; DataFusion drops the sign.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Float32Array, Float64Array},
    datatypes::{DataType, FieldRef, Float32Type, Float64Type},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF},
};

use crate::rules::layers::{self, ScalarLayer};

/// Wraps `round` and `trunc` to round like PostgreSQL. Other functions stay unchanged.
pub fn round_to_even(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match function.name() {
        "round" => layers::scalar(function, Round { cuts: false }),
        "trunc" => layers::scalar(function, Round { cuts: true }),
        _ => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Round {
    /// True for `trunc`, false for `round`.
    cuts: bool,
}

impl Round {
    fn rounded(&self, array: &ArrayRef) -> ArrayRef {
        match array.data_type() {
            DataType::Float32 => {
                let round = if self.cuts { f32::trunc } else { f32::round_ties_even };
                let rounded: Float32Array = array.as_primitive::<Float32Type>().unary(round);
                Arc::new(rounded)
            }
            _ => {
                let round = if self.cuts { f64::trunc } else { f64::round_ties_even };
                let rounded: Float64Array = array.as_primitive::<Float64Type>().unary(round);
                Arc::new(rounded)
            }
        }
    }
}

impl ScalarLayer for Round {
    // For NULL, DataFusion would return a type without decimal places; a prepared statement has
    // NULL in place of a parameter.
    fn return_field(&self, inner: &ScalarUDF, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let known: Vec<Option<&ScalarValue>> = arguments
            .scalar_arguments
            .iter()
            .map(|value| value.filter(|value| !value.is_null()))
            .collect();
        inner.return_field_from_args(ReturnFieldArgs {
            arg_fields: arguments.arg_fields,
            scalar_arguments: &known,
        })
    }

    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let floating = |value: &ColumnarValue| {
            matches!(value.data_type(), DataType::Float32 | DataType::Float64)
        };
        match arguments.args.as_slice() {
            [value] if floating(value) => match value {
                ColumnarValue::Array(array) => Ok(ColumnarValue::Array(self.rounded(array))),
                ColumnarValue::Scalar(value) => {
                    let rounded = self.rounded(&value.to_array()?);
                    Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?))
                }
            },
            _ => inner.invoke_with_args(arguments),
        }
    }
}
