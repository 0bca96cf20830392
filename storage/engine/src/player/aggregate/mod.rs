//! Partial aggregates (F86, F87): of events read row by row, and of the runs of stories.
//!
//! ```text
//!   journal, tablets ─► rows ─► group and window of each ─┐
//!                                                          ├─► Tally: a row a group ─► batch
//!   stories ─► runs of series ─► cells, windows by bisection ┘
//! ```
//! Groups come in parts, as many as there are batches and slices: the query puts them together.

mod counter;
mod plan;
mod rows;
mod slice;
mod tally;

pub use rows::{of_batch, of_rows};
pub use slice::Slices;
