//! The functions `width_bucket`, `div` and `sign`.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Decimal128Array, Int32Array},
    compute::cast,
    datatypes::{DataType, Decimal128Type, Decimal256Type, FieldRef, Float64Type, i256},
    row::{RowConverter, SortField},
};
use datafusion::{
    common::{Result, plan_err},
    logical_expr::type_coercion::binary::comparison_coercion,
};
use stratalog_model::{ColumnType, Error, ErrorKind};

use crate::{
    failed,
    function::{Arguments, Function, Parameter, Returns},
};

use Parameter::{Any, Array as List, Double, Integer, Numeric};

/// The SQL functions that this module declares.
pub fn functions() -> Vec<Function> {
    vec![
        Function::immutable(
            "width_bucket",
            &[
                &[Numeric, Numeric, Numeric, Integer],
                &[Double, Double, Double, Integer],
                &[Any, List],
            ],
            Returns::Type(ColumnType::Integer),
            "The number of the bucket of a value, with a given number of equal buckets between two bounds: 0 below the first bucket, the number of buckets plus 1 above the last bucket. Or with an array of lower bounds of the buckets in ascending order.",
            width_bucket,
        ),
        Function::immutable(
            "div",
            &[&[Numeric, Numeric]],
            Returns::Type(ColumnType::Numeric { precision: 38, scale: 0 }),
            "The quotient of two numerics, without the fraction.",
            quotients,
        ),
        Function::immutable(
            "sign",
            &[&[Numeric], &[Double]],
            Returns::Rule(type_of_sign),
            "-1, 0 or 1 as a number is below, at or above zero; 0 for NaN.",
            signs,
        ),
    ]
}

fn type_of_sign(arguments: &[FieldRef]) -> Result<DataType> {
    Ok(match arguments.first().map(|field| field.data_type()) {
        Some(DataType::Decimal128(_, _)) => DataType::Decimal128(38, 0),
        _ => DataType::Float64,
    })
}

fn signs(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let numbers = arguments.array(0)?;
    if let Some(numbers) = numbers.as_primitive_opt::<Decimal128Type>() {
        let signs: Decimal128Array = numbers.unary(i128::signum);
        return Ok(Arc::new(signs.with_precision_and_scale(38, 0)?));
    }
    // Every comparison with NaN is false, so the sign of NaN is 0.
    let sign = |number: f64| f64::from(i8::from(number > 0.0) - i8::from(number < 0.0));
    Ok(Arc::new(arguments.doubles(0)?.unary::<_, Float64Type>(sign)))
}

/// Converts argument `at` to decimals with `scale` digits after the point. The type is wide enough
/// that products do not overflow.
fn exact(arguments: &Arguments<'_>, at: usize, scale: i8) -> Result<ArrayRef> {
    Ok(cast(arguments.array(at)?, &DataType::Decimal256(76, scale))?)
}

/// The largest scale (number of digits after the point) of the first `count` arguments.
fn common_scale(arguments: &Arguments<'_>, count: usize) -> i8 {
    let scales = arguments.arrays.iter().take(count).map(|array| match array.data_type() {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    });
    scales.max().unwrap_or(0)
}

fn quotients(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let scale = common_scale(arguments, 2);
    let (left, right) = (exact(arguments, 0, scale)?, exact(arguments, 1, scale)?);
    let (left, right) =
        (left.as_primitive::<Decimal256Type>(), right.as_primitive::<Decimal256Type>());
    let quotient = |left: i256, right: i256| -> Result<i128, Error> {
        if right == i256::ZERO {
            return Err(Error::new(ErrorKind::DivisionByZero, "division by zero"));
        }
        left.checked_div(right)
            .and_then(i256::to_i128)
            .filter(|quotient| quotient.unsigned_abs() < 10_u128.pow(38))
            .ok_or_else(|| Error::new(ErrorKind::NumericOutOfRange, "numeric out of range"))
    };
    let values: Decimal128Array = left
        .iter()
        .zip(right)
        .map(|pair| match pair {
            (Some(left), Some(right)) => quotient(left, right).map(Some).map_err(failed),
            _ => Ok(None),
        })
        .collect::<Result<_>>()?;
    Ok(Arc::new(values.with_precision_and_scale(38, 0)?))
}

