//! Reads pieces (tablets and stories), for scans and for lookups of colliding keys. A *part* is a
//! block of a tablet or a row group of a story.
//!
//! ```text
//!   pieces of a version ─► parts that may match ─► rows by key, filter or newest ─► batches
//!        (tier)         (hulls, leading_keys)      (keyed_rows, filtered_rows,     (reader)
//!                                                          newest, aggregate_cache)
//! ```

pub mod aggregate_cache;
pub mod edge;
pub mod filtered_rows;
pub mod group_edge;
pub mod keyed_rows;
pub mod leading_keys;
pub mod lookup;
pub mod newest;
pub mod numbered_rows;
pub mod reader;
pub mod row_groups;
pub mod series_selection;
pub mod system_columns;
pub mod tier;
