//! Casts between numerics and floats, with the results of PostgreSQL. A float becomes a numeric
//! with its 6 (real) or 15 (double precision) reliable decimal digits; Arrow would take the exact
//! digits of the binary fraction. A numeric becomes the nearest float; Arrow would round twice.

use std::{fmt::Display, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, Decimal128Array, Float32Array, Float64Array},
    compute::cast,
    datatypes::{DataType, Decimal128Type, Decimal256Type, Float32Type, Float64Type},
};
use datafusion::{
    common::Result as PlanResult,
    logical_expr::{
        ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};

use crate::{failed, literal::scalar_of};

/// Makes the function that casts floats to `numeric(precision, scale)`.
pub(super) fn of_floats(precision: u8, scale: u8) -> Arc<ScalarUDF> {
    let name = format!("float_to_numeric_{precision}_{scale}");
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(FloatToNumeric { name, precision, scale, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatToNumeric {
    name: String,
    precision: u8,
    scale: u8,
    signature: Signature,
}

/// Converts floats to `numeric(precision, scale)`.
///
/// # Errors
/// `NumericOutOfRange` for a number with too many digits before the decimal point.
pub fn to_numeric(numbers: &ArrayRef, precision: u8, scale: u8) -> Result<ArrayRef> {
    let units = |number: &str| units(number, precision, scale);
    let converted: Decimal128Array = match numbers.data_type() {
        DataType::Float32 => numbers
            .as_primitive::<Float32Type>()
            .try_unary(|number| units(&format!("{number:.5e}")))?,
        DataType::Float64 => numbers
            .as_primitive::<Float64Type>()
            .try_unary(|number| units(&format!("{number:.14e}")))?,
        _ => return Err(Error::internal("a floating-point number was declared")),
    };
    let wanted = ColumnType::Numeric { precision, scale }.arrow_type();
    Ok(Arc::new(converted.with_data_type(wanted)))
}

/// Converts a number in scientific notation to an integer: the number times ten to the power of
/// `scale`. A number with more than `precision` digits is an error.
fn units(number: &str, precision: u8, scale: u8) -> Result<i128> {
    let fits = |units: &i128| {
        let bound = 10_u128.checked_pow(u32::from(precision));
        bound.is_none_or(|bound| units.unsigned_abs() < bound)
    };
    scaled(number, scale).filter(fits).ok_or_else(|| {
        let message = match number.contains(['N', 'i']) {
            true => "numeric cannot hold NaN and infinity",
            false => "numeric field overflow",
        };
        Error::new(ErrorKind::NumericOutOfRange, message).with_detail(format!(
            "A field with precision {precision}, scale {scale} does not hold {number}."
        ))
    })
}

/// Converts a number in scientific notation, for example `1.5e2`, to an integer: the number times
/// ten to the power of `scale`, rounded half away from zero. `None` for a result beyond 128 bits.
fn scaled(number: &str, scale: u8) -> Option<i128> {
    let (mantissa, exponent) = number.split_once('e')?;
    let fraction = mantissa.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits: i128 = mantissa.replace('.', "").parse().ok()?;
    let behind = i32::try_from(fraction.len()).ok()?;
    let power = exponent.parse::<i32>().ok()? - behind + i32::from(scale);
    if digits == 0 {
        return Some(0);
    }
    let ten = |power: u32| 10_i128.checked_pow(power);
    match u32::try_from(power) {
        Ok(power) => digits.checked_mul(ten(power)?),
        Err(_) => {
            let Some(unit) = ten(power.unsigned_abs()) else { return Some(0) };
            let half = unit / 2 * digits.signum();
            Some((digits + half) / unit)
        }
    }
}

impl ScalarUDFImpl for FloatToNumeric {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(ColumnType::Numeric { precision: self.precision, scale: self.scale }.arrow_type())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let converted =
            |numbers: &ArrayRef| to_numeric(numbers, self.precision, self.scale).map_err(failed);
        match arguments.args.first() {
            Some(ColumnarValue::Array(numbers)) => converted(numbers).map(ColumnarValue::Array),
            Some(ColumnarValue::Scalar(number)) => {
                let converted = converted(&number.to_array()?)?;
                Ok(ColumnarValue::Scalar(scalar_of(&converted)?))
            }
            None => Err(failed(Error::internal("a cast needs an argument"))),
        }
    }
}

/// Makes the function that casts numerics to double precision, or to real if `is_real`.
pub(super) fn to_floats(is_real: bool) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(NumericToFloat { is_real, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NumericToFloat {
    is_real: bool,
    signature: Signature,
}

/// The powers of ten that a double represents exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// A double represents every integer up to this value exactly.
const EXACT_END: i64 = 1 << f64::MANTISSA_DIGITS;

/// The double nearest to `units` divided by ten to the power of `scale`.
fn nearest_double(units: i128, scale: i8) -> f64 {
    let power = usize::try_from(scale).ok().and_then(|scale| POWERS.get(scale));
    match (i64::try_from(units), power) {
        // Both operands are exact, so the quotient is rounded only once.
        (Ok(units), Some(power)) if (-EXACT_END..=EXACT_END).contains(&units) => {
            #[expect(clippy::cast_precision_loss, reason = "the range has no gaps")]
            let units = units as f64;
            units / power
        }
        _ => in_text(units, scale).parse().unwrap_or(f64::NAN),
    }
}

fn nearest_real(units: i128, scale: i8) -> f32 {
    in_text(units, scale).parse().unwrap_or(f32::NAN)
}

fn in_text(units: impl Display, scale: i8) -> String {
    format!("{units}e{}", -i32::from(scale))
}

impl NumericToFloat {
    fn convert(&self, numbers: &ArrayRef) -> PlanResult<ArrayRef> {
        let doubles: Float64Array = match *numbers.data_type() {
            DataType::Decimal128(_, scale) if self.is_real => {
                let numbers = numbers.as_primitive::<Decimal128Type>();
                let reals: Float32Array = numbers.unary(|units| nearest_real(units, scale));
                return Ok(Arc::new(reals));
            }
            DataType::Decimal128(_, scale) => {
                numbers.as_primitive::<Decimal128Type>().unary(|units| nearest_double(units, scale))
            }
            DataType::Decimal256(_, scale) => numbers
                .as_primitive::<Decimal256Type>()
                .unary(|units| in_text(units, scale).parse().unwrap_or(f64::NAN)),
            // The planner determines the common type of a UNION after the choice of this function,
            // so the argument may have another type.
            _ => return Ok(cast(numbers, &self.wanted())?),
        };
        Ok(cast(&doubles, &self.wanted())?)
    }

    fn wanted(&self) -> DataType {
        if self.is_real { DataType::Float32 } else { DataType::Float64 }
    }
}

impl ScalarUDFImpl for NumericToFloat {
    fn name(&self) -> &str {
        if self.is_real { "numeric_to_real" } else { "numeric_to_double" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(self.wanted())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        match arguments.args.first() {
            Some(ColumnarValue::Array(numbers)) => self.convert(numbers).map(ColumnarValue::Array),
            Some(ColumnarValue::Scalar(number)) => {
                let converted = self.convert(&number.to_array()?)?;
                Ok(ColumnarValue::Scalar(scalar_of(&converted)?))
            }
            None => Err(failed(Error::internal("a cast needs an argument"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_become_the_nearest_float() {
        assert_eq!(nearest_double(976_285_141_617_841_855_744, 20), 9.762_851_416_178_42);
        assert_eq!(nearest_double(1_000_000_000_000_000_000_000_000_000_000, 1), 1e29);
        assert_eq!(nearest_double(-15, 1), -1.5);
        assert_eq!(nearest_double(0, 38), 0.0);
        assert_eq!(nearest_double(1, 38), 1e-38);
        assert_eq!(nearest_real(167_772_171, 1), 16_777_218.0);
    }

    #[test]
    fn numbers_have_the_digits_that_are_sure() {
        let double = |number: f64, scale| scaled(&format!("{number:.14e}"), scale);
        assert_eq!(double(1.005, 2), Some(101));
        assert_eq!(double(-1.005, 2), Some(-101));
        assert_eq!(double(0.285, 2), Some(29));
        assert_eq!(double(0.1 + 0.2, 18), Some(300_000_000_000_000_000));
        assert_eq!(double(1e15, 0), Some(1_000_000_000_000_000));
        assert_eq!(double(1e-300, 10), Some(0));
        assert_eq!(double(-0.0, 10), Some(0));
        assert_eq!(double(1e300, 0), None);
        assert_eq!(double(f64::NAN, 0), None);
        assert_eq!(double(f64::INFINITY, 0), None);
        let real = |number: f32, scale| scaled(&format!("{number:.5e}"), scale);
        assert_eq!(real(0.1, 10), Some(1_000_000_000));
        assert_eq!(real(16_777_216.0, 0), Some(16_777_200));
    }
}
