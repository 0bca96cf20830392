//! Lines of a SQL string.

use datafusion::sql::sqlparser::tokenizer::Location;

/// Converts lines and columns to byte offsets in a text. Ascending lookups are fast.
pub(super) struct LineStarts {
    starts: Vec<usize>,
    /// The last lookup: line and column, counted from 0, and the byte offset.
    last: (usize, usize, usize),
}

impl LineStarts {
    pub(super) fn new(sql: &str) -> Self {
        let ends = sql.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { starts: std::iter::once(0).chain(ends).collect(), last: (0, 0, 0) }
    }

    /// The byte offset of a location.
    pub(super) fn offset(&mut self, sql: &str, location: Location) -> usize {
        let line = usize::try_from(location.line).unwrap_or(1).saturating_sub(1);
        let column = usize::try_from(location.column).unwrap_or(1).saturating_sub(1);
        // Continues from the last lookup, so that repeated lookups in a long line do not start at
        // its beginning.
        let (skipped, start) = match self.last {
            (last, before, offset) if last == line && before <= column => (before, offset),
            _ => (0, self.starts.get(line).copied().unwrap_or(sql.len())),
        };
        let rest = sql.get(start..).unwrap_or("");
        let found = rest.char_indices().nth(column - skipped).map_or(rest.len(), |(at, _)| at);
        self.last = (line, column, start + found);
        start + found
    }
}
