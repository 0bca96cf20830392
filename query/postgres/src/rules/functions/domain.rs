//! Makes functions fail outside of their domain, and gives functions PostgreSQL's result types.
//! DataFusion's logarithms, roots and powers would return infinity or NaN.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, Int64Array},
    compute::cast,
    datatypes::{DataType, FieldRef, Float64Type, Int64Type},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF},
};
use stratalog_functions::padded_lengths;
use stratalog_model::{Error, ErrorKind};

use crate::{
    errors::to_datafusion,
    rules::{
        calendar::bins::Bins,
        layers::{self, ScalarLayer, UnchangedLayer},
    },
};

/// Wraps `function` to check its arguments, or to return PostgreSQL's type. Other functions stay
/// unchanged.
pub fn checked(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    let domain = match function.name() {
        "ln" | "log" | "log2" | "log10" => Domain::Logarithm,
        "sqrt" => Domain::SquareRoot,
        "asin" | "acos" => Domain::UpToOne,
        "acosh" => Domain::FromOne,
        "atanh" => Domain::BelowOne,
        "sin" | "cos" | "tan" | "cot" => Domain::Finite,
        "abs" | "ceil" | "floor" | "radians" | "atan" | "cbrt" | "tanh" | "asinh" | "sinh"
        | "cosh" => {
            return layers::scalar(function, UnchangedLayer);
        }
        "exp" | "degrees" => return layers::scalar(function, FiniteRange),
        "power" => return layers::scalar(function, Power),
        "cardinality" => return layers::scalar(function, IntegerCounts),
        "array_position" => return layers::scalar(function, ElementPosition),
        "chr" => return layers::scalar(function, CharacterCode),
        "date_bin" => return layers::scalar(function, Bins::default()),
        "lpad" | "rpad" => return layers::scalar(function, PaddedLength),
        _ => return function,
    };
    layers::scalar(function, domain)
}

/// Limits the length argument of `lpad` and `rpad` to lengths that the result can have. A negative
/// length counts as 0, and an empty fill adds nothing.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PaddedLength;

impl PaddedLength {
    /// Up to this length, DataFusion computes the padding for a constant fill once for all rows.
    const CONSTANT_LENGTH_MAX: i64 = 16_384;

    fn is_short_constant(length: &ColumnarValue, fill: &[ColumnarValue]) -> bool {
        let is_filled = match fill {
            [] => true,
            [ColumnarValue::Scalar(fill), ..] => {
                fill.try_as_str().flatten().is_some_and(|fill| !fill.is_empty())
            }
            [ColumnarValue::Array(_), ..] => false,
        };
        is_filled
            && matches!(
                length,
                ColumnarValue::Scalar(ScalarValue::Int64(Some(..=Self::CONSTANT_LENGTH_MAX)))
            )
    }
}

impl ScalarLayer for PaddedLength {
    fn invoke(
        &self,
        inner: &ScalarUDF,
        mut arguments: ScalarFunctionArgs,
    ) -> Result<ColumnarValue> {
        if let [_, length, fill @ ..] = arguments.args.as_slice()
            && !Self::is_short_constant(length, fill)
        {
            let is_constant = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
            let lengths = match arguments.args.iter().all(is_constant) {
                true => {
                    let lengths = padded_lengths(&arguments.args, 1)?;
                    ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?)
                }
                false => {
                    let lengths = padded_lengths(&arguments.args, arguments.number_rows)?;
                    ColumnarValue::Array(Arc::new(lengths))
                }
            };
            if let Some(length) = arguments.args.get_mut(1) {
                *length = lengths;
            }
        }
        inner.invoke_with_args(arguments)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Domain {
    /// Accepts numbers greater than 0.
    Logarithm,
    /// Accepts numbers from 0 on.
    SquareRoot,
    /// Accepts numbers from -1 to 1.
    UpToOne,
    /// Accepts numbers from 1 on.
    FromOne,
    /// Accepts numbers from -1 to 1; the results for -1 and 1 are infinite.
    BelowOne,
    /// Accepts all numbers except infinity.
    Finite,
}

const OUTSIDE: (ErrorKind, &str) = (ErrorKind::NumericOutOfRange, "input is out of range");

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
            Domain::UpToOne | Domain::BelowOne if value.abs() > 1.0 => OUTSIDE,
            Domain::FromOne if value < 1.0 => OUTSIDE,
            Domain::Finite if value.is_infinite() => OUTSIDE,
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

/// Checks that finite arguments do not give an infinite result, and that `exp` does not underflow
/// to zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FiniteRange;

impl ScalarLayer for FiniteRange {
    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = ColumnarValue::values_to_arrays(&arguments.args)?;
        let of_zero = inner.name() != "exp";
        let result = inner.invoke_with_args(arguments)?;
        let values = result.to_array(given.first().map_or(1, |array| array.len()))?;
        check_range(&given, &values, of_zero)?;
        Ok(result)
    }
}

