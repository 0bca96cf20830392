//! Commands to the catalog, and their results.

use std::sync::Arc;

use stratalog_model::{ChronicleDefinition, ChronicleId, ColumnType, IndexKind};

use super::state::CatalogState;
use crate::access::AccessCommand;

/// A column from CREATE TABLE or ADD COLUMN, which has no id yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewColumn {
    /// Name.
    pub name: String,
    /// Type.
    pub column_type: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The expression after DEFAULT as SQL text; validated by the caller.
    pub default_sql: Option<String>,
    /// For ADD COLUMN: the value of the column in older rows, in the text form of the type.
    pub missing_value: Option<String>,
}

/// CREATE TABLE / CHRONICLE, after parsing (F4).
#[derive(Debug, Clone, PartialEq)]
pub struct NewChronicle {
    /// Database.
    pub database: String,
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Columns in order.
    pub columns: Vec<NewColumn>,
    /// The column names of the PRIMARY KEY; the last column is the tick column. `None` if the
    /// statement declares no key. Then the tick column is the first NOT NULL timestamp column, or
    /// else the first timestamp column. If there is no timestamp column, the catalog appends a
    /// column `time TIMESTAMPTZ(9) NOT NULL DEFAULT now()`.
    pub primary_key: Option<Vec<String>>,
    /// The options in WITH (…), in order: lower-case name, and value as text.
    pub options: Vec<(String, String)>,
    /// True for IF NOT EXISTS.
    pub if_not_exists: bool,
}

/// A change of the catalog.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// CREATE DATABASE.
    CreateDatabase {
        /// The database's name.
        name: String,
        /// True if an existing database causes a notice instead of an error.
        if_not_exists: bool,
    },
    /// DROP DATABASE; fails if the database has chronicles.
    DropDatabase {
        /// The database's name.
        name: String,
        /// True if a missing database causes a notice instead of an error.
        if_exists: bool,
    },
    /// CREATE SCHEMA.
    CreateSchema {
        /// Database of the new schema.
        database: String,
        /// The schema's name.
        name: String,
        /// True if an existing schema causes a notice instead of an error.
        if_not_exists: bool,
        /// AUTHORIZATION: the name of the owner; `None` for the current role.
        owner: Option<String>,
    },
    /// DROP SCHEMA; unless `cascade` is true, fails if the schema is not empty.
    DropSchema {
        /// Database of the schema.
        database: String,
        /// The schema's name.
        name: String,
        /// True if a missing schema causes a notice instead of an error.
        if_exists: bool,
        /// True to drop the chronicles of the schema too.
        cascade: bool,
    },
    /// CREATE TABLE.
    CreateChronicle(NewChronicle),
    /// CREATE TABLE in a transaction, with an id from
    /// [`Catalog::reserve`](super::Catalog::reserve).
    CreateReserved {
        /// The id.
        id: ChronicleId,
        /// The time of the statement, in nanoseconds since 1970. Stored events may already depend
        /// on it.
        created_ns: i64,
        /// The definition of the new chronicle.
        new: NewChronicle,
    },
    /// DROP TABLE.
    DropChronicle {
        /// Database of the table.
        database: String,
        /// Schema of the table.
        schema: String,
        /// The table's name.
        name: String,
        /// True if a missing table causes a notice instead of an error.
        if_exists: bool,
    },
    /// DROP TABLE in a transaction: drops the chronicle that the statement has already found by
    /// name.
    DropKnown {
        /// The chronicle's id.
        id: ChronicleId,
    },
    /// Drops a chronicle whose events were all copied to another chronicle. Fails if the definition
    /// has changed since the copy.
    DropUnchanged {
        /// The definition when the events were copied.
        was: Box<ChronicleDefinition>,
    },
    /// ALTER TABLE … RENAME TO.
    RenameChronicle {
        /// The chronicle's id.
        id: ChronicleId,
        /// The new name, in the same schema.
        to: String,
    },
    /// ALTER TABLE … RENAME COLUMN.
    RenameColumn {
        /// The chronicle's id.
        id: ChronicleId,
        /// The column's current name.
        from: String,
        /// The column's new name.
        to: String,
    },
    /// ALTER TABLE … ADD COLUMN.
    AddColumn {
        /// The chronicle's id.
        id: ChronicleId,
        /// The column.
        column: NewColumn,
        /// True to add the column to the key: a text column that has the value '' in existing
        /// events.
        key: bool,
        /// True if an existing column causes a notice instead of an error.
        if_not_exists: bool,
    },
    /// ALTER TABLE … SET (…), for options that can change.
    SetOptions {
        /// The chronicle's id.
        id: ChronicleId,
        /// The options, in order: lower-case name, and value as text.
        options: Vec<(String, String)>,
    },
    /// CREATE INDEX … USING bloom or inverted.
    CreateIndex {
        /// The chronicle's id.
        id: ChronicleId,
        /// The name of the index; `None` for a name made from the names of the table and the
        /// columns.
        name: Option<String>,
        /// The kind of the index.
        kind: IndexKind,
        /// The names of the indexed columns.
        columns: Vec<String>,
        /// True if an existing index causes a notice instead of an error.
        if_not_exists: bool,
    },
    /// DROP INDEX.
    DropIndex {
        /// Database of the index.
        database: String,
        /// Schema of the index.
        schema: String,
        /// The index's name.
        name: String,
        /// True if a missing index causes a notice instead of an error.
        if_exists: bool,
    },
    /// COMMENT ON TABLE.
    CommentOnChronicle {
        /// The chronicle's id.
        id: ChronicleId,
        /// The text; `None` or an empty text removes the comment.
        comment: Option<String>,
    },
    /// Changes roles, rights, row policies or tokens.
    Access(AccessCommand),
    /// Creates the audit log, the chronicle `stratalog.audit`, or changes its retention time.
    PrepareAudit {
        /// The retention time of audit records in milliseconds; `None` for no end.
        retention_ms: Option<u64>,
    },
    /// COMMENT ON COLUMN.
    CommentOnColumn {
        /// The chronicle's id.
        id: ChronicleId,
        /// The column's name.
        column: String,
        /// The text; `None` or an empty text removes the comment.
        comment: Option<String>,
    },
}

