//! Cells: what the events of one series in one window of time add up to (F86), kept in the
//! story so that an aggregate over a range needs the rows at its edges only.
//!
//! ```text
//!   group (slice)   ┌ run of host_0 ────────┬ run of host_1 ────────┬ …   rows, sorted by key, tick
//!   its cells       │ 10:00     │ 11:00     │ 10:00     │ 11:00     │ …   each a row: key, first and
//!                                                                         last tick, rows, then of each
//!                                                                         column count, sum, min, max
//! ```
//! The cells of all groups are a Parquet file inside that of the story, behind its rows, where other
//! readers do not look: a row group for each group that has cells. A group has them if they stand
//! for enough rows each. Whoever reads a story without them, or finds them damaged, counts rows.

mod build;
mod read;
#[cfg(test)]
mod tests;

use arrow::datatypes::{DataType, Field};
use serde::{Deserialize, Serialize};
use stratalog_model::{
    ColumnId,
    aggregate::{Statistic, WHOLE_SUM, Wanted},
};

pub(crate) use build::{agree, cells_of, schema_of};

use crate::{
    annex::AnnexPlace,
    form,
    schema::{Source, StorySchema},
};

/// A column of the cells of a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellColumn {
    /// The value of a key column, by its place in the key.
    Key(usize),
    /// The tick of the first event: Int64.
    First,
    /// The tick of the last: Int64.
    Last,
    /// How many events: Int64.
    Rows,
    /// How many values of a column are there: Int64. Only of columns that may hold NULL.
    Count(ColumnId),
    /// Their sum: Float64 of doubles, `WHOLE_SUM` of whole numbers; NULL for none.
    Sum(ColumnId),
    /// The least of them: Float64 or Int64; NULL for none, NaN above all numbers.
    Min(ColumnId),
    /// The greatest.
    Max(ColumnId),
}

/// Where the cells lie in the file of a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CellsPlace {
    #[serde(flatten)]
    pub(crate) annex: AnnexPlace,
    /// [`crate::StorySettings::cell_rows`].
    pub(crate) cell_rows: usize,
    /// Which columns cells have: [`LAYOUT`].
    pub(crate) layout: u32,
}

/// The number of the columns below. Cells of another number are none.
pub(crate) const LAYOUT: u32 = 1;

/// The columns of the cells of stories of a schema, and the fields of their file.
pub(crate) fn layout(schema: &StorySchema) -> Vec<(CellColumn, Field)> {
    let number = |column, name: &str| (column, Field::new(name, DataType::Int64, false));
    let mut layout = Vec::new();
    for (at, position) in schema.key_positions().enumerate() {
        if let Some(column) = schema.columns.get(position) {
            let of = form::stored_type(&column.column_type);
            let name = format!("{}.key", column.id);
            layout.push((CellColumn::Key(at), Field::new(name, of, column.nullable)));
        }
    }
    layout.push(number(CellColumn::First, "first_tick"));
    layout.push(number(CellColumn::Last, "last_tick"));
    layout.push(number(CellColumn::Rows, "rows"));
    for column in schema.columns.iter().filter(|column| !schema.keys.contains(&column.id)) {
        let (id, of) = (column.id, column.column_type.arrow_type());
        if column.nullable {
            layout.push(number(CellColumn::Count(id), &format!("{id}.count")));
        }
        if Wanted::of_type(Statistic::Sum, &of) {
            let sum = if of.is_floating() { DataType::Float64 } else { WHOLE_SUM };
            layout.push((CellColumn::Sum(id), Field::new(format!("{id}.sum"), sum, true)));
        }
        if Wanted::of_type(Statistic::Min, &of) {
            let value = if of.is_floating() { DataType::Float64 } else { DataType::Int64 };
            let least = Field::new(format!("{id}.min"), value.clone(), true);
            layout.push((CellColumn::Min(id), least));
            layout.push((CellColumn::Max(id), Field::new(format!("{id}.max"), value, true)));
        }
    }
    layout
}

/// Where the values lie that a column of cells is made of, among the columns of the story's rows.
fn place_of(schema: &StorySchema, column: CellColumn) -> Option<usize> {
    match column {
        CellColumn::Key(at) => schema.key_positions().nth(at),
        CellColumn::First | CellColumn::Last | CellColumn::Rows => schema.position(Source::Tick),
        CellColumn::Count(id) | CellColumn::Sum(id) | CellColumn::Min(id) | CellColumn::Max(id) => {
            schema.position(Source::Column(id))
        }
    }
}
