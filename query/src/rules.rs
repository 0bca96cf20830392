//! Rules and functions that make DataFusion keep PostgreSQL's promises: arithmetic that
//! fails instead of wrapping, functions that stay within a budget.

pub mod aliases;
pub mod bounded;
pub mod bytes;
pub mod checked;
pub mod date_trunc;
pub mod domain;
pub mod far_times;
pub mod floats;
pub mod guarded;
pub mod interval;
pub mod lateral_rows;
pub mod literals;
pub mod ordered_scan;
pub mod rounding;
pub mod staged_filter;
pub mod sums;
pub mod times;
