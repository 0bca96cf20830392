//! `percentile_cont` with a fraction of any precision; DataFusion's function rounds the fraction to
//! six decimal places.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Float64Array, ListArray},
    buffer::OffsetBuffer,
    compute::cast,
    datatypes::{DataType, Field, Float64Type},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{Accumulator, AggregateUDF, function::AccumulatorArgs},
    physical_expr::expressions::Literal,
};
use stratalog_model::Error;

use crate::{
    errors::to_datafusion,
    rules::layers::{self, AggregateLayer},
};

/// Wraps `percentile_cont` to use all digits of the fraction. Other functions stay unchanged.
pub fn exact(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "percentile_cont" => layers::aggregate(function, ExactPercentile),
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ExactPercentile;

impl AggregateLayer for ExactPercentile {
    fn return_type(&self, inner: &AggregateUDF, arguments: &[DataType]) -> Result<DataType> {
        Ok(match inner.return_type(arguments)? {
            DataType::Float32 => DataType::Float64,
            other => other,
        })
    }

    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let fraction = match arguments.exprs.get(1).map(|expr| expr.downcast_ref::<Literal>()) {
            Some(Some(literal)) => literal.value().cast_to(&DataType::Float64)?,
            _ => ScalarValue::Float64(None),
        };
        let descending = arguments.order_bys.first().is_some_and(|sort| sort.options.descending);
        let result = arguments.return_field.data_type().clone();
        let of_floats = arguments.expr_fields.first().is_some_and(|field| {
            matches!(field.data_type(), DataType::Float32 | DataType::Float64)
        });
        let is_distinct = arguments.is_distinct;
        // The accumulator of DataFusion's function checks the arguments.
        let inner = inner.accumulator(arguments)?;
        match fraction {
            ScalarValue::Float64(Some(fraction)) if of_floats && !is_distinct => {
                Ok(Box::new(PercentileAccumulator {
                    values: Vec::new(),
                    fraction,
                    descending,
                    result,
                }))
            }
            _ => Ok(inner),
        }
    }

    fn groups_accumulator_supported(&self, _: &AggregateUDF, _: AccumulatorArgs<'_>) -> bool {
        false
    }
}

/// Collects the non-NULL values of a group.
#[derive(Debug)]
struct PercentileAccumulator {
    values: Vec<f64>,
    fraction: f64,
    descending: bool,
    result: DataType,
}

impl PercentileAccumulator {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let values = cast(values, &DataType::Float64)?;
        self.values.extend(values.as_primitive::<Float64Type>().iter().flatten());
        Ok(())
    }
}

fn first_array(arrays: &[ArrayRef]) -> Result<&ArrayRef> {
    arrays.first().ok_or_else(|| to_datafusion(Error::internal("a percentile is of values")))
}

/// The value at `fraction` of the sorted values, interpolated between the two nearest values.
fn interpolated(sorted: &[f64], fraction: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    #[expect(clippy::cast_precision_loss, reason = "as PostgreSQL computes it")]
    let place = fraction * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "fractions are between 0 and 1"
    )]
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let (low, high) = (sorted.get(below)?, sorted.get(above)?);
    Some(if below == above { *low } else { low + (place - place.floor()) * (high - low) })
}

impl Accumulator for PercentileAccumulator {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.add(first_array(arrays)?)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        first_array(states)?
            .as_list::<i32>()
            .iter()
            .flatten()
            .try_for_each(|values| self.add(&values))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = Float64Array::from(std::mem::take(&mut self.values));
        let values = cast(&values, &self.result)?;
        let field = Arc::new(Field::new_list_field(self.result.clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::try_new(field, offsets, values, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut values = self.values.clone();
        // NaN sorts after all other values.
        values.sort_unstable_by(|left, right| {
            left.partial_cmp(right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
        });
        if self.descending {
            values.reverse();
        }
        ScalarValue::Float64(interpolated(&values, self.fraction)).cast_to(&self.result)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_keep_their_digits() {
        assert_eq!(interpolated(&[], 0.5), None);
        assert_eq!(interpolated(&[2.0], 0.3), Some(2.0));
        assert_eq!(interpolated(&[0.0, 1.0], 0.123_456_789), Some(0.123_456_789));
        assert_eq!(interpolated(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
    }
}
