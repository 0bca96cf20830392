//! Partial aggregates (F86, F87): over events row by row, and over the runs of stories.
//!
//! ```text
//!   journal, tablets ─► rows ─► group and window of each ─┐
//!                                                          ├─► GroupTally: a row per group ─► batch
//!   stories ─► runs of series ─► cells, windows by bisection ┘
//! ```
//!
//! The result has a partial group per batch or slice, and the query merges the partial groups.

mod counter;
mod plan;
mod rows;
mod slice;
mod tally;

pub use rows::{of_batch, of_rows};
pub use slice::Slices;
