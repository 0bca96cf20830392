//! Operators: PostgreSQL's operators between types, overflow errors, patterns, and unknown results
//! (NULL).

pub(crate) mod array_membership;
pub(crate) mod checked_arithmetic;
pub(crate) mod comparison_check;
pub(crate) mod like;
pub(crate) mod null_members;
pub(crate) mod regular_expressions;
pub(crate) mod smallint_shifts;
