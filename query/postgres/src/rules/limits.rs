//! Limits of functions, aggregates and planning: memory is charged before the allocation, and a stop of
//! the statement ends the planning.

pub(crate) mod bounded_results;
pub(crate) mod charged_aggregates;
pub(crate) mod long_text;
pub(crate) mod stoppable_rules;
