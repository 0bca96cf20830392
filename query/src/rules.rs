//! Rules and functions that make DataFusion keep PostgreSQL's promises: arithmetic that
//! fails instead of wrapping, functions that stay within a budget.

pub mod aliases;
pub mod aligned_times;
pub mod bounded;
pub mod by_length;
pub mod bytes;
pub mod checked;
pub mod common_types;
pub mod compared;
pub mod date_trunc;
pub mod digits;
pub mod domain;
pub mod each_node;
pub mod far_times;
pub mod floats;
pub mod guarded;
pub mod interval;
pub mod interval_aggregates;
pub mod kept_order;
pub mod lateral_rows;
pub mod layers;
pub mod lengths;
pub mod literals;
pub mod long_text;
pub mod moving;
pub mod opaque_casts;
pub mod open_parameters;
pub mod ordered_scan;
pub mod outer_types;
pub mod percentile;
pub mod records;
pub mod rounding;
pub mod staged_filter;
pub mod sums;
pub mod times;
pub mod truths;
