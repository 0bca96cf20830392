//! Checks statements before planning: refuses syntax that PostgreSQL refuses, and syntax that the
//! planner would silently ignore.

pub mod ambiguous_names;
pub mod complexity;
pub mod ignored_clauses;
pub mod recursion;
pub mod unsupported_statements;
