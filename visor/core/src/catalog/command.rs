//! What the catalog is asked to do, and what came of it.

use std::sync::Arc;

use stratalog_model::{ChronicleDefinition, ChronicleId, ColumnType, IndexKind};

use super::state::CatalogState;

/// A column as CREATE TABLE or ADD COLUMN names it, before it has an id.
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
    /// PRIMARY KEY column names; the last is the tick. `None`: none was declared; the
    /// first timestamp column is the tick, and without one a column
    /// `time TIMESTAMPTZ(9) NOT NULL DEFAULT now()` is put in front.
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
        /// Its name.
        name: String,
        /// An existing one is a notice instead of an error.
        if_not_exists: bool,
    },
    /// DROP DATABASE; only when it holds no chronicle.
    DropDatabase {
        /// Its name.
        name: String,
        /// A missing one is a notice instead of an error.
        if_exists: bool,
    },
    /// CREATE SCHEMA.
    CreateSchema {
        /// Database that gets it.
        database: String,
        /// Its name.
        name: String,
        /// An existing one is a notice instead of an error.
        if_not_exists: bool,
    },
    /// DROP SCHEMA; only when empty, unless `cascade`.
    DropSchema {
        /// Database that holds it.
        database: String,
        /// Its name.
        name: String,
        /// A missing one is a notice instead of an error.
        if_exists: bool,
        /// Drops the chronicles in it, too.
        cascade: bool,
    },
    /// CREATE TABLE.
    CreateChronicle(NewChronicle),
    /// CREATE TABLE of a transaction, under an id that was [set aside](super::Catalog::reserve)
    /// for it.
    CreateReserved {
        /// The id.
        id: ChronicleId,
        /// Nanoseconds since 1970 of the statement: events may be stored by it already.
        created_ns: i64,
        /// The chronicle.
        new: NewChronicle,
    },
    /// DROP TABLE.
    DropChronicle {
        /// Database that holds it.
        database: String,
        /// Schema that holds it.
        schema: String,
        /// Its name.
        name: String,
        /// A missing one is a notice instead of an error.
        if_exists: bool,
    },
    /// DROP TABLE of a transaction: the one that its name meant then.
    DropKnown {
        /// Which chronicle.
        id: ChronicleId,
    },
    /// Drops a chronicle in favour of a chronicle with all of the same events.
    DropUnchanged {
        /// The definition at the time of the copy.
        was: Box<ChronicleDefinition>,
    },
    /// ALTER TABLE … RENAME TO.
    RenameChronicle {
        /// Which chronicle.
        id: ChronicleId,
        /// The new name, in the same schema.
        to: String,
    },
    /// ALTER TABLE … RENAME COLUMN.
    RenameColumn {
        /// Which chronicle.
        id: ChronicleId,
        /// The column's name now.
        from: String,
        /// Its name from now on.
        to: String,
    },
    /// ALTER TABLE … ADD COLUMN.
    AddColumn {
        /// Which chronicle.
        id: ChronicleId,
        /// The column.
        column: NewColumn,
        /// Whether it joins the key: a text that is '' in the events that are there.
        key: bool,
        /// An existing one is a notice instead of an error.
        if_not_exists: bool,
    },
    /// ALTER TABLE … SET (…): only options that may change.
    SetOptions {
        /// Which chronicle.
        id: ChronicleId,
        /// (lower-case name, value text), in order.
        options: Vec<(String, String)>,
    },
    /// CREATE INDEX … USING bloom or inverted.
    CreateIndex {
        /// Of which chronicle.
        id: ChronicleId,
        /// Its name; `None` for one of the table's and the columns'.
        name: Option<String>,
        /// How it tells.
        kind: IndexKind,
        /// The names of its columns.
        columns: Vec<String>,
        /// An existing one is a notice instead of an error.
        if_not_exists: bool,
    },
    /// DROP INDEX.
    DropIndex {
        /// Database that holds it.
        database: String,
        /// Schema that holds it.
        schema: String,
        /// Its name.
        name: String,
        /// A missing one is a notice instead of an error.
        if_exists: bool,
    },
    /// COMMENT ON TABLE.
    CommentOnChronicle {
        /// Which chronicle.
        id: ChronicleId,
        /// The text; `None` and the empty text remove it.
        comment: Option<String>,
    },
    /// COMMENT ON COLUMN.
    CommentOnColumn {
        /// Which chronicle.
        id: ChronicleId,
        /// The column's name.
        column: String,
        /// The text; `None` and the empty text remove it.
        comment: Option<String>,
    },
}

impl Command {
    /// The chronicles that the command drops, in a state before it.
    pub fn drops(&self, state: &CatalogState) -> Vec<ChronicleId> {
        match self {
            Command::DropKnown { .. }
            | Command::DropUnchanged { .. }
            | Command::DropChronicle { .. }
            | Command::DropSchema { .. } => self.changes(state),
            _ => Vec::new(),
        }
    }

    /// The chronicles that the command changes or drops, in a state before it. A comment or an
    /// index changes none: events do not depend on it.
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

/// What a command did.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Whether anything changed (IF [NOT] EXISTS may find nothing to do).
    pub changed: bool,
    /// What nothing was done for, and why: one NOTICE each.
    pub notices: Vec<String>,
    /// The chronicle made or changed, by the last command that has one; the existing one
    /// when IF NOT EXISTS found it.
    pub chronicle: Option<Arc<ChronicleDefinition>>,
    /// Chronicles dropped: the caller tells the store to forget them.
    pub dropped: Vec<ChronicleId>,
}
