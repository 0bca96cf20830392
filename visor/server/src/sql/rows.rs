//! Results as the shell handles them: columns and rows of text.

use std::ops::Range;

use stratalog_model::ColumnType;

/// A column of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultColumn {
    /// Name.
    pub name: String,
    /// Type, as far as it is known; text otherwise.
    pub column_type: ColumnType,
}

impl ResultColumn {
    /// Whether values stand at the right of a table's column, and without quotes in JSON.
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
    /// No rows of `columns` values each.
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

    /// Forgets the rows, keeps the room.
    pub fn clear(&mut self) {
        self.text.clear();
        self.cells.clear();
    }

    /// The rows, each as its values.
    pub fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = Option<&str>> + Clone> + Clone {
        self.cells
            .chunks(self.columns.max(1))
            .map(|row| row.iter().map(|cell| cell.clone().and_then(|range| self.text.get(range))))
    }
}
