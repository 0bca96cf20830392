//! Aggregates of floats whose result may be NaN: it is the one NaN of all floats, whatever its sign.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, EmitTo, GroupsAccumulator, function::AccumulatorArgs,
    },
};

use super::layers::{self, AggregateLayer};

/// `function` with one NaN, if it computes floats.
pub fn of_results(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "sum" | "avg" | "corr" | "covar_samp" | "covar_pop" => layers::aggregate(function, OneNan),
        name if name.starts_with("regr_") => layers::aggregate(function, OneNan),
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OneNan;

impl AggregateLayer for OneNan {
    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let is_floating = arguments.return_field.data_type().is_floating();
        let of_inner = inner.accumulator(arguments)?;
        Ok(if is_floating { Box::new(One(of_inner)) } else { of_inner })
    }

    fn sliding_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let is_floating = arguments.return_field.data_type().is_floating();
        let of_inner = inner.create_sliding_accumulator(arguments)?;
        Ok(if is_floating { Box::new(One(of_inner)) } else { of_inner })
    }

    fn groups_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let is_floating = arguments.return_field.data_type().is_floating();
        let of_inner = inner.create_groups_accumulator(arguments)?;
        Ok(if is_floating { Box::new(Groups(of_inner)) } else { of_inner })
    }
}

fn positive(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(value)) if value.is_nan() => ScalarValue::Float64(Some(f64::NAN)),
        ScalarValue::Float32(Some(value)) if value.is_nan() => ScalarValue::Float32(Some(f32::NAN)),
        other => other,
    }
}

/// The result of one group.
#[derive(Debug)]
struct One(Box<dyn Accumulator>);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate().map(positive)
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }
}

/// The results of many groups.
struct Groups(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.0.update_batch(values, groups, filter, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(super::float_keys::with_one_nan(&self.0.evaluate(emit)?))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.0.merge_batch(values, groups, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
