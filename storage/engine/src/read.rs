//! The player: reads a range of events of a pinned version (F18, F37–F39).
//!
//! ```text
//!   request ─► tiers: pieces with possible matches ─► ordered: one k-way merge by (tick, seq)
//!              (tick hulls, key index)             └► any:     pieces dealt to streams
//!     journal: batches in memory   (journal_tier)
//!     tablets, stories             (pieces)
//!   piece ─► selection of rows ─► projected batches, newest rows or aggregates
//!   commits ─► feed ─► followers in commit order   (follow)
//! ```

pub mod aggregate;
pub mod follow;
pub mod journal_piece;
pub mod journal_tier;
pub mod key_lookup;
pub mod key_set;
pub mod merge;
pub mod newest;
pub mod pieces;
pub mod select;
pub mod snapshot;
pub mod stream;
pub mod transaction_version;
