//! Corrects `bit_xor(DISTINCT x)` with GROUP BY. DataFusion's accumulator for many groups ignores
//! DISTINCT, and its partial result does not have the declared type.

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, function::AccumulatorArgs};

use crate::rules::layers::{self, AggregateLayer};

/// Wraps `bit_xor` to use a separate accumulator for each group in a call with DISTINCT. Other
/// functions stay unchanged.
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
