//! Logarithms and square roots that fail where they are not defined, as in PostgreSQL;
//! DataFusion's give infinity or NaN.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray},
    compute::cast,
    datatypes::{DataType, FieldRef, Float64Type},
};
use datafusion::{
    common::Result,
    logical_expr::{
        ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature,
        interval_arithmetic::Interval,
        sort_properties::{ExprProperties, SortProperties},
    },
};
use stratalog_model::{Error, ErrorKind};

use crate::errors::to_datafusion;

/// `function` with a check of its arguments, if it is a logarithm or the square root.
pub fn checked(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    let domain = match function.name() {
        "ln" | "log" | "log2" | "log10" => Domain::Logarithm,
        "sqrt" => Domain::SquareRoot,
        _ => return function,
    };
    Arc::new(ScalarUDF::new_from_impl(Checked { inner: function, domain }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Domain {
    /// Above zero.
    Logarithm,
    /// Not below zero.
    SquareRoot,
}

impl Domain {
    fn check(self, value: f64) -> Result<(), Error> {
        let (kind, text) = match self {
            Domain::Logarithm if value == 0.0 => {
                (ErrorKind::InvalidLogarithm, "cannot take logarithm of zero")
            }
            Domain::Logarithm if value < 0.0 => {
                (ErrorKind::InvalidLogarithm, "cannot take logarithm of a negative number")
            }
            Domain::SquareRoot if value < 0.0 => {
                (ErrorKind::InvalidPower, "cannot take square root of a negative number")
            }
            _ => return Ok(()),
        };
        Err(Error::new(kind, text))
    }

    fn check_all(self, values: &ArrayRef) -> Result<()> {
        let values = cast(values, &DataType::Float64)?;
        let mut values = values.as_primitive::<Float64Type>().iter().flatten();
        values.try_for_each(|value| self.check(value)).map_err(to_datafusion)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    inner: Arc<ScalarUDF>,
    domain: Domain,
}

impl ScalarUDFImpl for Checked {
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
        for value in &arguments.args {
            match value {
                ColumnarValue::Array(array) => self.domain.check_all(array)?,
                ColumnarValue::Scalar(value) => self.domain.check_all(&value.to_array()?)?,
            }
        }
        self.inner.invoke_with_args(arguments)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.inner().output_ordering(input)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
