//! Commands to the catalog, and their results.

use std::sync::Arc;

use stratalog_model::{ChronicleDefinition, ChronicleId, ColumnType, IndexKind};

use super::state::CatalogState;

/// A column before it has an id, from CREATE TABLE or ADD COLUMN.
#[derive(Debug, Clone, PartialEq)]
pub struct NewColumn {
    /// Name.
    pub name: String,
    /// Type.
    pub column_type: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// DEFAULT as SQL text; validated by the caller.
    pub default_sql: Option<String>,
    /// For ADD COLUMN: the constant shown by older rows, in the text form of the type.
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
    /// PRIMARY KEY column names; the last is the tick. `None` if the statement declares no key: the
    /// tick is then the first NOT NULL timestamp column, or else the first timestamp column.
    /// Without any timestamp column, a column `time TIMESTAMPTZ(9) NOT NULL DEFAULT now()` is
    /// appended.
    pub primary_key: Option<Vec<String>>,
    /// WITH (…) options as (lower-case name, value text), in order.
    pub options: Vec<(String, String)>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
}

/// A change of the catalog.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// CREATE DATABASE.
    CreateDatabase {
        /// The database's name.
        name: String,
        /// An existing database is a notice instead of an error.
        if_not_exists: bool,
    },
    /// DROP DATABASE; only when the database holds no chronicle.
    DropDatabase {
        /// The database's name.
        name: String,
        /// A missing database is a notice instead of an error.
        if_exists: bool,
    },
    /// CREATE SCHEMA.
    CreateSchema {
        /// Database of the new schema.
        database: String,
        /// The schema's name.
        name: String,
        /// An existing schema is a notice instead of an error.
        if_not_exists: bool,
    },
    /// DROP SCHEMA; only when empty, unless `cascade`.
    DropSchema {
        /// Database of the schema.
        database: String,
        /// The schema's name.
        name: String,
        /// A missing schema is a notice instead of an error.
        if_exists: bool,
        /// Drops the schema's chronicles too.
        cascade: bool,
    },
    /// CREATE TABLE.
    CreateChronicle(NewChronicle),
    /// CREATE TABLE of a transaction, under a [reserved](super::Catalog::reserve) id.
    CreateReserved {
        /// The id.
        id: ChronicleId,
        /// Nanoseconds since 1970 of the statement: stored events may already use the time.
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
        /// A missing table is a notice instead of an error.
        if_exists: bool,
    },
    /// DROP TABLE of a transaction: drops the chronicle found by name when the statement ran.
    DropKnown {
        /// The chronicle's id.
        id: ChronicleId,
    },
    /// Drops a chronicle after all its events were copied to another chronicle. Fails if the
    /// definition has changed since the copy.
    DropUnchanged {
        /// The definition at the time of the copy.
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
        /// True if the column joins the key: a text column with the value '' in existing events.
        key: bool,
        /// An existing column is a notice instead of an error.
        if_not_exists: bool,
    },
    /// ALTER TABLE … SET (…), for changeable options only.
    SetOptions {
        /// The chronicle's id.
        id: ChronicleId,
        /// (lower-case name, value text), in order.
        options: Vec<(String, String)>,
    },
    /// CREATE INDEX … USING bloom or inverted.
    CreateIndex {
        /// The chronicle's id.
        id: ChronicleId,
        /// The index's name; `None` for a name derived from the table and the columns.
        name: Option<String>,
        /// The kind of the index.
        kind: IndexKind,
        /// The names of the indexed columns.
        columns: Vec<String>,
        /// An existing index is a notice instead of an error.
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
        /// A missing index is a notice instead of an error.
        if_exists: bool,
    },
    /// COMMENT ON TABLE.
    CommentOnChronicle {
        /// The chronicle's id.
        id: ChronicleId,
        /// The text; `None` and the empty text remove it.
        comment: Option<String>,
    },
    /// COMMENT ON COLUMN.
    CommentOnColumn {
        /// The chronicle's id.
        id: ChronicleId,
        /// The column's name.
        column: String,
        /// The text; `None` and the empty text remove it.
        comment: Option<String>,
    },
}

impl Command {
    /// The chronicles dropped by the command, for the state before the command.
    pub fn drops(&self, state: &CatalogState) -> Vec<ChronicleId> {
        match self {
            Command::DropKnown { .. }
            | Command::DropUnchanged { .. }
            | Command::DropChronicle { .. }
            | Command::DropSchema { .. } => self.changes(state),
            _ => Vec::new(),
        }
    }

    /// The chronicles changed or dropped by the command, for the state before the command. A
    /// command for a comment or an index changes no chronicle: events do not depend on comments or
    /// indexes.
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
            | Command::CommentOnColumn { .. } => Vec::new(),
        }
    }
}

/// The result of a command.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// True if anything changed (IF [NOT] EXISTS may find nothing to do).
    pub changed: bool,
    /// Reasons why parts of a command had no effect: one NOTICE each.
    pub notices: Vec<String>,
    /// The chronicle made or changed by the last command with a chronicle; with IF NOT EXISTS, the
    /// existing chronicle.
    pub chronicle: Option<Arc<ChronicleDefinition>>,
    /// Chronicles dropped: the caller makes the store forget them.
    pub dropped: Vec<ChronicleId>,
}
