//! Equality and order of floats, jsonb, arrays, intervals and records, in sorts, groups, joins and
//! set operations.

pub(crate) mod by_length;
pub mod float_keys;
pub(crate) mod jsonb_keys;
pub(crate) mod key_rewrite;
pub(crate) mod list_nulls;
pub(crate) mod list_order;
pub(crate) mod records;
