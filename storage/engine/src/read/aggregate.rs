//! Partial aggregates (F86, F87): computed row by row from memory and tablets, and per run of a
//! series from stories. A run is the consecutive rows of one series in a row group; a cell is the
//! stored aggregates of one series in one window of time.
//!
//! ```text
//!   journal, tablets ─► rows ─► group and window of each row ─┐
//!                                                          ├─► GroupTally: a row per group ─► batch
//!   stories ─► runs of series ─► cells, windows by bisection ┘
//! ```
//!
//! The result has one partial aggregate per group and batch, or per group and several slices (row
//! groups) of a story. The query merges the partial aggregates of each group.

mod counter;
mod plan;
mod rows;
mod slice;
mod tally;

pub use rows::{of_batch, of_rows};
pub use slice::Slices;
