//! The shape of events: columns, types and key of one schema version, in the form that the engine
//! needs.

use arrow::datatypes::SchemaRef;
use stratalog_model::{ChronicleDefinition, ColumnId, Error, Result, SchemaVersion};

use super::encode;

/// The columns, types and key of the events of one schema version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The schema version.
    pub version: SchemaVersion,
    /// Ids of the columns, in order.
    pub columns: Vec<ColumnId>,
    /// Declared Arrow types of the columns. Payloads without dictionary codes have exactly this
    /// schema.
    pub schema: SchemaRef,
    /// Position of the tick column.
    pub tick_at: usize,
    /// Nanoseconds per unit of the tick column.
    pub tick_unit_ns: i64,
    /// The key columns.
    pub keys: KeyColumns,
}

/// Positions of the key columns in a shape.
///
/// A column can be added to the key later; its type is then text. An event without this column
/// counts as an event with '' in this column. Empty values at the end of a key are not part of the
/// key bytes: the key of an existing series does not change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyColumns {
    /// Positions, in key order.
    pub at: Vec<usize>,
    /// Number of key columns that were in the key from the beginning.
    pub fixed: usize,
}

impl KeyColumns {
    /// A key of `columns` columns, at the positions from 0 onward. All count as in the key from the
    /// beginning.
    pub fn all(columns: usize) -> Self {
        Self { at: (0..columns).collect(), fixed: columns }
    }

    /// A key of the columns `at`, which were all in the key from the beginning.
    #[cfg(test)]
    pub fn fixed(at: Vec<usize>) -> Self {
        Self { fixed: at.len(), at }
    }
}

impl Shape {
    /// The shape of the schema version `version` of a chronicle.
    ///
    /// # Errors
    /// `Internal` if the definition does not know the version.
    pub fn of(definition: &ChronicleDefinition, version: SchemaVersion) -> Result<Self> {
        let unknown = |what: &str| {
            Error::internal(format!(
                "schema version {version} of chronicle {} ({}): {what}",
                definition.id,
                definition.qualified_name()
            ))
        };
        let columns: Vec<ColumnId> = if version == definition.schema_version {
            definition.columns.iter().map(|column| column.id).collect()
        } else {
            definition
                .schema_versions
                .get(&version)
                .cloned()
                .ok_or_else(|| unknown("is not in the definition"))?
        };
        let types = columns
            .iter()
            .map(|id| definition.column(*id).map(|column| column.column_type.arrow_type()))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| unknown("names a column that does not exist"))?;
        let position = |id: ColumnId| columns.iter().position(|column| *column == id);
        let tick_at =
            position(definition.tick_column).ok_or_else(|| unknown("has no tick column"))?;
        let tick_unit_ns = definition
            .tick()
            .and_then(|tick| tick.column_type.timestamp_unit_ns())
            .ok_or_else(|| unknown("the tick column is not a timestamp"))?;
        let fixed = definition.key_columns.len().saturating_sub(definition.keys_added);
        // A schema version has only those added key columns that are not newer than the version.
        let at: Vec<usize> = definition.key_columns.iter().map_while(|id| position(*id)).collect();
        if at.len() < fixed {
            return Err(unknown("lacks a key column"));
        }
        let keys = KeyColumns { at, fixed };
        let schema = encode::schema_of(&types);
        debug_assert_eq!(schema.fields().len(), columns.len(), "a column has no type");
        debug_assert!(tick_unit_ns > 0, "the tick column has no unit");
        debug_assert!(keys.fixed <= keys.at.len(), "a fixed key column is missing");
        Ok(Self { version, columns, schema, tick_at, tick_unit_ns, keys })
    }

    /// True if the shape has exactly the current columns and key columns of `definition`.
    pub fn is_of(&self, definition: &ChronicleDefinition) -> bool {
        let keys = definition.key_columns.iter();
        let keys_at = self.keys.at.iter().filter_map(|at| self.columns.get(*at));
        self.columns.len() == definition.columns.len()
            && keys.eq(keys_at)
            && definition.columns.iter().zip(&self.columns).zip(self.schema.fields()).all(
                |((column, id), field)| {
                    column.id == *id && column.column_type.arrow_type() == *field.data_type()
                },
            )
    }

    /// Position of a column; `None` if the shape lacks it.
    pub fn position(&self, id: ColumnId) -> Option<usize> {
        self.columns.iter().position(|column| *column == id)
    }
}
