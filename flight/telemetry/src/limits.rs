//! Limits of a telemetry reader.

use stratalog_line::RowLimits;

/// Limits of a request, and of the caches kept from one request to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TelemetryLimits {
    /// Maximal bytes of a body as protobuf: for remote write after decompression, for JSON after
    /// conversion.
    pub body_bytes_max: usize,
    /// Maximal rows of a request. A sample, a number point and a log record become one row each. A
    /// histogram or a summary becomes one row per bucket or quantile, and rows for its count and
    /// sum.
    pub rows_max: usize,
    /// Approximate maximal bytes of the rows in the form of batches: every row takes space in every
    /// column of its table. The limit also applies to the texts of resources and scopes, because
    /// each of their series and records repeats these texts.
    pub batch_bytes_max: usize,
    /// Maximal nesting depth of values in attributes and log bodies, and of JSON.
    pub depth_max: u32,
    /// Maximal number of errors of a request that the outcome lists. The count includes all errors.
    pub errors_max: usize,
    /// Maximal number of cached pairs of resource and scope. When the cache is full, all entries
    /// are removed.
    pub origins_max: usize,
    /// Maximal encoded bytes of the cached pairs of resource and scope. When the cache is full, all
    /// entries are removed.
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
