//! The forms of events: columns and batches in memory, payloads of frames in the journal, blocks of
//! tablets.
//!
//! ```text
//!   pushed rows ─► stored columns ─► payload ─► frame ─► journal        (column, shape, encode)
//!                                      └► decoded in place ─► batch of a version       (batch)
//!   batches ─► sections and statistics of a block ─► tablet             (block, statistics)
//!   part of a tablet or a story ─► events ─► series, runs, group numbers
//!                                 (part_events) (keys)  (runs)  (numberings)
//! ```
//!
//! The arrays of a batch point into the payload of the journal frame. The bytes that recovery reads
//! back are therefore identical to the bytes served before. Batches are immutable, and `budget`
//! counts their bytes (CL-10).

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
