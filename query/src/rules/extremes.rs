//! `min` and `max` of floats by group: NaN is greater than all other values, like in PostgreSQL.
//! For a group with NaN, DataFusion returns the last value next to a NaN.

use std::sync::Arc;

use arrow::{
    array::ArrowPrimitiveType,
    datatypes::{DataType, Float32Type, Float64Type},
};
use datafusion::{
    common::Result,
    logical_expr::{AggregateUDF, GroupsAccumulator, function::AccumulatorArgs},
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

use super::layers::{self, AggregateLayer};

/// `function` with PostgreSQL's order of floats, if `function` is `min` or `max`.
pub fn of_floats(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "min" => layers::aggregate(function, Extreme { greatest: false }),
        "max" => layers::aggregate(function, Extreme { greatest: true }),
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Extreme {
    greatest: bool,
}

impl AggregateLayer for Extreme {
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

/// `least` and `most` are the ends of the order.
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
