//! `bit_xor(DISTINCT x)` in groups. DataFusion's accumulator of many groups ignores DISTINCT, and
//! its partial result has another type than the declared type.

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, function::AccumulatorArgs};

use crate::rules::layers::{self, AggregateLayer};

/// `function` with one accumulator for each group if a call has DISTINCT, if `function` is
/// `bit_xor`.
pub fn group_by_group(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "bit_xor" => layers::aggregate(function, DistinctBits),
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DistinctBits;

impl AggregateLayer for DistinctBits {
    fn groups_accumulator_supported(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> bool {
        !arguments.is_distinct && inner.groups_accumulator_supported(arguments)
    }
}
