//! Limits of functions, aggregates and planning: memory is reserved before its allocation, and a
//! cancelled statement also stops during planning.

pub(crate) mod bounded_results;
pub(crate) mod charged_aggregates;
pub(crate) mod long_text;
pub(crate) mod stoppable_rules;
