//! The columns of a story: their names in the chronicle, and their types in Parquet.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::{
    basic::Repetition,
    schema::types::{SchemaDescriptor, Type},
};
use serde::{Deserialize, Serialize};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, ColumnDefinition, ColumnId, ColumnType, Error, IndexKind,
    Result, SchemaVersion, TickScale,
};

use crate::form;

/// The system columns that every story has after the user's columns.
pub(crate) const NUMBERS: [&str; 3] = ["_tick", "_seq", "_gsn"];

/// Parquet field id of `_tick`; the ids of `_seq` and `_gsn` follow. Far above the ids of user
/// columns.
const NUMBERS_FIELD_ID: u32 = i32::MAX as u32 - 1000;

/// A column of a story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoryColumn {
    /// Id within the chronicle, and field id in the file. Because readers use the id, a rename of
    /// the column changes no story.
    pub id: ColumnId,
    /// Name when the story was written.
    pub name: String,
    /// Type.
    #[serde(rename = "type")]
    pub column_type: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
}

/// The schema of a story's events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorySchema {
    /// The chronicle of the events.
    pub chronicle: ChronicleId,
    /// `schema.name` of the chronicle when the story was written, for people who inspect the file.
    pub chronicle_name: String,
    /// Schema version of the events.
    pub version: SchemaVersion,
    /// The user's columns, in the order of the schema version.
    pub columns: Vec<StoryColumn>,
    /// Key columns, in the order of the key.
    pub keys: Vec<ColumnId>,
    /// The timestamp column whose value determines the tick.
    pub tick: ColumnId,
    /// Base and granularity of the ticks.
    pub scale: TickScale,
    /// Columns with secondary indexes. For a new story: the indexes to build; for an open story:
    /// the indexes in the file.
    pub indexes: Vec<(ColumnId, IndexKind)>,
}

/// A column to read: a user's column or a system column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A column of the user.
    Column(ColumnId),
    /// `_tick`.
    Tick,
    /// `_seq`.
    Seq,
    /// `_gsn`.
    Gsn,
}

impl StorySchema {
    /// The columns of one schema version of a chronicle.
    ///
    /// # Errors
    /// `Internal` if the definition has no such version.
    pub fn of(chronicle: &ChronicleDefinition, version: SchemaVersion) -> Result<Self> {
        let unknown = || {
            let name = chronicle.qualified_name();
            Error::internal(format!("{name} has no columns of schema version {version}"))
        };
        let ids = chronicle.schema_versions.get(&version).ok_or_else(unknown)?;
        let column = |column: &ColumnDefinition| StoryColumn {
            id: column.id,
            name: column.name.clone(),
            column_type: column.column_type.clone(),
            nullable: column.nullable,
        };
        let columns = ids.iter().map(|id| chronicle.column(*id).map(column));
        let schema = Self {
            chronicle: chronicle.id,
            chronicle_name: chronicle.qualified_name(),
            version,
            columns: columns.collect::<Option<_>>().ok_or_else(unknown)?,
            keys: chronicle.key_columns.iter().copied().filter(|key| ids.contains(key)).collect(),
            tick: chronicle.tick_column,
            scale: chronicle.scale,
            indexes: indexes_of(chronicle, ids),
        };
        schema.validate()?;
        Ok(schema)
    }

    /// Whether the story has an index of this kind for the column.
    pub(crate) fn is_indexed(&self, column: ColumnId, kind: IndexKind) -> bool {
        self.indexes.contains(&(column, kind))
    }

    /// The columns with inverted indexes.
    pub(crate) fn inverted(&self) -> Vec<ColumnId> {
        let inverted = self.indexes.iter().filter(|(_, kind)| *kind == IndexKind::Inverted);
        inverted.map(|(column, _)| *column).collect()
    }

    /// Position of a column in the file.
    pub fn position(&self, source: Source) -> Option<usize> {
        let numbers = self.columns.len();
        match source {
            Source::Column(id) => self.columns.iter().position(|column| column.id == id),
            Source::Tick => Some(numbers),
            Source::Seq => Some(numbers + 1),
            Source::Gsn => Some(numbers + 2),
        }
    }

