//! Turns subqueries into joins: correlated and LATERAL subqueries, EXISTS and IN.

pub mod as_of;
pub mod decorrelation;
pub(crate) mod lateral_rows;
pub(crate) mod mark_joins;
pub(crate) mod outer_types;
