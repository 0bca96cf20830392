//! Moves events down the tiers (journal, tablets, stories), and finally removes events (F29–F35,
//! F60).
//!
//! ```text
//!   memory, journal ─► choose ─► collect:  batches           ─► tablets ─┐
//!       (grapher)         (pure)    rewrite:  tablets, stories  ─► stories ─┼► edit ─► new version
//!                                  expiry:   pieces with only deleted events ┘    (manifest)
//!   edit ─► unused files removed, first segments of the journal freed   (collect/floor)
//! ```
//!
//! Only one move runs at a time. A backup (`backup_hold`) delays only the removal of files and
//! journal segments.

pub mod backlog;
pub mod backup_hold;
pub mod build;
pub mod choose;
pub mod collect;
pub mod commit_times;
pub mod expiry;
pub mod files;
pub mod grapher;
pub mod journal_release;
pub mod move_history;
pub mod mover;
pub mod piece_numbers;
pub mod prefetch;
pub mod pressure_flush;
pub mod rewrite;
pub mod sweep;
pub mod target;
pub mod write_throttle;
