//! Settings of the format of stories.

use serde::{Deserialize, Serialize};

/// Compression and layout of stories. The defaults result from measurements (RFC 8).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorySettings {
    /// Level of zstd, 1 … 22.
    pub zstd_level: i32,
    /// Maximum rows of a page, the smallest part of a column that can be read. Pages of wide
    /// columns have fewer rows.
    pub page_rows_max: usize,
    /// Approximate uncompressed bytes of a page; also the maximum size of a dictionary.
    pub page_bytes_max: usize,
    /// Rate of false positives of the Bloom filters.
    pub bloom_false_positives: f64,
    /// Target number of rows per cell (precomputed aggregate). A row group whose series have on
    /// average less than a quarter of this number of rows has no cells.
    pub cell_rows: usize,
}

impl Default for StorySettings {
    fn default() -> Self {
        Self {
            zstd_level: 5,
            page_rows_max: 8_192,
            page_bytes_max: 1 << 20,
            bloom_false_positives: 0.01,
            cell_rows: 240,
        }
    }
}
