//! Limits of a parser and its builder.

use stratalog_model::chronicle::COLUMNS_MAX;

/// Maximal length of the name of a table or column, in bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// Limits of the cache that a [`RowBuilder`](crate::RowBuilder) keeps from one request to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowLimits {
    /// Tables. A request with more tables is an error; the next request then begins with an empty
    /// cache.
    pub tables_max: usize,
    /// Columns of a table, including the tick and the tags.
    pub columns_max: usize,
    /// Columns and tags of all tables; works like `tables_max`.
    pub columns_total_max: usize,
    /// Series whose tags are cached. The cache is emptied when it exceeds this number.
    pub series_max: usize,
    /// Bytes of the cached tags, both as sent and as kept; works like `series_max`.
    pub series_bytes_max: usize,
    /// Maximal bytes of a table's rows after a new column or tag, which takes space in every
    /// earlier row.
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
    /// Bytes of a line; a longer line is an error.
    pub line_bytes_max: usize,
    /// Lines of a request, including comments and blank lines; more lines end the request.
    pub request_lines_max: u32,
    /// Errors of a request that are kept; all errors are counted.
    pub errors_max: usize,
    /// Tables, columns and series.
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
