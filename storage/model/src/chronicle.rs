//! The definition of a chronicle and its validation (F4, F5).

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::{
    ChronicleId, Collision, ColumnId, ColumnType, Durability, Error, ErrorKind, Granularity,
    Grouping, IndexDefinition, LatePolicy, Result, SchemaVersion, Subject, TickScale, TickSource,
    Tiering,
    acceptance::{WINDOW_MS_DEFAULT, WINDOW_MS_MAX},
};

/// Names of the system columns. No user column may have one of these names; `SELECT *` omits the
/// system columns.
pub const SYSTEM_COLUMNS: [&str; 7] =
    ["_tick", "_seq", "_gsn", "_origin", "_toid", "_tier", "_group"];

/// Maximum number of columns of one chronicle.
pub const COLUMNS_MAX: usize = 1600;

/// One column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnDefinition {
    /// Stable id.
    pub id: ColumnId,
    /// Current name.
    pub name: String,
    /// Type; never changes.
    pub column_type: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The expression after DEFAULT, as SQL text.
    pub default_sql: Option<String>,
    /// The value of this column in rows stored before ADD COLUMN … DEFAULT added the column, in the
    /// text form of the type; `None` for NULL.
    pub missing_value: Option<String>,
    /// The text of COMMENT ON COLUMN.
    pub comment: Option<String>,
}

impl ColumnDefinition {
    /// Whether the DEFAULT is the current time (`now()` and its equivalents).
    pub fn defaults_to_now(&self) -> bool {
        let sql = self.default_sql.as_deref().unwrap_or_default().trim().to_ascii_lowercase();
        let is_now = matches!(
            sql.as_str(),
            "now()"
                | "current_timestamp"
                | "transaction_timestamp()"
                | "statement_timestamp()"
                | "clock_timestamp()"
        );
        is_now && matches!(self.column_type, ColumnType::TimestampTz { .. })
    }
}

fn is_default(source: &TickSource) -> bool {
    *source == TickSource::default()
}

/// The metadata of a chronicle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChronicleDefinition {
    /// Stable id, never reused.
    pub id: ChronicleId,
    /// The database of the chronicle.
    pub database: String,
    /// The schema of the chronicle.
    pub schema: String,
    /// Name within the schema.
    pub name: String,
    /// Columns in the order of `SELECT *`.
    pub columns: Vec<ColumnDefinition>,
    /// The timestamp column from which the tick is computed.
    pub tick_column: ColumnId,
    /// Key columns: the PRIMARY KEY without the tick column.
    pub key_columns: Vec<ColumnId>,
    /// The number of columns at the end of `key_columns` that were added to the key after the first
    /// events. These columns are text, and have the value '' in all older events.
    #[serde(default)]
    pub keys_added: usize,
    /// Secondary indexes, by number.
    #[serde(default)]
    pub indexes: Vec<IndexDefinition>,
    /// The number that the next index gets.
    #[serde(default)]
    pub indexes_made: u32,
    /// Whether a PRIMARY KEY was declared.
    pub primary_key: bool,
    /// Base and granularity of the ticks; never change.
    pub scale: TickScale,
    /// The granularity of `_group`, if ALTER TABLE has made it coarser than the granularity of
    /// ticks: a whole multiple of the tick granularity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coarsened: Option<Granularity>,
    /// Collision rule; never changes.
    pub collision: Collision,
    /// The policy for late events.
    pub late: LatePolicy,
    /// The source of ticks; never changes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub time_source: TickSource,
    /// The minimum length of the acceptance window in milliseconds, for a clocked time source;
    /// `None` for [`WINDOW_MS_DEFAULT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance_window_ms: Option<u64>,
    /// Default durability of appends.
    pub durability: Durability,
    /// The rules for moving events down the tiers.
    #[serde(default)]
    pub tiering: Tiering,
    /// Current schema version.
    pub schema_version: SchemaVersion,
    /// For each schema version that stored events may have, its columns.
    pub schema_versions: BTreeMap<SchemaVersion, Vec<ColumnId>>,
    /// The text of COMMENT ON TABLE.
    pub comment: Option<String>,
    /// The creation time, in nanoseconds since 1970.
    pub created_ns: i64,
}

