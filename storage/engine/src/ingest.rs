//! The keeper: admits events, numbers the events, and tracks pending, committed and replaced
//! events; and deletes events (F22, F24–F28).
//!
//! ```text
//!   push ─► ticks ─► stored columns ─► keys ─► admit (short lock: collisions, reserved keys)
//!        ─► payload ─► buffered or streamed ─► commit frame ─► gsn's ─► version
//!   DELETE, TRIM ─► reserved ticks ─► frame in the journal ─► fence ─► version
//! ```

pub mod admission;
pub mod admission_request;
pub mod append;
pub mod append_part;
pub mod backpressure;
pub mod chronicle;
pub mod chronicles;
pub mod chunk;
pub mod delete;
pub mod keeper;
pub mod locator;
pub mod merge;
pub mod outcome;
pub mod producers;
pub mod series;
pub mod step;
pub mod vacated_ticks;
pub mod violation;

/// Approximate bytes that the tick index uses per event: one entry, plus the spare capacity of the
/// vector.
pub const INDEX_ROW_BYTES: usize = 24;
