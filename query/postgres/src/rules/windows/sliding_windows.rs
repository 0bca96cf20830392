//! Aggregates over sliding windows that never subtract a value that leaves the window: a
//! subtraction of floats leaves a rounding error, and cannot remove NaN and infinity. Aggregates
//! without a subtraction also work over sliding windows.
//!
//! ```text
//!         oldest                                newest
//!   rows  r0     r1     r2     r3  │  r4     r5     r6
//!         r0…r3  r1…r3  r2…r3  r3  │  r4…r6
//!         └ one partial for each ┘ │  └ one for all of them
//! ```
//!
//! The result combines two partial results: from the oldest row in the window to the end of the
//! left side, and for all rows on the right side. When all rows on the left have left the window,
//! the rows on the right become the rows on the left. Each row is aggregated twice, for any width
//! of the window. A narrow window is aggregated row by row for each result, so that its float sums
//! equal PostgreSQL's sums in every digit.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::{
    common::Result,
    logical_expr::{Accumulator, AggregateUDF, function::AccumulatorArgs},
    physical_expr::{PhysicalExpr, PhysicalSortExpr},
};

use crate::rules::layers::{self, AggregateLayer};

pub mod floats;
mod frame;
mod partial_results;

/// Wraps aggregates that would subtract floats, or that cannot subtract, to work over sliding
/// windows. Other functions stay unchanged.
pub fn without_subtraction(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "sum" | "avg" | "var" | "var_pop" | "stddev" | "stddev_pop" | "corr" | "covar_samp"
        | "covar_pop" | "bool_and" | "bool_or" | "string_agg" | "bit_and" | "bit_or"
        | "any_value" => layers::aggregate(function, SlidingAggregate),
        name if name.starts_with("regr_") => layers::aggregate(function, SlidingAggregate),
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SlidingAggregate;

impl AggregateLayer for SlidingAggregate {
    fn sliding_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let floating = arguments
            .expr_fields
            .iter()
            .all(|field| matches!(field.data_type(), DataType::Float32 | DataType::Float64));
        if !floating && matches!(inner.name(), "sum" | "avg") {
            return inner.create_sliding_accumulator(arguments);
        }
        let kind = floats::FloatAggregate::of(inner.name());
        match kind {
            Some(kind) if floating && !arguments.is_distinct => {
                let result = arguments.return_field.data_type().clone();
                Ok(Box::new(floats::Floats::new(kind, result)))
            }
            _ => Ok(Box::new(partial_results::PartialResults::new(AccumulatorFactory::new(
                inner, &arguments,
            ))?)),
        }
    }
}

/// Creates DataFusion's accumulators, each for some rows of the window.
struct AccumulatorFactory {
    function: AggregateUDF,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl std::fmt::Debug for AccumulatorFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccumulatorFactory").field("name", &self.name).finish_non_exhaustive()
    }
}

impl AccumulatorFactory {
    fn new(function: &AggregateUDF, arguments: &AccumulatorArgs<'_>) -> Self {
        Self {
            function: function.clone(),
            return_field: Arc::clone(&arguments.return_field),
            schema: arguments.schema.clone(),
            ignore_nulls: arguments.ignore_nulls,
            order_bys: arguments.order_bys.to_vec(),
            is_reversed: arguments.is_reversed,
            name: arguments.name.to_string(),
            is_distinct: arguments.is_distinct,
            exprs: arguments.exprs.to_vec(),
            expr_fields: arguments.expr_fields.to_vec(),
        }
    }

    fn make(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

#[cfg(test)]
mod tests;
