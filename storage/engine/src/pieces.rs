//! Pieces: event files, for events after the journal has handed over ownership.
//!
//! ```text
//!   batches of a version ─► rows in force ─► by tick into tablets ─► by (key, tick) into blocks
//!        (journal tier)      (build)            (tablet_rows_max)       (block_rows_max)
//!   pieces of a version  ─► rows in force ─► by tick into slices  ─► by (key, tick) into stories
//!                            (rewrite)         (slice_rows_max)         (1 row group each)
//! ```

pub mod aggregate_cache;
pub mod block;
pub mod build;
pub mod edge;
pub mod events;
pub mod filtered_rows;
pub mod group_edge;
pub mod keyed_rows;
pub mod leading_keys;
pub mod lookup;
pub mod marks;
pub mod newest;
pub mod numbered_rows;
pub mod order;
pub mod piece;
pub mod piece_numbers;
pub mod read;
pub mod reader;
pub mod rows;
pub mod runs;
pub mod series_selection;
pub mod set;
pub mod statistics;
pub mod status;
pub mod story;
