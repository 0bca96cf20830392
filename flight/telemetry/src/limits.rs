//! Limits of a reader.

use stratalog_line::RowLimits;

/// Limits of a request, and of the caches kept from one request to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TelemetryLimits {
    /// Bytes of a body as protobuf: for remote write after decompression, for JSON after
    /// conversion.
    pub body_bytes_max: usize,
    /// Rows of a request. A sample, a number point and a log record make one row each. A histogram
    /// or a summary makes one row per bucket or quantile, and rows for its count and sum.
    pub rows_max: usize,
    /// Approximate bytes of the rows as batches: many tags in a table make its rows wide. Also
    /// limits the texts of resources and scopes, because each of their series and records repeats
    /// them.
    pub batch_bytes_max: usize,
    /// Nesting depth of values in attributes and log bodies, and of JSON.
    pub depth_max: u32,
    /// Errors of a request that are kept; all errors are counted.
    pub errors_max: usize,
    /// Cached pairs of resource and scope. The cache is emptied when it exceeds this number.
    pub origins_max: usize,
    /// Encoded bytes of these pairs. The cache is emptied when it exceeds this number.
    pub origins_bytes_max: usize,
    /// Limits of tables, columns and series.
    pub rows: RowLimits,
}

impl Default for TelemetryLimits {
    fn default() -> Self {
        Self {
            body_bytes_max: 64 << 20,
            rows_max: 2_000_000,
            batch_bytes_max: 512 << 20,
            depth_max: 32,
            errors_max: 100,
            origins_max: 10_000,
            origins_bytes_max: 32 << 20,
            rows: RowLimits::default(),
        }
    }
}
