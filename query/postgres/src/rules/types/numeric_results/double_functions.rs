//! Functions of double precision values that PostgreSQL has as numerics.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Decimal128Array, Float64Array},
    datatypes::{DataType, Float64Type},
};
use datafusion::{
    common::{Result, internal_err},
    logical_expr::{
        ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        expr::ScalarFunction,
    },
    scalar::ScalarValue,
};

/// Decimal places of [`DoubleFunction::Numeric`].
const SCALE: i8 = 16;

/// Digits of [`DoubleFunction::Numeric`].
const PRECISION: u8 = 38;

/// A function of one double precision value. The query cannot call the function by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DoubleFunction {
    /// The nearest integer as a double precision; a half goes away from zero.
    Nearest,
    /// The value without a minus zero, which a numeric does not have.
    Unsigned,
    /// The shortest decimal number that reads as the value, with 16 decimal places. NULL for NaN, for
    /// infinity, and for a value with more digits than a numeric.
    Numeric,
}

impl DoubleFunction {
    /// The name of [`Self::Nearest`].
    pub const NEAREST: &'static str = "nearest_integer";

    /// The name of [`Self::Unsigned`].
    pub const UNSIGNED: &'static str = "without_minus_zero";

    /// The call of the function.
    pub fn call(self, value: Expr) -> Expr {
        let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
        let function = ScalarUDF::new_from_impl(DoubleCall { function: self, signature });
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![value]))
    }

    fn computed(self, values: &Float64Array) -> Result<ArrayRef> {
        Ok(match self {
            Self::Nearest => {
                let nearest: Float64Array = values.unary(|value: f64| value.round() + 0.0);
                Arc::new(nearest)
            }
            Self::Unsigned => {
                let unsigned: Float64Array = values.unary(|value: f64| value + 0.0);
                Arc::new(unsigned)
            }
            Self::Numeric => {
                let numbers = values.iter().map(|value| value.and_then(decimal));
                let numbers: Decimal128Array = numbers.collect();
                Arc::new(numbers.with_precision_and_scale(PRECISION, SCALE)?)
            }
        })
    }
}

/// The shortest decimal number that reads as `value`, in units of 10⁻¹⁶. `None` for a value that has
/// no such number.
fn decimal(value: f64) -> Option<i128> {
    let text = format!("{}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let places = usize::try_from(SCALE).unwrap_or(0);
    let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(places).collect();
    let number: i128 = format!("{whole}{digits}").parse().ok()?;
    // Digits behind the last decimal place are far below the last significant digit.
    let up = fraction.chars().nth(places).is_some_and(|digit| digit >= '5');
    let number = number.checked_add(i128::from(up))?;
    let is_small = number < 10_i128.pow(u32::from(PRECISION));
    is_small.then_some(if value < 0.0 { -number } else { number })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DoubleCall {
    function: DoubleFunction,
    signature: Signature,
}

impl ScalarUDFImpl for DoubleCall {
    fn name(&self) -> &str {
        match self.function {
            DoubleFunction::Nearest => DoubleFunction::NEAREST,
            DoubleFunction::Unsigned => DoubleFunction::UNSIGNED,
            DoubleFunction::Numeric => "shortest_numeric",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.function {
            DoubleFunction::Nearest | DoubleFunction::Unsigned => DataType::Float64,
            DoubleFunction::Numeric => DataType::Decimal128(PRECISION, SCALE),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = &arguments.args[..] else {
            return internal_err!("{} takes one number", self.name());
        };
        let array = match value {
            ColumnarValue::Scalar(value) => value.to_array()?,
            ColumnarValue::Array(values) => Arc::clone(values),
        };
        let computed = self.function.computed(array.as_primitive::<Float64Type>())?;
        Ok(match value {
            ColumnarValue::Scalar(_) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&computed, 0)?)
            }
            ColumnarValue::Array(_) => ColumnarValue::Array(computed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_become_their_shortest_decimals() {
        for (value, expected) in [
            (2.5, Some(25_000_000_000_000_000)),
            (-0.125, Some(-1_250_000_000_000_000)),
            (-0.0, Some(0)),
            (0.1 + 0.2, Some(3_000_000_000_000_000)),
            (1e-16, Some(1)),
            (4e-17, Some(0)),
            (1e21, Some(10_i128.pow(37))),
            (1e22, None),
            (1e300, None),
            (f64::NAN, None),
            (f64::NEG_INFINITY, None),
        ] {
            assert_eq!(decimal(value), expected, "{value}");
        }
    }
}
