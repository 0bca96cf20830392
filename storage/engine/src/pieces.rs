//! Pieces: events that the journal owns no more, in files.
//!
//! ```text
//!   batches of a version ─► rows in force ─► by tick into tablets ─► by (key, tick) into blocks
//!        (journal tier)      (build)            (tablet_rows_max)       (block_rows_max)
//! ```

pub mod block;
pub mod build;
pub mod lookup;
pub mod read;
pub mod rows;
pub mod set;
pub mod status;
