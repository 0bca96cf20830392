//! The player: reads a range of events of a pinned version (F18, F37–F39).
//!
//! ```text
//!   request ─► tiers: pieces with possible matches ─► ordered: one k-way merge by (tick, seq)
//!              (tick hulls, key index)             └► any:     pieces dealt to streams
//!   piece ─► selection of rows ─► projected batches
//! ```

pub mod aggregate;
pub mod follow;
pub mod key_lookup;
pub mod keys;
pub mod merge;
pub mod newest;
pub mod piece;
pub mod select;
pub mod snapshot;
pub mod stream;
pub mod tier;
pub mod transaction_version;