/// Checks the results of finite arguments: an infinite result is an overflow, and an unexpected
/// zero is an underflow. `of_zero` is true if the function maps zero to zero.
fn check_range(given: &[ArrayRef], results: &ArrayRef, of_zero: bool) -> Result<()> {
    let results = cast(results, &DataType::Float64)?;
    let results = results.as_primitive::<Float64Type>();
    let is_odd = |result: f64| result.is_infinite() || result == 0.0;
    // Infinite and zero results are rare; only their rows need the detailed check.
    if !results.iter().flatten().any(is_odd) {
        return Ok(());
    }
    let given: Vec<ArrayRef> = given
        .iter()
        .map(|array| cast(array, &DataType::Float64))
        .collect::<std::result::Result<_, _>>()?;
    let wrong = |(row, result): (usize, Option<f64>)| {
        let result = result.filter(|result| is_odd(*result))?;
        let values = || given.iter().map(|array| array.as_primitive::<Float64Type>().value(row));
        if !values().all(f64::is_finite) {
            return None;
        }
        match result.is_infinite() {
            true => Some("value out of range: overflow"),
            // With one argument, the function is `exp` or `degrees`; `degrees` returns zero only
            // for zero. With two arguments, it is a power, and the first argument is its base.
            false if values().len() == 1 && !of_zero => Some("value out of range: underflow"),
            false if values().len() == 2 && values().next() != Some(0.0) => {
                Some("value out of range: underflow")
            }
            false => None,
        }
    };
    match results.iter().enumerate().find_map(wrong) {
        Some(text) => Err(to_datafusion(Error::new(ErrorKind::NumericOutOfRange, text))),
        None => Ok(()),
    }
}

/// Checks powers: a negative number has only integer powers, and zero has no negative powers.
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
        let result = inner.invoke_with_args(arguments)?;
        let values = result.to_array(arrays.first().map_or(1, |array| array.len()))?;
        check_range(&arrays, &values, true)?;
        Ok(result)
    }
}

/// Checks character codes: text cannot contain the character 0, and negative numbers are not
/// characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CharacterCode;

impl ScalarLayer for CharacterCode {
    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for array in ColumnarValue::values_to_arrays(&arguments.args)? {
            let codes = cast(&array, &DataType::Int64)?;
            for code in codes.as_primitive::<Int64Type>().iter().flatten() {
                let (kind, text) = match code {
                    0 => (ErrorKind::LimitExceeded, "null character not permitted"),
                    ..0 => (ErrorKind::InvalidParameterValue, "character number must be positive"),
                    _ => continue,
                };
                return Err(to_datafusion(Error::new(kind, text)));
            }
        }
        inner.invoke_with_args(arguments)
    }
}

/// Makes functions return element counts and array positions as integers, like in PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct IntegerCounts;

impl ScalarLayer for IntegerCounts {
    fn return_type(&self, _: &ScalarUDF, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn return_field(&self, inner: &ScalarUDF, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = inner.return_field_from_args(arguments)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(DataType::Int32)))
    }

    fn invoke(
        &self,
        inner: &ScalarUDF,
        mut arguments: ScalarFunctionArgs,
    ) -> Result<ColumnarValue> {
        let field = arguments.return_field.as_ref().clone();
        arguments.return_field = Arc::new(field.with_data_type(DataType::UInt64));
        inner.invoke_with_args(arguments)?.cast_to(&DataType::Int32, None)
    }
}

/// Adjusts the start of a search in an array. A start before the first element means the first
/// element; a search that starts after the last element finds nothing. DataFusion refuses both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ElementPosition;

impl ElementPosition {
    /// The start of each search, limited to the range from 1 to the array length plus 1.
    fn starts(
        lists: &ColumnarValue,
        starts: &ColumnarValue,
        rows: usize,
    ) -> Result<Option<ColumnarValue>> {
        let is_constant =
            matches!((lists, starts), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { rows };
        let lists = lists.to_array(rows)?;
        let Some(lists) = lists.as_list_opt::<i32>() else { return Ok(None) };
        let starts = cast(&starts.to_array(rows)?, &DataType::Int64)?;
        let starts = starts.as_primitive::<Int64Type>();
        let start = |row: usize| {
            let length = if lists.is_null(row) { 0 } else { lists.value_length(row) };
            match length {
                0 => Ok(Some(1)),
                _ if starts.is_null(row) => Err(to_datafusion(Error::new(
                    ErrorKind::NullNotAllowed,
                    "initial position must not be null",
                ))),
                length => Ok(Some(starts.value(row).clamp(1, i64::from(length) + 1))),
            }
        };
        let starts: Int64Array = (0..rows).map(start).collect::<Result<_>>()?;
        Ok(Some(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&starts, 0)?),
            false => ColumnarValue::Array(Arc::new(starts)),
        }))
    }
}

impl ScalarLayer for ElementPosition {
    fn return_type(&self, inner: &ScalarUDF, arguments: &[DataType]) -> Result<DataType> {
        IntegerCounts.return_type(inner, arguments)
    }

    fn return_field(&self, inner: &ScalarUDF, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        IntegerCounts.return_field(inner, arguments)
    }

    fn invoke(
        &self,
        inner: &ScalarUDF,
        mut arguments: ScalarFunctionArgs,
    ) -> Result<ColumnarValue> {
        if let [lists, _, starts] = arguments.args.as_mut_slice()
            && let Some(within) = Self::starts(lists, starts, arguments.number_rows)?
        {
            *starts = within;
        }
        IntegerCounts.invoke(inner, arguments)
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
        // `log(base, n)` divides by the logarithm of its base, which must not be zero.
        if let (Domain::Logarithm, [base, _]) = (self, arguments.args.as_slice()) {
            let base = cast(&base.to_array(1)?, &DataType::Float64)?;
            if base.as_primitive::<Float64Type>().iter().flatten().any(|base| base == 1.0) {
                let error = Error::new(ErrorKind::DivisionByZero, "division by zero");
                return Err(to_datafusion(error));
            }
        }
        inner.invoke_with_args(arguments)
    }
}