fn width_bucket(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    if arguments.arrays.len() == 2 {
        return among_thresholds(arguments);
    }
    let counts = arguments.integers(3)?;
    let floating = *arguments.array(0)?.data_type() == DataType::Float64;
    let scale = common_scale(arguments, 3);
    let numbers = |at: usize| match floating {
        true => arguments.array(at).cloned(),
        false => exact(arguments, at, scale),
    };
    let (values, lows, highs) = (numbers(0)?, numbers(1)?, numbers(2)?);
    let bucket = |row: usize| -> Result<Option<i32>> {
        if [&values, &lows, &highs].iter().any(|array| array.is_null(row)) || counts.is_null(row) {
            return Ok(None);
        }
        let count = i32::try_from(counts.value(row)).ok().filter(|count| *count > 0);
        let count = count.ok_or_else(|| failed(no_buckets("count must be greater than zero")))?;
        let found = if floating {
            let at = |array: &ArrayRef| array.as_primitive::<Float64Type>().value(row);
            floating_bucket(at(&values), at(&lows), at(&highs), count)
        } else {
            let at = |array: &ArrayRef| array.as_primitive::<Decimal256Type>().value(row);
            exact_bucket(at(&values), at(&lows), at(&highs), count)
        };
        found.map(Some).map_err(failed)
    };
    let buckets = (0..arguments.rows).map(bucket).collect::<Result<Int32Array>>()?;
    Ok(Arc::new(buckets))
}

fn no_buckets(message: &str) -> Error {
    Error::new(ErrorKind::InvalidWidthBucket, message)
}

fn beyond(count: i32) -> Result<i32, Error> {
    count
        .checked_add(1)
        .ok_or_else(|| Error::new(ErrorKind::NumericOutOfRange, "integer out of range"))
}

fn floating_bucket(value: f64, low: f64, high: f64, count: i32) -> Result<i32, Error> {
    if value.is_nan() || low.is_nan() || high.is_nan() {
        return Err(no_buckets("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(no_buckets("lower and upper bounds must be finite"));
    }
    // Descending buckets become ascending buckets when all values are negated.
    let (value, low, high) = if low > high { (-value, -low, -high) } else { (value, low, high) };
    match low.partial_cmp(&high) {
        Some(Ordering::Less) if value < low => Ok(0),
        Some(Ordering::Less) if value >= high => beyond(count),
        Some(Ordering::Less) => {
            // All terms are halved, because the distance of the widest possible bounds would
            // overflow.
            let width = high / 2.0 - low / 2.0;
            let share = f64::from(count) * ((value / 2.0 - low / 2.0) / width);
            #[expect(clippy::cast_possible_truncation, reason = "from 0 to count, an i32")]
            let passed = share as i32;
            Ok(passed.saturating_add(1).min(count))
        }
        _ => Err(no_buckets("lower bound cannot equal upper bound")),
    }
}

fn exact_bucket(value: i256, low: i256, high: i256, count: i32) -> Result<i32, Error> {
    let overflow = || Error::new(ErrorKind::NumericOutOfRange, "numeric out of range");
    let down = low > high;
    let outside = |value: i256, bound: i256| if down { value > bound } else { value < bound };
    if low == high {
        return Err(no_buckets("lower bound cannot equal upper bound"));
    }
    if outside(value, low) {
        return Ok(0);
    }
    if !outside(value, high) {
        return beyond(count);
    }
    let width = high.checked_sub(low).ok_or_else(overflow)?;
    let share = value
        .checked_sub(low)
        .and_then(|share| share.checked_mul(i256::from_i128(i128::from(count))))
        .and_then(|share| share.checked_div(width))
        .and_then(i256::to_i128)
        .and_then(|share| i32::try_from(share).ok());
    share.and_then(|share| share.checked_add(1)).ok_or_else(overflow)
}

/// Computes `width_bucket(value, thresholds)`: the number of thresholds that are not above the
/// value. The thresholds must ascend.
fn among_thresholds(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (values, thresholds) = (arguments.array(0)?, arguments.array(1)?);
    let item = match thresholds.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type().clone()
        }
        other => other.clone(),
    };
    let Some(common) = comparison_coercion(values.data_type(), &item) else {
        return plan_err!(
            "function width_bucket({}, {}[]) does not exist",
            values.data_type(),
            item
        );
    };
    let values = cast(values, &common)?;
    let converter = RowConverter::new(vec![SortField::new(common.clone())])?;
    let wanted = converter.convert_columns(&[Arc::clone(&values)])?;
    let mut buckets = Vec::with_capacity(arguments.rows);
    let lists = cast(
        thresholds,
        &DataType::List(Arc::new(arrow::datatypes::Field::new_list_field(common, true))),
    )?;
    let lists = lists.as_list::<i32>();
    for row in 0..arguments.rows {
        if values.is_null(row) || lists.is_null(row) {
            buckets.push(None);
            continue;
        }
        let bounds = lists.value(row);
        if bounds.null_count() > 0 {
            return Err(failed(Error::new(
                ErrorKind::NullNotAllowed,
                "thresholds array must not contain NULLs",
            )));
        }
        let bounds = converter.convert_columns(&[bounds])?;
        let value = wanted.row(row);
        let (mut from, mut to) = (0, bounds.num_rows());
        while from < to {
            let middle = usize::midpoint(from, to);
            if bounds.row(middle) > value { to = middle } else { from = middle + 1 }
        }
        buckets.push(i32::try_from(from).ok());
    }
    Ok(Arc::new(Int32Array::from(buckets)))
}

#[cfg(test)]
mod tests;
