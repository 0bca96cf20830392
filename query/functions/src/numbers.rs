//! Exact functions on numbers, such as `factorial` and `scale`, and trigonometric functions whose
//! angles are in degrees.

use std::sync::Arc;

use arrow::{
    array::{
        Array as _, ArrayRef, AsArray, Decimal128Array, Float32Array, Float64Array, Int32Array,
    },
    compute::cast,
    datatypes::{DataType, Decimal128Type, FieldRef},
};
use datafusion::common::{Result, ScalarValue};
use stratalog_model::{ColumnType, Error, ErrorKind};

use crate::{
    failed,
    function::{Arguments, Function, Parameter, Returns, text_rows},
};

use Parameter::{Double, Integer, Numeric};

/// The SQL functions that this module declares.
pub fn functions() -> Vec<Function> {
    let of_degrees = |name, description, run: fn(&Arguments<'_>) -> Result<ArrayRef>| {
        Function::immutable(name, &[&[Double]], ColumnType::Double, description, run)
    };
    vec![
        Function::immutable(
            "factorial",
            &[&[Integer]],
            ColumnType::Numeric { precision: 38, scale: 0 },
            "The product of all whole numbers from 1 up to a number.",
            factorials,
        ),
        Function::immutable(
            "scale",
            &[&[Numeric]],
            ColumnType::Integer,
            "The number of digits behind the point, from the type of the numeric.",
            |arguments| scales(arguments, |_, scale| scale),
        ),
        Function::immutable(
            "min_scale",
            &[&[Numeric]],
            ColumnType::Integer,
            "The number of digits behind the point up to the last nonzero digit.",
            |arguments| scales(arguments, least_scale),
        ),
        Function::immutable(
            "trim_scale",
            &[&[Numeric]],
            Returns::Constants(trimmed_type),
            "A numeric constant without trailing zeros; a numeric of a column keeps the digits of its type.",
            |arguments| Ok(cast(arguments.array(0)?, arguments.result)?),
        ),
        Function::immutable(
            "float4",
            &[&[Double]],
            ColumnType::Real,
            "A double precision as a real: what a cast calls.",
            |arguments| {
                let values = arguments.doubles(0)?.iter().map(|value| value.map(real).transpose());
                let values = values.collect::<Result<Float32Array, _>>().map_err(failed)?;
                Ok(Arc::new(values))
            },
        ),
        Function::immutable(
            "int4_hex",
            &[&[Integer]],
            ColumnType::Text,
            "An integer in hexadecimal, a negative integer as 32 bits; `to_hex` calls this function.",
            |arguments| {
                let numbers = arguments.integers(0)?;
                text_rows(arguments.rows, |row| {
                    #[expect(clippy::cast_possible_truncation, reason = "an integer has 32 bits")]
                    let bits = |number: i64| (number as i32).cast_unsigned();
                    Ok(numbers.is_valid(row).then(|| format!("{:x}", bits(numbers.value(row)))))
                })
            },
        ),
        of_degrees("sind", "Sine of an angle in degrees.", |arguments| {
            each(arguments, |angle| angles(angle, sine))
        }),
        of_degrees("cosd", "Cosine of an angle in degrees.", |arguments| {
            each(arguments, |angle| angles(angle, cosine))
        }),
        of_degrees("tand", "Tangent of an angle in degrees.", |arguments| {
            each(arguments, |angle| angles(angle, |angle| sine(angle) / cosine(angle)))
        }),
        of_degrees("cotd", "Cotangent of an angle in degrees.", |arguments| {
            each(arguments, |angle| angles(angle, |angle| cosine(angle) / sine(angle)))
        }),
        of_degrees("asind", "Inverse sine, in degrees.", |arguments| {
            each(arguments, |value| inverse(value, asind))
        }),
        of_degrees("acosd", "Inverse cosine, in degrees.", |arguments| {
            each(arguments, |value| inverse(value, |value| 90.0 - asind(value)))
        }),
        of_degrees("atand", "Inverse tangent, in degrees.", |arguments| {
            each(arguments, |value| Ok(atand(value)))
        }),
        Function::immutable(
            "atan2d",
            &[&[Double, Double]],
            ColumnType::Double,
            "Inverse tangent of a quotient, in degrees.",
            |arguments| {
                let (left, right) = (arguments.doubles(0)?, arguments.doubles(1)?);
                let values: Float64Array = left
                    .iter()
                    .zip(right)
                    .map(|(y, x)| Some(y?.atan2(x?) / 1.0_f64.atan() * 45.0))
                    .collect();
                Ok(Arc::new(values))
            },
        ),
    ]
}

fn real(value: f64) -> Result<f32, Error> {
    #[expect(clippy::cast_possible_truncation, reason = "what does not fit is refused")]
    let real = value as f32;
    let wrong = match (real.is_infinite() && value.is_finite(), real == 0.0 && value != 0.0) {
        (true, _) => "value out of range: overflow",
        (_, true) => "value out of range: underflow",
        _ => return Ok(real),
    };
    Err(Error::new(ErrorKind::NumericOutOfRange, wrong))
}

fn factorials(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let factorial = |number: i64| -> Result<i128, Error> {
        let out_of_range = |text: &str| Error::new(ErrorKind::NumericOutOfRange, text.to_string());
        if number < 0 {
            return Err(out_of_range("factorial of a negative number is undefined"));
        }
        (1..=i128::from(number))
            .try_fold(1_i128, |product, factor| {
                product.checked_mul(factor).filter(|product| *product < 10_i128.pow(38))
            })
            .ok_or_else(|| out_of_range("value overflows numeric format"))
    };
    let numbers = arguments.integers(0)?;
    let values = numbers
        .iter()
        .map(|number| number.map(factorial).transpose().map_err(failed))
        .collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(values.with_precision_and_scale(38, 0)?))
}

