//! What a parser and its builder hold at most.

use stratalog_model::chronicle::COLUMNS_MAX;

/// Most bytes of the name of a table or column.
pub const NAME_BYTES_MAX: usize = 63;

/// What a [`RowBuilder`](crate::RowBuilder) keeps from one request to the next, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowLimits {
    /// Tables; one more in a request is an error, and when a request begins all are forgotten.
    pub tables_max: usize,
    /// Columns of one table, its tick and its tags included.
    pub columns_max: usize,
    /// Columns and tags of all tables; as with `tables_max`.
    pub columns_total_max: usize,
    /// Series whose tags are remembered. When there are more, all are forgotten.
    pub series_max: usize,
    /// Bytes of their tags, as they were sent and as they are kept; likewise.
    pub series_bytes_max: usize,
    /// Bytes of the rows of one table that a new column or tag may bring about: it takes room in every
    /// row before it.
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

/// What a [`LineParser`](crate::LineParser) takes at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineLimits {
    /// Bytes of one line; a longer one is an error of its own.
    pub line_bytes_max: usize,
    /// Lines of one request, those of comments and blank ones included; one more ends it.
    pub request_lines_max: u32,
    /// Errors of one request that are kept; all are counted.
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
