//! Variances and standard deviations of floats in PostgreSQL's steps: the results equal
//! PostgreSQL's in every digit, and are NaN if a value is not finite. DataFusion returns 0 for a
//! single value that is not finite.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, BooleanArray, Float64Array},
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Float64Type},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, EmitTo, GroupsAccumulator,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};
use stratalog_model::Error;

use super::{
    layers::{self, AggregateLayer},
    sliding_windows::floats::{FloatAggregate, FloatMoments},
};
use crate::errors::to_datafusion;

/// `function` in PostgreSQL's steps, if `function` is a variance or a standard deviation.
pub fn in_steps(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match FloatAggregate::of(function.name()) {
        Some(kind @ FloatAggregate::Spread { .. }) => {
            layers::aggregate(function, Variances { kind })
        }
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Variances {
    kind: FloatAggregate,
}

/// Names of the columns of a partial result.
const STATE: [&str; 3] = ["count", "sum", "squares"];

impl AggregateLayer for Variances {
    fn state_fields(
        &self,
        inner: &AggregateUDF,
        arguments: StateFieldsArgs<'_>,
    ) -> Result<Vec<FieldRef>> {
        if arguments.is_distinct {
            return inner.state_fields(arguments);
        }
        Ok(STATE
            .iter()
            .map(|name| format_state_name(arguments.name, name))
            .map(|name| Arc::new(Field::new(name, DataType::Float64, true)))
            .collect())
    }

    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match arguments.is_distinct {
            true => inner.accumulator(arguments),
            false => {
                Ok(Box::new(VarianceAccumulator { kind: self.kind, part: FloatMoments::default() }))
            }
        }
    }

    fn groups_accumulator(
        &self,
        _: &AggregateUDF,
        _: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(VarianceGroups { kind: self.kind, parts: Vec::new() }))
    }
}

fn doubles(array: Option<&ArrayRef>) -> Result<Float64Array> {
    let array =
        array.ok_or_else(|| to_datafusion(Error::internal("a variance needs an argument")))?;
    Ok(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// The partial results in three columns, row by row.
fn parts(states: &[ArrayRef]) -> Result<Vec<FloatMoments>> {
    let column = |at: usize| doubles(states.get(at));
    let (counts, sums, squares) = (column(0)?, column(1)?, column(2)?);
    let rows = counts.iter().zip(sums.iter()).zip(squares.iter());
    Ok(rows
        .map(|((count, sum), squares)| match (count, sum, squares) {
            (Some(count), Some(sum), Some(squares)) => FloatMoments { count, sum, squares },
            _ => FloatMoments::default(),
        })
        .collect())
}

/// The spread of one group.
#[derive(Debug)]
struct VarianceAccumulator {
    kind: FloatAggregate,
    part: FloatMoments,
}

impl Accumulator for VarianceAccumulator {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let values = doubles(arrays.first())?;
        self.part = values.iter().flatten().fold(self.part, FloatMoments::and);
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let FloatMoments { count, sum, squares } = self.part;
        Ok([count, sum, squares].map(|value| ScalarValue::Float64(Some(value))).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.part = parts(states)?.into_iter().fold(self.part, FloatMoments::with);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.part.result(self.kind)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The spreads of many groups.
#[derive(Debug)]
struct VarianceGroups {
    kind: FloatAggregate,
    parts: Vec<FloatMoments>,
}

impl VarianceGroups {
    fn columns(parts: &[FloatMoments]) -> Vec<ArrayRef> {
        let column = |of: fn(&FloatMoments) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(parts.iter().map(of)))
        };
        vec![column(|part| part.count), column(|part| part.sum), column(|part| part.squares)]
    }
}

fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    use arrow::array::Array;
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl GroupsAccumulator for VarianceGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let values = doubles(values.first())?;
        self.parts.resize(total_num_groups, FloatMoments::default());
        for (row, (group, value)) in group_indices.iter().zip(values.iter()).enumerate() {
            if let (Some(value), Some(part)) = (value, self.parts.get_mut(*group))
                && passes(opt_filter, row)
            {
                *part = part.and(value);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let parts = emit_to.take_needed(&mut self.parts);
        let results: Float64Array = parts.into_iter().map(|part| part.result(self.kind)).collect();
        Ok(Arc::new(results))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(Self::columns(&emit_to.take_needed(&mut self.parts)))
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.parts.resize(total_num_groups, FloatMoments::default());
        for (group, other) in group_indices.iter().zip(parts(states)?) {
            if let Some(part) = self.parts.get_mut(*group) {
                *part = part.with(other);
            }
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = doubles(values.first())?;
        let parts: Vec<FloatMoments> = values
            .iter()
            .enumerate()
            .map(|(row, value)| match value.filter(|_| passes(opt_filter, row)) {
                Some(value) => FloatMoments::default().and(value),
                None => FloatMoments::default(),
            })
            .collect();
        Ok(Self::columns(&parts))
    }

    fn size(&self) -> usize {
        self.parts.capacity() * size_of::<FloatMoments>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(kind: FloatAggregate, values: &[f64]) -> Option<f64> {
        values.iter().copied().fold(FloatMoments::default(), FloatMoments::and).result(kind)
    }

    #[test]
    fn spreads_are_those_of_postgresql() {
        let population = FloatAggregate::Spread { root: false, sample: false };
        let near = [100_000_003.0, 100_000_004.0, 100_000_006.0, 100_000_007.0];
        assert_eq!(spread(population, &near), Some(2.5));
        assert_eq!(spread(population, &[1.5]), Some(0.0));
        for value in [f64::NAN, f64::INFINITY] {
            assert!(spread(population, &[value]).is_some_and(f64::is_nan));
        }
        assert_eq!(spread(FloatAggregate::Spread { root: true, sample: true }, &[1.0]), None);
    }
}
