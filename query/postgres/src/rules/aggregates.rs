//! Aggregates: their result types, row orders, precision, and results for NULL, NaN and infinity.

pub(crate) mod aggregate_inputs;
pub(crate) mod aggregate_orders;
pub(crate) mod canonical_nan;
pub(crate) mod distinct_bits;
pub(crate) mod distinct_sums;
pub(crate) mod extremes;
pub(crate) mod interval_aggregates;
pub(crate) mod pairs;
pub(crate) mod percentile;
pub(crate) mod real_sums;
pub(crate) mod signed_counts;
pub(crate) mod sums;
pub(crate) mod variances;
