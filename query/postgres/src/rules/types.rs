//! Types of expressions: untyped literals and parameters, common types, casts, and the types of
//! arithmetic results.

pub(crate) mod array_calls;
pub(crate) mod cases;
pub(crate) mod common_types;
pub(crate) mod digits;
pub(crate) mod floats;
pub(crate) mod jsonb_arrays;
pub(crate) mod literals;
pub(crate) mod named_casts;
pub(crate) mod numeric_results;
pub(crate) mod open_parameters;
pub(crate) mod relation_types;
pub(crate) mod wide_numerics;
