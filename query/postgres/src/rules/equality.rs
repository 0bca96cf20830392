//! Equality and order of values: floats, jsonb, arrays, intervals and records as keys of sorts, groups,
//! joins and sets.

pub(crate) mod by_length;
pub mod float_keys;
pub(crate) mod jsonb_keys;
pub(crate) mod key_rewrite;
pub(crate) mod list_nulls;
pub(crate) mod list_order;
pub(crate) mod records;
