//! Dates, times and intervals: arithmetic, comparisons, truncation, and bins of equal length.

pub(crate) mod aligned_times;
pub(crate) mod bins;
pub(crate) mod date_shifts;
pub mod date_trunc;
pub(crate) mod far_times;
pub(crate) mod fine_bins;
pub(crate) mod interval;
pub(crate) mod lengths;
pub mod times;