fn least_scale(value: i128, scale: i32) -> i32 {
    let (mut value, mut scale) = (value, scale);
    while scale > 0 && value % 10 == 0 {
        value /= 10;
        scale -= 1;
    }
    scale
}

fn scales(arguments: &Arguments<'_>, scale_of: fn(i128, i32) -> i32) -> Result<ArrayRef> {
    let numbers = arguments.array(0)?;
    let DataType::Decimal128(_, scale) = numbers.data_type() else {
        return Err(failed(Error::internal("scale needs a numeric")));
    };
    let scales: Int32Array = numbers
        .as_primitive::<Decimal128Type>()
        .iter()
        .map(|value| value.map(|value| scale_of(value, i32::from(*scale))))
        .collect();
    Ok(Arc::new(scales))
}

fn trimmed_type(fields: &[FieldRef], constants: &[Option<&ScalarValue>]) -> DataType {
    match (constants.first(), fields.first()) {
        (Some(Some(ScalarValue::Decimal128(Some(value), precision, scale))), _) => {
            let least = least_scale(*value, i32::from(*scale));
            DataType::Decimal128(*precision, i8::try_from(least).unwrap_or(*scale))
        }
        (_, Some(field)) => field.data_type().clone(),
        _ => DataType::Null,
    }
}

fn each(arguments: &Arguments<'_>, value: impl Fn(f64) -> Result<f64, Error>) -> Result<ArrayRef> {
    let numbers = arguments.doubles(0)?;
    let values = numbers
        .iter()
        .map(|number| number.map(&value).transpose().map_err(failed))
        .collect::<Result<Float64Array>>()?;
    Ok(Arc::new(values))
}

fn out_of_range() -> Error {
    Error::new(ErrorKind::NumericOutOfRange, "input is out of range")
}

fn angles(angle: f64, function: impl Fn(f64) -> f64) -> Result<f64, Error> {
    match angle.is_infinite() {
        true => Err(out_of_range()),
        false => Ok(function(angle)),
    }
}

fn inverse(value: f64, function: impl Fn(f64) -> f64) -> Result<f64, Error> {
    match value.is_nan() || (-1.0..=1.0).contains(&value) {
        true => Ok(function(value)),
        false => Err(out_of_range()),
    }
}

/// The sine of an angle from 0 to 90 degrees; exact at 30 and 90 degrees.
fn sine_of_quarter(angle: f64) -> f64 {
    let sine = |angle: f64| (angle * (std::f64::consts::PI / 180.0)).sin();
    match angle <= 30.0 {
        true => sine(angle) / sine(30.0) / 2.0,
        false => cosine_of_part(90.0 - angle),
    }
}

/// The cosine of an angle from 0 to 60 degrees; exact at 60 degrees.
fn cosine_of_part(angle: f64) -> f64 {
    let rest = |angle: f64| 1.0 - (angle * (std::f64::consts::PI / 180.0)).cos();
    1.0 - rest(angle) / rest(60.0) / 2.0
}

fn sine(angle: f64) -> f64 {
    let (mut angle, mut sign) = (angle % 360.0, 1.0);
    if angle < 0.0 {
        angle = -angle;
        sign = -sign;
    }
    if angle > 180.0 {
        angle = 360.0 - angle;
        sign = -sign;
    }
    sign * sine_of_quarter(if angle > 90.0 { 180.0 - angle } else { angle })
}

fn cosine(angle: f64) -> f64 {
    let (mut angle, mut sign) = ((angle % 360.0).abs(), 1.0);
    if angle > 180.0 {
        angle = 360.0 - angle;
    }
    if angle > 90.0 {
        angle = 180.0 - angle;
        sign = -1.0;
    }
    match angle <= 60.0 {
        true => sign * cosine_of_part(angle),
        false => sign * sine_of_quarter(90.0 - angle),
    }
}

fn asind(value: f64) -> f64 {
    let magnitude = value.abs();
    let degrees = match magnitude <= 0.5 {
        true => magnitude.asin() / 0.5_f64.asin() * 30.0,
        false => 90.0 - magnitude.acos() / 0.5_f64.acos() * 60.0,
    };
    degrees.copysign(value)
}

fn atand(value: f64) -> f64 {
    value.atan() / 1.0_f64.atan() * 45.0
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected values are the results of PostgreSQL 15.
    #[test]
    fn special_angles_are_exact() {
        let all: Vec<f64> = [0.0, 30.0, 90.0, 150.0, 180.0, 210.0, 270.0, 330.0, 360.0]
            .into_iter()
            .map(sine)
            .collect();
        assert_eq!(all, [0.0, 0.5, 1.0, 0.5, 0.0, -0.5, -1.0, -0.5, 0.0]);
        let all: Vec<f64> = [0.0, 60.0, 90.0, 120.0, 180.0, 240.0, 270.0, 300.0, 360.0]
            .into_iter()
            .map(cosine)
            .collect();
        assert_eq!(all, [1.0, 0.5, 0.0, -0.5, -1.0, -0.5, 0.0, 0.5, 1.0]);
        assert_eq!([-1.0, -0.5, 0.0, 0.5, 1.0].map(asind), [-90.0, -30.0, 0.0, 30.0, 90.0]);
        assert_eq!([-1.0, 0.0, 1.0].map(atand), [-45.0, 0.0, 45.0]);
        assert_eq!(least_scale(1500, 3), 1);
    }
}
