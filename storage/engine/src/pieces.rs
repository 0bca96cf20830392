//! Pieces: event files, for events after the journal has handed over ownership.
//!
//! ```text
//!   batches of a version ─► rows in force ─► by tick into tablets ─► by (key, tick) into blocks
//!        (journal tier)      (build)            (tablet_rows_max)       (block_rows_max)
//!   pieces of a version  ─► rows in force ─► by tick into slices  ─► by (key, tick) into stories
//!                            (rewrite)         (slice_rows_max)         (1 row group each)
//! ```

pub mod block;
pub mod build;
pub mod chosen;
pub mod edge;
pub mod events;
pub mod group_edge;
pub mod keyed;
pub mod leading;
pub mod lookup;
pub mod marks;
pub mod newest;
pub mod numbered;
pub mod numbers;
pub mod order;
pub mod picked;
pub mod piece;
pub mod read;
pub mod reader;
pub mod rows;
pub mod runs;
pub mod set;
pub mod statistics;
pub mod status;
pub mod story;
pub mod told;
