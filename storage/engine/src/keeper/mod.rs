//! The keeper: admits events, numbers the events, and tracks pending, committed and replaced
//! events.
//!
//! ```text
//!   push ─► ticks ─► stored columns ─► keys ─► admit (short lock: collisions, reserved keys)
//!        ─► payload ─► held or streamed ─► commit frame ─► gsn's ─► version
//! ```

pub mod admission;
pub mod admission_request;
pub mod append;
pub mod append_part;
pub mod chronicle;
pub mod chunk;
pub mod feed;
pub mod keys;
pub mod locator;
pub mod merge;
pub mod outcome;
pub mod producers;
pub mod series;
pub mod step;
pub mod ticks;
pub mod violation;

/// Approximate bytes of the tick index for each event: an entry, and the spare capacity of its
/// vector.
pub const INDEX_ROW_BYTES: usize = 24;
