//! PostgreSQL's SQL on DataFusion: syntax, names, types, errors and the semantics of plans.
//!
//! *What it is*: the differences between PostgreSQL and DataFusion. A parser around sqlparser,
//! rewrites of the parser's tree, rules over plans, and errors with SQLSTATEs and PostgreSQL's
//! messages.
//!
//! *What it deliberately is not*: a session, a table or a store. The crate executes no statement.
//! It resolves names of tables through [`names::NameResolver`].
//!
//! *Data path*: text → [`parse`] → tree → [`checks`], [`names`], [`dialect`] → tree for DataFusion →
//! [`planning`] → logical plan → [`rules`] → plan. [`state`] registers the rules; [`errors`]
//! converts the errors of DataFusion and Arrow.

pub mod checks;
pub mod dialect;
pub mod errors;
pub mod names;
pub mod parameters;
pub mod parse;
pub mod planning;
pub mod redact;
pub mod rules;
pub mod state;
pub mod types;
pub use stratalog_functions::walk;

/// The name of the schema in which the planner looks up unqualified table names.
pub const SEARCH_PATH_SCHEMA: &str = "$search_path";
