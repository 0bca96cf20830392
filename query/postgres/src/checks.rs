//! Checks of statements before planning: refuses forms that PostgreSQL refuses, and forms that the
//! planner would silently ignore.

pub mod ambiguous_names;
pub mod complexity;
pub mod ignored_clauses;
pub mod recursion;
pub mod unsupported_statements;
