//! Immutable in-memory batches of events, in the same form in which the journal stores events.
//!
//! ```text
//!   pushed rows ─► stored columns ─► payload ─► frame ─► journal
//!                                      └► decoded in place ─► chunk ─► batch of a version
//! ```
//!
//! The arrays of a batch point into the payload of the journal frame. The bytes that recovery reads
//! back are therefore identical to the bytes served before.

pub mod batch;
pub mod column;
pub mod compact;
pub mod constant;
pub mod encode;
pub mod shape;
