//! Results in the shell: columns and rows of text.

use std::ops::Range;

use stratalog_model::ColumnType;

/// A column of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultColumn {
    /// Name.
    pub name: String,
    /// Type; text for an unknown type.
    pub column_type: ColumnType,
}

impl ResultColumn {
    /// True if values are right-aligned in tables and unquoted in JSON.
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

/// Rows of text values, in one buffer.
#[derive(Debug, Default, Clone)]
pub struct TextRows {
    columns: usize,
    text: String,
    cells: Vec<Option<Range<usize>>>,
}

impl TextRows {
    /// No rows; each row will have `columns` values.
    pub fn new(columns: usize) -> Self {
        Self { columns, text: String::new(), cells: Vec::new() }
    }

    /// Adds the next value, row by row; `None` is NULL.
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Bytes of text held.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Removes the rows, keeps the buffer.
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
