//! Reads of tablets and stories, for scans and for lookups of colliding keys.
//!
//! ```text
//!   pieces of a version ─► parts with possible matches ─► rows by key, filter or edge ─► batches
//!        (tier)            (hulls, leading_keys, cells)   (keyed_rows, filtered_rows,    (reader)
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
