//! Events in memory: immutable batches in the form in which they are also journaled.
//!
//! ```text
//!   pushed rows ─► stored columns ─► payload ─► frame ─► journal
//!                                      └► decoded in place ─► chunk ─► batch of a version
//! ```
//!
//! The arrays of a batch point into the payload that its frame carries: what recovery
//! reads back is bit for bit what was served before.

pub mod batch;
pub mod column;
pub mod compact;
pub mod encode;
pub mod shape;
