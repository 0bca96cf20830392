//! Events of one chronicle, in columns.

use arrow::{array::RecordBatch, datatypes::DataType};

use crate::{SchemaVersion, Tick, chronicle::SYSTEM_COLUMNS};

/// Events in arrival order, after an append has accepted them.
///
/// Row `i` has the tick `ticks[i]` and the `_seq` `first_seq + i`. The commit of the statement
/// gives the rows consecutive `_gsn` values.
#[derive(Debug, Clone)]
pub struct EventBatch {
    /// Schema version of `rows`.
    pub schema_version: SchemaVersion,
    /// Tick of each row.
    pub ticks: arrow::buffer::ScalarBuffer<i64>,
    /// The user's columns; the tick column holds the start time of each row's tick.
    pub rows: RecordBatch,
    /// Arrival number of the first row within its chronicle (`_seq`).
    pub first_seq: u64,
}

impl EventBatch {
    /// Tick of row `at`.
    pub fn tick(&self, at: usize) -> Option<Tick> {
        debug_assert_eq!(self.ticks.len(), self.rows.num_rows(), "a row without a tick");
        self.ticks.get(at).copied().map(Tick)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        debug_assert_eq!(self.ticks.len(), self.rows.num_rows(), "a row without a tick");
        self.ticks.len()
    }

    /// Whether the batch has no rows.
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }
}

/// The Arrow type of the system column with this name; see [`SYSTEM_COLUMNS`].
pub fn system_column_type(name: &str) -> Option<DataType> {
    let data_type = match name {
        "_tick" | "_seq" | "_gsn" | "_toid" | "_group" => Some(DataType::Int64),
        "_origin" => Some(DataType::Int16),
        "_tier" => Some(DataType::Utf8View),
        _ => None,
    };
    debug_assert_eq!(
        data_type.is_some(),
        SYSTEM_COLUMNS.contains(&name),
        "the system columns and their types differ"
    );
    data_type
}