impl ChronicleDefinition {
    /// The names that an error about this chronicle carries.
    pub fn subject(&self) -> Subject {
        Subject {
            schema: Some(self.schema.clone()),
            table: Some(self.name.clone()),
            ..Subject::default()
        }
    }

    /// The error for a NULL in a NOT NULL column.
    pub fn not_null_violation(&self, column: &str) -> Error {
        Error::not_null(column, &self.name)
            .with_subject(Subject { column: Some(column.to_string()), ..self.subject() })
    }

    /// Checks the rules for every definition: names, types, key, tick column and options.
    pub fn validate(&self) -> Result<()> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidTableDefinition, message);
        if self.columns.len() > COLUMNS_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("table \"{}\" has more than {COLUMNS_MAX} columns", self.name),
            ));
        }
        for (at, column) in self.columns.iter().enumerate() {
            if SYSTEM_COLUMNS.contains(&column.name.as_str()) {
                return Err(Error::new(
                    ErrorKind::DuplicateColumn,
                    format!("column name \"{}\" conflicts with a system column name", column.name),
                ));
            }
            if self.columns.iter().take(at).any(|other| other.name == column.name) {
                return Err(Error::new(
                    ErrorKind::DuplicateColumn,
                    format!("column \"{}\" specified more than once", column.name),
                ));
            }
            column.column_type.validate()?;
        }
        let tick = self.tick();
        match tick {
            None => return Err(invalid(format!("table \"{}\" has no tick column", self.name))),
            Some(tick) if !tick.column_type.is_timestamp() => {
                return Err(invalid(format!(
                    "the last column of the primary key, \"{}\", must be a timestamp or timestamptz, not {}",
                    tick.name, tick.column_type
                )));
            }
            Some(tick) if tick.nullable => {
                return Err(invalid(format!("the tick column \"{}\" must be NOT NULL", tick.name)));
            }
            Some(_) => {}
        }
        for key in &self.key_columns {
            match self.column(*key) {
                None => return Err(invalid(format!("key column {key} does not exist"))),
                Some(column) if column.nullable => {
                    return Err(invalid(format!(
                        "key column \"{}\" must be NOT NULL",
                        column.name
                    )));
                }
                Some(column) => match column.column_type {
                    ColumnType::Boolean
                    | ColumnType::SmallInt
                    | ColumnType::Integer
                    | ColumnType::BigInt
                    | ColumnType::Text
                    | ColumnType::Uuid
                    | ColumnType::Date => {}
                    ref other => {
                        return Err(invalid(format!(
                            "key column \"{}\" has type {other}; a key column must be boolean, smallint, integer, bigint, text, uuid or date",
                            column.name
                        )));
                    }
                },
            }
        }
        for key in self.key_columns.iter().rev().take(self.keys_added) {
            let column = self.column(*key);
            let is_empty = |column: &ColumnDefinition| column.missing_value.as_deref() == Some("");
            if !column.is_some_and(|c| c.column_type == ColumnType::Text && is_empty(c)) {
                return Err(invalid(format!(
                    "the added key column {key} is not a text column with empty values in older events"
                )));
            }
        }
        if self.keys_added > self.key_columns.len() {
            return Err(invalid(
                "the number of added key columns exceeds the number of key columns".to_string(),
            ));
        }
        if self.key_columns.contains(&self.tick_column) {
            return Err(invalid("the tick column appears twice in the primary key".to_string()));
        }
        if !self.primary_key && self.collision.is_unique() {
            return Err(invalid(format!(
                "collision = '{}' needs a PRIMARY KEY whose last column is the tick",
                self.collision
            )));
        }
        self.validate_time()
    }

    /// Checks the options of the time source.
    fn validate_time(&self) -> Result<()> {
        debug_assert!(self.tick().is_some(), "the tick column is not checked yet");
        let invalid = |message: String| Error::new(ErrorKind::InvalidTableDefinition, message);
        let source = self.time_source;
        if let Some(window_ms) = self.acceptance_window_ms {
            if !source.is_clocked() {
                return Err(invalid(
                    "acceptance_window has no effect with time_source = 'column'".to_string(),
                )
                .with_hint(
                    "a table with time_source = 'column' accepts events of any time: omit the option, or set time_source",
                ));
            }
            if window_ms > WINDOW_MS_MAX {
                return Err(Error::new(
                    ErrorKind::InvalidParameterValue,
                    format!("acceptance_window is longer than {} s", WINDOW_MS_MAX / 1_000),
                )
                .with_hint("for events with a longer delay, use time_source = 'column'"));
            }
        }
        if !source.is_clocked() {
            return Ok(());
        }
        if self.late == LatePolicy::Reject {
            return Err(invalid(format!(
                "late = 'reject' has no effect with time_source = '{source}'"
            ))
            .with_hint("a table with this time_source accepts events within acceptance_window: omit the option"));
        }
        let default = self.tick().filter(|tick| tick.default_sql.is_some());
        match default {
            Some(tick) if source == TickSource::Server && !tick.defaults_to_now() => {
                Err(invalid(format!(
                    "column \"{}\" has a DEFAULT, but time_source = 'server' sets the column to the time of arrival",
                    tick.name
                ))
                .with_hint("leave out DEFAULT"))
            }
            _ => Ok(()),
        }
    }

    /// The unit of `_group`: the granularity set by ALTER TABLE, or else the granularity of ticks
    /// (F6).
    pub fn index_granularity(&self) -> Granularity {
        let index = self.coarsened.unwrap_or(self.scale.granularity());
        debug_assert!(index >= self.scale.granularity(), "the index is finer than the ticks");
        index
    }

    /// The mapping from ticks to the values of `_group`.
    pub fn grouping(&self) -> Grouping {
        Grouping::new(&self.scale, self.index_granularity())
    }

    /// The minimum length of the acceptance window, in nanoseconds (F24).
    pub fn window_ns(&self) -> u64 {
        let window_ms = self.acceptance_window_ms.unwrap_or(WINDOW_MS_DEFAULT);
        debug_assert!(window_ms <= WINDOW_MS_MAX, "the acceptance window is too long");
        window_ms.saturating_mul(1_000_000)
    }

    /// The column with the id `id`.
    pub fn column(&self, id: ColumnId) -> Option<&ColumnDefinition> {
        self.columns.iter().find(|column| column.id == id)
    }

    /// The position in `columns` of the column with the id `id`.
    pub fn position(&self, id: ColumnId) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }

    /// The column with the name `name`.
    pub fn column_named(&self, name: &str) -> Option<&ColumnDefinition> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The tick column.
    pub fn tick(&self) -> Option<&ColumnDefinition> {
        self.column(self.tick_column)
    }

    /// The name of the PRIMARY KEY constraint and of its index.
    pub fn key_name(&self) -> String {
        format!("{}_pkey", self.name)
    }

    /// Whether at most one visible event has a given collision key: then an optimizer may treat the
    /// key as unique. False under `all`.
    pub fn key_is_unique(&self) -> bool {
        let is_unique = self.collision.is_unique();
        debug_assert!(self.primary_key || !is_unique, "the key is unique without a PRIMARY KEY");
        is_unique
    }

    /// Arrow schema of the user's columns at the current schema version: the schema of the rows of
    /// an [`Append`](crate::Append) and of the result of a scan.
    pub fn arrow_schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.columns.iter().map(Self::field_of).collect::<Vec<_>>()))
    }

    /// Arrow schema of events stored with the schema version `version`; `None` for an unknown
    /// version.
    pub fn arrow_schema_at(&self, version: SchemaVersion) -> Option<SchemaRef> {
        let columns = self.schema_versions.get(&version)?;
        let fields: Option<Vec<Field>> =
            columns.iter().map(|id| self.column(*id).map(Self::field_of)).collect();
        fields.map(|fields| Arc::new(Schema::new(fields)))
    }

    /// `schema.name`, for messages.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    fn field_of(column: &ColumnDefinition) -> Field {
        column.column_type.arrow_field(&column.name, column.nullable)
    }
}
