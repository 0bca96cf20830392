//! Limits of a parser and of its row builder.

use stratalog_model::chronicle::COLUMNS_MAX;

/// Maximal length of the name of a table or column, in bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// Limits of the cache that a [`RowBuilder`](crate::RowBuilder) keeps from one request to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowLimits {
    /// Maximal number of tables. A request with more tables is an error, and the next request
    /// begins with an empty cache.
    pub tables_max: usize,
    /// Maximal number of columns of one table, including the time column and the tags.
    pub columns_max: usize,
    /// Maximal number of columns and tags of all tables together. A request with more is an error,
    /// and the next request begins with an empty cache.
    pub columns_total_max: usize,
    /// Maximal number of series in the cache. The builder empties a full cache.
    pub series_max: usize,
    /// Maximal bytes of the series in the cache: the identities as the client sent them, plus the
    /// parsed tags. The builder empties a full cache.
    pub series_bytes_max: usize,
    /// Maximal bytes of a table's collected rows after the addition of a column or tag: a new
    /// column takes space in all earlier rows.
    pub table_bytes_max: usize,
}

impl Default for RowLimits {
    fn default() -> Self {
        Self {
            tables_max: 10_000,
            columns_max: COLUMNS_MAX,
            columns_total_max: 200_000,
            series_max: 200_000,
            series_bytes_max: 128 << 20,
            table_bytes_max: 256 << 20,
        }
    }
}

/// Limits of a [`LineParser`](crate::LineParser).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineLimits {
    /// Maximal bytes of one line. The parser refuses a longer line.
    pub line_bytes_max: usize,
    /// Maximal number of lines of a request, including comments and blank lines. A request with
    /// more lines ends with an error.
    pub request_lines_max: u32,
    /// Maximal number of errors that the parser keeps per request. The count includes all errors.
    pub errors_max: usize,
    /// Limits of tables, columns and series.
    pub rows: RowLimits,
}

impl Default for LineLimits {
    fn default() -> Self {
        Self {
            line_bytes_max: 1 << 20,
            request_lines_max: 50_000_000,
            errors_max: 100,
            rows: RowLimits::default(),
        }
    }
}
