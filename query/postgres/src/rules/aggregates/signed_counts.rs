//! Counts as bigint, like in PostgreSQL. Some of DataFusion's aggregates return unsigned numbers,
//! with which `regr_count(x, y) / 2` would be a numeric.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BooleanArray},
    compute::cast,
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, EmitTo, GroupsAccumulator, StatisticsArgs,
        function::AccumulatorArgs,
    },
};

use crate::rules::layers::{self, AggregateLayer};

/// `function` with a bigint as result, if `function` returns an unsigned count.
pub fn of_results(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "regr_count" | "approx_distinct" => layers::aggregate(function, SignedCount),
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SignedCount;

impl AggregateLayer for SignedCount {
    fn return_type(&self, _: &AggregateUDF, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let field = unsigned(&arguments);
        let inner = inner.accumulator(AccumulatorArgs { return_field: field, ..arguments })?;
        Ok(Box::new(SignedAccumulator { inner }))
    }

    fn sliding_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let arguments = AccumulatorArgs { return_field: unsigned(&arguments), ..arguments };
        let inner = inner.create_sliding_accumulator(arguments)?;
        Ok(Box::new(SignedAccumulator { inner }))
    }

    fn groups_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let arguments = AccumulatorArgs { return_field: unsigned(&arguments), ..arguments };
        Ok(Box::new(SignedGroups { inner: inner.create_groups_accumulator(arguments)? }))
    }

    fn default_value(&self, inner: &AggregateUDF, _: &DataType) -> Result<ScalarValue> {
        inner.default_value(&DataType::UInt64)?.cast_to(&DataType::Int64)
    }

    fn value_from_stats(
        &self,
        inner: &AggregateUDF,
        arguments: &StatisticsArgs<'_>,
    ) -> Option<ScalarValue> {
        inner.value_from_stats(arguments)?.cast_to(&DataType::Int64).ok()
    }
}

/// The field of the result below the layer.
fn unsigned(arguments: &AccumulatorArgs<'_>) -> FieldRef {
    Arc::new(Field::clone(&arguments.return_field).with_data_type(DataType::UInt64))
}

/// The count of one group.
#[derive(Debug)]
struct SignedAccumulator {
    inner: Box<dyn Accumulator>,
}

impl Accumulator for SignedAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()?.cast_to(&DataType::Int64)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// The counts of many groups.
struct SignedGroups {
    inner: Box<dyn GroupsAccumulator>,
}

impl GroupsAccumulator for SignedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, groups, filter, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(cast(&self.inner.evaluate(emit)?, &DataType::Int64)?)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.inner.merge_batch(values, groups, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
