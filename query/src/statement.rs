//! Statements: parsed, prepared, executed.

pub mod copy;

use arrow::datatypes::SchemaRef;
use stratalog_model::ColumnType;

/// What kind of statement a string holds, for protocols that must tell before they run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// Reads: SELECT, VALUES, WITH, TABLE, EXPLAIN, SHOW.
    Read,
    /// INSERT, DELETE, COPY … FROM.
    Write,
    /// CREATE, ALTER, DROP, COMMENT.
    Definition,
    /// BEGIN, COMMIT, ROLLBACK and their synonyms.
    Transaction,
    /// SET, RESET, DISCARD, PREPARE, DEALLOCATE …
    Session,
}

/// One statement of a SQL string.
#[derive(Debug)]
pub struct Parsed {
    text: String,
    kind: StatementKind,
}

impl Parsed {
    /// The statement's own text, without the `;`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What kind of statement it is.
    pub fn kind(&self) -> StatementKind {
        self.kind
    }
}

/// A statement whose parameters and result are known.
#[derive(Debug)]
pub struct Prepared {
    parameter_types: Vec<ColumnType>,
    result: Option<SchemaRef>,
}

impl Prepared {
    /// The types of `$1`, `$2` …
    pub fn parameter_types(&self) -> &[ColumnType] {
        &self.parameter_types
    }

    /// Shape of the rows; `None` when the statement returns none.
    pub fn result(&self) -> Option<&SchemaRef> {
        self.result.as_ref()
    }
}
