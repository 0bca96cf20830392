//! Moves of events down the tiers, and the final removal of events (F29–F35, F60).
//!
//! ```text
//!   load and pressure ─► choose ─► collect:  batches           ─► tablets ─┐
//!       (grapher)        (pure)    rewrite:  tablets, stories  ─► stories ─┼► edit ─► new version
//!                                  expiry:   pieces behind fences ─────────┘    (manifest)
//!   edit ─► doomed files removed, journal begins at a later segment   (collect/floor)
//! ```
//!
//! One move at a time. A backup (`backup_hold`) delays the removal of files and segments only.

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