    /// The Arrow schema of rows for [`crate::Builder::push`], and of a read of all columns: the
    /// user's columns, then `_tick`, `_seq` and `_gsn`.
    pub fn arrow_schema(&self) -> SchemaRef {
        let fields = (0..self.columns.len() + NUMBERS.len()).filter_map(|at| self.field(at));
        let fields = fields.collect::<Vec<_>>();
        debug_assert_eq!(fields.len(), self.columns.len() + NUMBERS.len(), "a missing field");
        Arc::new(Schema::new(fields))
    }

    /// The Arrow field at a position.
    pub(crate) fn field(&self, at: usize) -> Option<Field> {
        match self.columns.get(at) {
            Some(column) => Some(column.column_type.arrow_field(&column.name, column.nullable)),
            None => {
                let name = NUMBERS.get(at.checked_sub(self.columns.len())?)?;
                Some(Field::new(*name, DataType::Int64, false))
            }
        }
    }

    /// The Arrow schema of the types that Parquet stores.
    pub(crate) fn stored_schema(&self) -> SchemaRef {
        let user = self.columns.iter().map(|column| {
            Field::new(&column.name, form::stored_type(&column.column_type), column.nullable)
        });
        let numbers = NUMBERS.iter().map(|name| Field::new(*name, DataType::Int64, false));
        Arc::new(Schema::new(user.chain(numbers).collect::<Vec<_>>()))
    }

    /// The Parquet schema of the file.
    pub(crate) fn parquet_schema(&self) -> Result<SchemaDescriptor> {
        let mut fields = Vec::with_capacity(self.columns.len() + NUMBERS.len());
        for column in &self.columns {
            debug_assert!(column.id.0 < NUMBERS_FIELD_ID, "the id of a number column");
            let id = field_id(column.id.0)?;
            let (name, of) = (&column.name, &column.column_type);
            fields.push(Arc::new(form::parquet_type(name, of, column.nullable, Some(id))?));
        }
        for (name, id) in NUMBERS.into_iter().zip(NUMBERS_FIELD_ID..) {
            let id = Some(field_id(id)?);
            fields.push(Arc::new(form::parquet_type(name, &ColumnType::BigInt, false, id)?));
        }
        let root = Type::group_type_builder("story").with_fields(fields).build();
        let root = root.map_err(|error| Error::internal(error.to_string()))?;
        debug_assert!(!root.get_basic_info().has_repetition(), "a root repeats nothing");
        let descriptor = SchemaDescriptor::new(Arc::new(root));
        debug_assert!(
            descriptor.num_columns() >= self.columns.len() + NUMBERS.len(),
            "a column without values"
        );
        Ok(descriptor)
    }

    /// The positions of the key columns.
    pub(crate) fn key_positions(&self) -> impl Iterator<Item = usize> {
        debug_assert!(
            self.keys.iter().all(|id| self.position(Source::Column(*id)).is_some()),
            "a key column is missing"
        );
        self.keys.iter().filter_map(|id| self.position(Source::Column(*id)))
    }

    /// Checks the rules that hold for the schemas of new stories and of files.
    pub(crate) fn validate(&self) -> Result<()> {
        for column in &self.columns {
            column.column_type.validate()?;
            if column.id.0 >= NUMBERS_FIELD_ID || NUMBERS.contains(&column.name.as_str()) {
                return Err(Error::internal(format!(
                    "a story can have no column {} \"{}\"",
                    column.id, column.name
                )));
            }
        }
        let missing = self.keys.iter().chain([&self.tick]).find(|id| {
            let source = Source::Column(**id);
            self.position(source).is_none()
        });
        match missing {
            Some(id) => Err(Error::internal(format!(
                "schema version {} of {} has no column {id}, a key column",
                self.version, self.chronicle_name
            ))),
            None => Ok(()),
        }
    }
}

/// The indexes of the chronicle on the columns `ids`.
fn indexes_of(chronicle: &ChronicleDefinition, ids: &[ColumnId]) -> Vec<(ColumnId, IndexKind)> {
    let indexes = chronicle.indexes.iter();
    let columns =
        indexes.flat_map(|index| index.columns.iter().map(|column| (*column, index.kind)));
    let mut columns: Vec<_> = columns.filter(|(column, _)| ids.contains(column)).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

fn field_id(id: u32) -> Result<i32> {
    i32::try_from(id).map_err(|_| Error::internal(format!("column id {id} is too large")))
}

/// The Parquet repetition: optional for nullable columns, required for NOT NULL columns.
pub(crate) fn repetition(nullable: bool) -> Repetition {
    if nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED }
}
