//! Looks up the tables and functions of a session by their names.

use std::sync::Arc;

use stratalog_model::{ChronicleDefinition, Result};

/// Resolves the names of a statement in the scope of a session.
pub trait NameResolver: Sync {
    /// The table of events that a string names.
    ///
    /// # Errors
    /// `UndefinedTable`, `WrongObjectType`.
    fn table_named(&self, name: &str) -> Result<Arc<ChronicleDefinition>>;

    /// The schema and the name of the table that the name parts denote. With an explicit schema,
    /// the table need not exist.
    fn identity(&self, parts: &[String]) -> Option<(String, String)>;

    /// The column of a table with the tick of each event, which is never NULL; `None` for tables
    /// that do not store events.
    fn tick_column(&self, parts: &[String]) -> Option<String>;

    /// Whether `name` is the name of the session's database.
    fn is_database(&self, name: &str) -> bool;

    /// Whether an aggregate with this name, in lower case, exists.
    fn is_aggregate(&self, name: &str) -> bool;

    /// Whether a window function with this name, in lower case, exists.
    fn is_window(&self, name: &str) -> bool;

    /// Whether a scalar function with this name, in lower case, exists.
    fn is_scalar(&self, name: &str) -> bool;
}
