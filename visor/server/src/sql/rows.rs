//! Columns and rows of a result, as text.

use std::ops::Range;

use stratalog_model::ColumnType;

/// A column of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultColumn {
    /// The name of the column.
    pub name: String,
    /// The type of the column; text if the type is unknown.
    pub column_type: ColumnType,
}

impl ResultColumn {
    /// True if the values are numbers: right-aligned in tables, without quotes in JSON.
    pub fn is_number(&self) -> bool {
        matches!(
            self.column_type,
            ColumnType::SmallInt
                | ColumnType::Integer
                | ColumnType::BigInt
                | ColumnType::Real
                | ColumnType::Double
                | ColumnType::Numeric { .. }
        )
    }
}

/// Rows of text values in one buffer.
#[derive(Debug, Default, Clone)]
pub struct TextRows {
    columns: usize,
    text: String,
    cells: Vec<Option<Range<usize>>>,
}

impl TextRows {
    /// An empty collection of rows with `columns` values each.
    pub fn new(columns: usize) -> Self {
        Self { columns, text: String::new(), cells: Vec::new() }
    }

    /// Appends the next value of the current row; `None` is NULL.
    pub fn push(&mut self, value: Option<&str>) {
        self.cells.push(value.map(|value| {
            let start = self.text.len();
            self.text.push_str(value);
            start..self.text.len()
        }));
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.cells.len().checked_div(self.columns).unwrap_or(0)
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Bytes of the texts.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Removes the rows, and keeps the buffer.
    pub fn clear(&mut self) {
        self.text.clear();
        self.cells.clear();
    }

    /// Iterates over the rows; each row iterates over its values.
    pub fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = Option<&str>> + Clone> + Clone {
        self.cells
            .chunks(self.columns.max(1))
            .map(|row| row.iter().map(|cell| cell.clone().and_then(|range| self.text.get(range))))
    }
}
