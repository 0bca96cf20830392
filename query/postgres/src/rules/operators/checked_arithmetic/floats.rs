//! Checks float arithmetic like PostgreSQL: a result outside the range of its type is an error, and
//! every NaN becomes the positive NaN.

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Datum, PrimitiveArray},
    datatypes::{DataType, Float32Type, Float64Type},
};
use datafusion::common::Result;
use stratalog_model::{Error, ErrorKind};

use super::Operation;
use crate::{errors::to_datafusion, rules::equality::float_keys::with_one_nan};

/// Checks the `result` of a float operation with the given operands. Results of other types are not
/// checked.
///
/// # Errors
/// `NumericOutOfRange` for an overflow to infinity, or an underflow to zero.
pub(super) fn in_range(
    operation: Operation,
    left: &dyn Datum,
    right: &dyn Datum,
    result: ArrayRef,
) -> Result<ArrayRef> {
    match result.data_type() {
        DataType::Float32 => of_type::<Float32Type>(operation, left, right, result),
        DataType::Float64 => of_type::<Float64Type>(operation, left, right, result),
        _ => Ok(result),
    }
}

fn of_type<T: ArrowPrimitiveType<Native: Into<f64>>>(
    operation: Operation,
    left: &dyn Datum,
    right: &dyn Datum,
    result: ArrayRef,
) -> Result<ArrayRef> {
    let values = result.as_primitive::<T>();
    let may_be_zero = matches!(operation, Operation::Add | Operation::Subtract);
    let is_plain = |value: &T::Native| {
        let value: f64 = (*value).into();
        value.is_finite() && (may_be_zero || value != 0.0)
    };
    if values.values().iter().all(is_plain) {
        return Ok(result);
    }
    let (left, right) = (FloatOperand::<T>::of(left), FloatOperand::<T>::of(right));
    let mut has_nan = false;
    for (row, value) in values.iter().enumerate() {
        let (Some(value), Some(left), Some(right)) = (value, left.value(row), right.value(row))
        else {
            continue;
        };
        let value: f64 = value.into();
        has_nan |= value.is_nan();
        let (overflows, underflows) = match operation {
            Operation::Add | Operation::Subtract => (left.is_finite() && right.is_finite(), false),
            Operation::Multiply => {
                (left.is_finite() && right.is_finite(), left != 0.0 && right != 0.0)
            }
            Operation::Divide => (left.is_finite(), left != 0.0 && !right.is_infinite()),
            Operation::Modulo => (false, false),
        };
        if value.is_infinite() && overflows {
            return Err(out_of_range("value out of range: overflow"));
        }
        if value == 0.0 && underflows {
            return Err(out_of_range("value out of range: underflow"));
        }
    }
    Ok(if has_nan { with_one_nan(&result) } else { result })
}

fn out_of_range(message: &str) -> datafusion::error::DataFusionError {
    to_datafusion(Error::new(ErrorKind::NumericOutOfRange, message))
}

/// One operand of an operation: a value for each row, or a constant for all rows.
struct FloatOperand<'a, T: ArrowPrimitiveType> {
    values: &'a PrimitiveArray<T>,
    is_constant: bool,
}

impl<'a, T: ArrowPrimitiveType<Native: Into<f64>>> FloatOperand<'a, T> {
    fn of(datum: &'a dyn Datum) -> Self {
        let (values, is_constant) = datum.get();
        Self { values: values.as_primitive::<T>(), is_constant }
    }

    fn value(&self, row: usize) -> Option<f64> {
        let row = if self.is_constant { 0 } else { row };
        self.values.is_valid(row).then(|| self.values.value(row).into())
    }
}
