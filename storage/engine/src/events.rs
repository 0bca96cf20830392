//! The forms in which events are stored: columns and batches in memory, payloads of frames in the
//! journal, and blocks of tablets.
//!
//! ```text
//!   pushed rows ─► stored columns ─► payload ─► frame ─► journal        (column, shape, encode)
//!                                      └► decoded in place ─► batch of a version       (batch)
//!   batches ─► sections and statistics of a block ─► tablet             (block, statistics)
//!   block of a tablet, row group of a story ─► events ─► series, runs, group numbers
//!                                 (part_events) (keys)  (runs)  (numberings)
//! ```
//!
//! The arrays of a batch point into the payload of the journal frame: events that recovery reads
//! back have exactly the same bytes as before. Batches are immutable, and `budget` counts their
//! bytes (CL-10).

pub mod batch;
pub mod block;
pub mod block_cache;
pub mod budget;
pub mod column;
pub mod constant;
pub mod encode;
pub mod keys;
pub mod numbered_rows;
pub mod numberings;
pub mod part_events;
pub mod runs;
pub mod shape;
pub mod statistics;
pub mod ticks;
