//! Window functions: frames, offsets, peer rows, and aggregates over sliding windows.

pub(crate) mod frames;
pub(crate) mod peers;
pub(crate) mod rank_types;
pub(crate) mod row_order;
pub(crate) mod shift_types;
pub(crate) mod sliding_windows;
pub(crate) mod time_of_day_frames;
pub mod whole_frames;
pub(crate) mod window_keys;
