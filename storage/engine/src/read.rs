//! The player: reads a range of events of one pinned version of a chronicle (F18, F37–F39). A
//! *split* is the unit of reading: a batch in memory, blocks of a tablet, or row groups of a story.
//!
//! ```text
//!   request ─► tiers: splits with possible matches ─► ordered: one k-way merge by (tick, seq)
//!              (tick hulls, key index)             └► any:     splits distributed over streams
//!     journal: batches in memory   (journal_tier)
//!     tablets, stories             (pieces)
//!   split ─► selection of rows ─► projected batches, newest rows or aggregates
//!   commits ─► feed ─► followers in commit order   (follow)
//! ```

pub mod aggregate;
pub mod follow;
pub mod journal_split;
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
