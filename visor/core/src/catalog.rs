//! The catalog as a log of commands.

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, ChronicleId, Clock, Collision, ColumnDefinition, ColumnType, Durability,
    Granularity, Log, Result,
};

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

/// CREATE TABLE / CHRONICLE, after parsing.
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
    CreateDatabase { name: String, if_not_exists: bool },
    /// DROP DATABASE; only when it holds no chronicle.
    DropDatabase { name: String, if_exists: bool },
    /// CREATE SCHEMA.
    CreateSchema { database: String, name: String, if_not_exists: bool },
    /// DROP SCHEMA; only when empty, unless `cascade`.
    DropSchema { database: String, name: String, if_exists: bool, cascade: bool },
    /// CREATE TABLE.
    CreateChronicle(NewChronicle),
    /// DROP TABLE.
    DropChronicle { database: String, schema: String, name: String, if_exists: bool },
    /// ALTER TABLE … RENAME TO.
    RenameChronicle { id: ChronicleId, to: String },
    /// ALTER TABLE … RENAME COLUMN.
    RenameColumn { id: ChronicleId, from: String, to: String },
    /// ALTER TABLE … ADD COLUMN.
    AddColumn { id: ChronicleId, column: NewColumn, if_not_exists: bool },
    /// ALTER TABLE … SET (…): only options that may change.
    SetOptions { id: ChronicleId, options: Vec<(String, String)> },
    /// COMMENT ON TABLE.
    CommentOnChronicle { id: ChronicleId, comment: Option<String> },
    /// COMMENT ON COLUMN.
    CommentOnColumn { id: ChronicleId, column: String, comment: Option<String> },
}

/// What a command did.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Whether anything changed (IF [NOT] EXISTS may find nothing to do).
    pub changed: bool,
    /// Why nothing changed, for a NOTICE.
    pub notice: Option<String>,
    /// The chronicle made or changed.
    pub chronicle: Option<Arc<ChronicleDefinition>>,
    /// Chronicles dropped: the caller tells the store to forget them.
    pub dropped: Vec<ChronicleId>,
}
