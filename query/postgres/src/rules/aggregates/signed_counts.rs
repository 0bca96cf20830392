//! Makes `regr_count` and `approx_distinct` return a bigint, like PostgreSQL's counts. DataFusion's
//! functions return unsigned numbers, and `regr_count(x, y) / 2` would become a numeric.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, GroupsAccumulator, StatisticsArgs, function::AccumulatorArgs,
    },
};

use crate::rules::layers::{self, AggregateLayer, Converted};

/// Wraps a function that returns an unsigned count to return a bigint. Other functions stay
/// unchanged.
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
        Ok(Box::new(signed(inner.accumulator(unsigned(arguments))?)))
    }

    fn sliding_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(signed(inner.create_sliding_accumulator(unsigned(arguments))?)))
    }

    fn groups_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(signed(inner.create_groups_accumulator(unsigned(arguments))?)))
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

/// The arguments for the wrapped function, with an unsigned result.
fn unsigned(arguments: AccumulatorArgs<'_>) -> AccumulatorArgs<'_> {
    let field = Field::clone(&arguments.return_field).with_data_type(DataType::UInt64);
    AccumulatorArgs { return_field: Arc::new(field), ..arguments }
}

fn signed<A: ?Sized>(inner: Box<A>) -> Converted<A> {
    Converted { argument: None, result: DataType::Int64, inner }
}
