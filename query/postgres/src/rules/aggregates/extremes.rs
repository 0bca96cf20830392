//! Makes `min`, `max`, `least` and `greatest` of floats follow PostgreSQL's order: NaN is greater
//! than all other values, and 0 equals -0.
//!
//! - `min` and `max` by group: for a group with NaN, DataFusion returns the last value next to a
//!   NaN.
//! - `least` and `greatest`: of equal values, the first counts. DataFusion takes -0 as less than 0.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray},
    datatypes::{DataType, Float32Type, Float64Type},
};
use datafusion::{
    common::Result,
    logical_expr::{
        AggregateUDF, ColumnarValue, GroupsAccumulator, ScalarFunctionArgs, ScalarUDF,
        function::AccumulatorArgs,
    },
    scalar::ScalarValue,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

use crate::rules::layers::{self, AggregateLayer, ScalarLayer};

/// Wraps `min` and `max` to use PostgreSQL's order of floats. Other functions stay unchanged.
pub fn of_floats(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "min" => layers::aggregate(function, FloatExtreme { greatest: false }),
        "max" => layers::aggregate(function, FloatExtreme { greatest: true }),
        _ => function,
    }
}

/// Wraps `least` and `greatest` to use PostgreSQL's order of floats. Other functions stay
/// unchanged.
pub fn among_floats(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match function.name() {
        "least" => layers::scalar(function, FloatExtreme { greatest: false }),
        "greatest" => layers::scalar(function, FloatExtreme { greatest: true }),
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FloatExtreme {
    greatest: bool,
}

impl FloatExtreme {
    /// The least or greatest value of each row. All arrays have the type `T` and `rows` values.
    fn of_rows<T: ArrowPrimitiveType>(&self, arrays: &[ArrayRef], rows: usize) -> ArrayRef
    where
        T::Native: PartialOrd,
    {
        let wanted = if self.greatest { Ordering::Greater } else { Ordering::Less };
        let arrays: Vec<&PrimitiveArray<T>> =
            arrays.iter().filter_map(|array| array.as_primitive_opt()).collect();
        let extreme = |row: usize| {
            let values = arrays.iter().filter(|array| array.is_valid(row));
            values
                .map(|array| array.value(row))
                .reduce(|best, value| if order(value, best) == wanted { value } else { best })
        };
        Arc::new((0..rows).map(extreme).collect::<PrimitiveArray<T>>())
    }
}

/// PostgreSQL's order of floats.
fn order<T: PartialOrd>(a: T, b: T) -> Ordering {
    let is_nan = |value: &T| value.partial_cmp(value).is_none();
    a.partial_cmp(&b).unwrap_or_else(|| is_nan(&a).cmp(&is_nan(&b)))
}

impl ScalarLayer for FloatExtreme {
    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = arguments.return_field.data_type().clone();
        let is_same = |argument: &ColumnarValue| argument.data_type() == data_type;
        if !data_type.is_floating() || !arguments.args.iter().all(is_same) {
            return inner.invoke_with_args(arguments);
        }
        let is_constant =
            arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let arrays = arguments.args.iter().map(|argument| argument.to_array(rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let extremes = match data_type {
            DataType::Float64 => self.of_rows::<Float64Type>(&arrays, rows),
            DataType::Float32 => self.of_rows::<Float32Type>(&arrays, rows),
            _ => return inner.invoke_with_args(arguments),
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&extremes, 0)?),
            false => ColumnarValue::Array(extremes),
        })
    }
}

impl AggregateLayer for FloatExtreme {
    fn groups_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match arguments.return_field.data_type() {
            DataType::Float32 => {
                of::<Float32Type>(self.greatest, f32::NEG_INFINITY, f32::NAN, |value| {
                    value.is_nan()
                })
            }
            DataType::Float64 => {
                of::<Float64Type>(self.greatest, f64::NEG_INFINITY, f64::NAN, |value| {
                    value.is_nan()
                })
            }
            _ => return inner.create_groups_accumulator(arguments),
        })
    }
}

/// An accumulator for `min` or `max` of many groups. `least` and `most` are the least and the
/// greatest value of the type.
fn of<T: ArrowPrimitiveType + Send>(
    greatest: bool,
    least: T::Native,
    most: T::Native,
    is_nan: fn(T::Native) -> bool,
) -> Box<dyn GroupsAccumulator>
where
    T::Native: PartialOrd,
{
    match greatest {
        true => {
            let keep = move |kept: &mut T::Native, value: T::Native| {
                if is_nan(value) || value > *kept {
                    *kept = value;
                }
            };
            let groups = PrimitiveGroupsAccumulator::<T, _>::new(&T::DATA_TYPE, keep);
            Box::new(groups.with_starting_value(least))
        }
        false => {
            let keep = move |kept: &mut T::Native, value: T::Native| {
                if is_nan(*kept) || value < *kept {
                    *kept = value;
                }
            };
            let groups = PrimitiveGroupsAccumulator::<T, _>::new(&T::DATA_TYPE, keep);
            Box::new(groups.with_starting_value(most))
        }
    }
}
