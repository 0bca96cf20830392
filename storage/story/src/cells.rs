//! Cells: stored aggregates of the events of one series in one time window (F86). With cells, an
//! aggregate over a time range must read rows only at the edges of the range.
//!
//! ```text
//!   group       ┌ rows of host_0 ───────┬ rows of host_1 ───────┬ …   rows, sorted by key, tick
//!   its cells   │ 10:00     │ 11:00     │ 10:00     │ 11:00     │ …   each cell is a row
//!
//!   columns of a cell: key, first and last tick, rows; for each column count, sum, min, max
//! ```
//! The cells of all row groups are an annex: a Parquet file inside the story's file, after the
//! rows. Other Parquet readers do not see the annex. A row group has cells only if each cell covers
//! enough rows. For row groups without cells, or with damaged cells, readers aggregate the rows.

mod build;
mod read;
#[cfg(test)]
mod tests;

use arrow::datatypes::{DataType, Field};
use stratalog_model::{
    ColumnId,
    aggregate::{ColumnStatistic, Statistic, WHOLE_SUM},
};

pub(crate) use build::{agree, cells_of, schema_of};

use crate::{
    form,
    schema::{Source, StorySchema},
};

/// A column of the annex with the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellColumn {
    /// The value of a key column; the number is the position in the key.
    Key(usize),
    /// The tick of the first event of the cell: Int64.
    First,
    /// The tick of the last event of the cell: Int64.
    Last,
    /// The number of events in the cell: Int64.
    Rows,
    /// The number of non-NULL values: Int64. Exists only for nullable columns.
    Count(ColumnId),
    /// The sum of the values: Float64 for doubles, `WHOLE_SUM` for integers; NULL if all values are
    /// NULL.
    Sum(ColumnId),
    /// The minimum: Float64 or Int64; NULL if all values are NULL. NaN is above all numbers.
    Min(ColumnId),
    /// The maximum: Float64 or Int64; NULL if all values are NULL. NaN is above all numbers.
    Max(ColumnId),
}

/// The current version of the columns of cells. Readers ignore cells of other versions.
pub(crate) const LAYOUT: u32 = 1;

/// The columns of the cells of stories with the schema `schema`, with their Arrow fields.
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
        if ColumnStatistic::of_type(Statistic::Sum, &of) {
            let sum = if of.is_floating() { DataType::Float64 } else { WHOLE_SUM };
            layout.push((CellColumn::Sum(id), Field::new(format!("{id}.sum"), sum, true)));
        }
        if ColumnStatistic::of_type(Statistic::Min, &of) {
            let value = if of.is_floating() { DataType::Float64 } else { DataType::Int64 };
            let least = Field::new(format!("{id}.min"), value.clone(), true);
            layout.push((CellColumn::Min(id), least));
            layout.push((CellColumn::Max(id), Field::new(format!("{id}.max"), value, true)));
        }
    }
    debug_assert!(
        matches!(layout.get(schema.keys.len()), Some((CellColumn::First, _))),
        "the keys do not come first"
    );
    layout
}

/// The position, among the columns of the story's rows, of the column that a cell column
/// summarizes.
fn place_of(schema: &StorySchema, column: CellColumn) -> Option<usize> {
    match column {
        CellColumn::Key(at) => {
            debug_assert!(at < schema.keys.len(), "a column outside of the key");
            schema.key_positions().nth(at)
        }
        CellColumn::First | CellColumn::Last | CellColumn::Rows => schema.position(Source::Tick),
        CellColumn::Count(id) | CellColumn::Sum(id) | CellColumn::Min(id) | CellColumn::Max(id) => {
            schema.position(Source::Column(id))
        }
    }
}
