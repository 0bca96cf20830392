//! Logarithms, square roots and powers that fail where they are not defined, as in PostgreSQL;
//! DataFusion's give infinity or NaN.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray},
    compute::cast,
    datatypes::{DataType, Float64Type},
};
use datafusion::{
    common::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF},
};
use stratalog_model::{Error, ErrorKind};

use super::layers::{self, ScalarLayer};
use crate::errors::to_datafusion;

/// `function` with a check of its arguments, if it is a logarithm or the square root.
pub fn checked(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    let domain = match function.name() {
        "ln" | "log" | "log2" | "log10" => Domain::Logarithm,
        "sqrt" => Domain::SquareRoot,
        "power" => return layers::scalar(function, Power),
        _ => return function,
    };
    layers::scalar(function, domain)
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

/// Of a number below zero there are whole powers alone, and of zero none below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Power;

impl Power {
    fn check(base: f64, exponent: f64) -> Result<(), Error> {
        let text = if base == 0.0 && exponent < 0.0 {
            "zero raised to a negative power is undefined"
        } else if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
            "a negative number raised to a non-integer power yields a complex result"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::InvalidPower, text))
    }
}

impl ScalarLayer for Power {
    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        if let [bases, exponents] = arrays.as_slice() {
            let bases = cast(bases, &DataType::Float64)?;
            let exponents = cast(exponents, &DataType::Float64)?;
            let exponents = exponents.as_primitive::<Float64Type>();
            for pair in bases.as_primitive::<Float64Type>().iter().zip(exponents) {
                if let (Some(base), Some(exponent)) = pair {
                    Self::check(base, exponent).map_err(to_datafusion)?;
                }
            }
        }
        inner.invoke_with_args(arguments)
    }
}

impl ScalarLayer for Domain {
    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for value in &arguments.args {
            match value {
                ColumnarValue::Array(array) => self.check_all(array)?,
                ColumnarValue::Scalar(value) => self.check_all(&value.to_array()?)?,
            }
        }
        inner.invoke_with_args(arguments)
    }
}
