//! Limits of a reader.

use stratalog_line::RowLimits;

/// Limits of a request, and of the caches kept from one request to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TelemetryLimits {
    /// Bytes of a body as protobuf: for remote write after decompression, for JSON after
    /// conversion.
    pub body_bytes_max: usize,
    /// Rows of a request. A sample, a number point and a log record are one row each; a histogram
    /// or summary makes a row for each bucket or quantile, and rows for its count and sum.
    pub rows_max: usize,
    /// Approximate size of the rows as batches, in bytes: many tags in a table make rows wide. Also
    /// limits the text of resources and scopes that is repeated for their series and records.
    pub batch_bytes_max: usize,
    /// Nesting depth of values in attributes, in bodies of logs, and in JSON.
    pub depth_max: u32,
    /// Errors of a request that are kept; all errors are counted.
    pub errors_max: usize,
    /// Cached pairs of a resource and a scope. The cache is emptied when it exceeds this number.
    pub origins_max: usize,
    /// Bytes of these pairs in their encoded form; works like `origins_max`.
    pub origins_bytes_max: usize,
    /// Tables, columns and series.
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