impl Command {
    /// The chronicles that the command would drop in the state `state`.
    pub fn drops(&self, state: &CatalogState) -> Vec<ChronicleId> {
        match self {
            Command::DropKnown { .. }
            | Command::DropUnchanged { .. }
            | Command::DropChronicle { .. }
            | Command::DropSchema { .. } => self.changes(state),
            _ => Vec::new(),
        }
    }

    /// The chronicles that the command would change or drop in the state `state`. Commands about
    /// comments and indexes do not count, because events do not depend on comments or indexes.
    pub fn changes(&self, state: &CatalogState) -> Vec<ChronicleId> {
        match self {
            Command::DropKnown { id }
            | Command::RenameChronicle { id, .. }
            | Command::RenameColumn { id, .. }
            | Command::AddColumn { id, .. }
            | Command::SetOptions { id, .. } => vec![*id],
            Command::DropUnchanged { was } => vec![was.id],
            Command::DropChronicle { database, schema, name, .. } => {
                state.chronicle(database, schema, name).map(|found| found.id).into_iter().collect()
            }
            Command::DropSchema { database, name, .. } => {
                state.chronicles_in(database, name).map(|found| found.id).collect()
            }
            Command::CreateDatabase { .. }
            | Command::DropDatabase { .. }
            | Command::CreateSchema { .. }
            | Command::CreateChronicle(_)
            | Command::CreateReserved { .. }
            | Command::CreateIndex { .. }
            | Command::DropIndex { .. }
            | Command::CommentOnChronicle { .. }
            | Command::CommentOnColumn { .. }
            | Command::Access(_)
            | Command::PrepareAudit { .. } => Vec::new(),
        }
    }
}

/// The result of a command.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// True if the command changed anything. With IF [NOT] EXISTS, a command may change nothing.
    pub changed: bool,
    /// Reasons why a part of the command had no effect; the client gets one NOTICE for each.
    pub notices: Vec<String>,
    /// The chronicle that the last command created or changed; with IF NOT EXISTS, the existing
    /// chronicle.
    pub chronicle: Option<Arc<ChronicleDefinition>>,
    /// Dropped chronicles; the caller must tell the event store to forget them.
    pub dropped: Vec<ChronicleId>,
}
