//! What a reader takes at most.

use stratalog_line::RowLimits;

/// What one request may have, and what is kept from one request to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TelemetryLimits {
    /// Bytes of a body as protobuf: of remote write when it is decompressed, of JSON when it is
    /// converted.
    pub body_bytes_max: usize,
    /// Rows that a request makes. A sample, a number point and a log record are one row each; a
    /// histogram or summary is one for each bucket or quantile, and those of its count and sum.
    pub rows_max: usize,
    /// About how many bytes these rows have as batches: many tags in one table make rows wide. Also
    /// how much text of resources and scopes is repeated for their series and records.
    pub batch_bytes_max: usize,
    /// Values within values of attributes and bodies of logs, and of JSON.
    pub depth_max: u32,
    /// Errors of one request that are kept; all are counted.
    pub errors_max: usize,
    /// Pairs of a resource and a scope that are remembered. When there are more, all are forgotten.
    pub origins_max: usize,
    /// Bytes of them as they were sent; likewise.
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
