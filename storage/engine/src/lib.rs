//! The storage engine: keeps events durable and in order, and reads them back.
//!
//! *What it is*: the implementation of [`EventStore`](stratalog_model::EventStore) on any
//! [`Log`](stratalog_model::Log). The keeper admits events (schema, ticks, collisions by the series
//! table: F24–F28). The memtable holds events in memory. Versions record the owner of the events.
//! The player reads a pinned version through [`Tier`](stratalog_model::Tier)s (F18, F37).
//!
//! *What it deliberately is not*: the engine parses no SQL and knows no DataFusion, opens no file
//! (the log does), and keeps no catalog (the caller passes definitions in). The engine has one
//! thread, the grapher's: all other work runs on the thread of the append, the read or the frame
//! completion.
//!
//! *Data path*:
//! ```text
//!   push ─► ticks ─► stored columns ─► admit: keys reserved, events numbered ─► payload ─► Log
//!                                                                                          │
//!   scan ◄─ player ◄─ snapshot ◄─ PublishedVersions ◄───────── publish: gsn's ◄─ durable ◄─┘
//! ```
//!
//! | to change | look at |
//! |---|---|
//! | collisions, pending keys | `keeper/chronicle.rs`, `keeper/outcome.rs` |
//! | the bytes of a frame's payload | `memtable/encode.rs` |
//! | merging of small batches | `memtable/compact.rs` |
//! | visibility in a snapshot | `version/`, `player/select.rs` |
//! | order of scans | `player/merge.rs` |

mod backlog;
mod backpressure;
mod backup_hold;
mod blocking_pool;
mod budget;
pub mod check;
mod choose;
mod collect;
mod commit_times;
mod delete;
mod engine;
mod expiry;
mod grapher;
mod keeper;
mod manifest;
mod memtable;
mod move_history;
mod pieces;
mod player;
mod prefetch;
mod pressure_flush;
mod recovery;
mod rewrite;
mod sabotage;
mod settings;
mod tidy;
mod version;
mod write_throttle;

pub use backup_hold::{BackupHold, HeldPiece, write_manifest};
pub use blocking_pool::BlockingPool;
pub use collect::{ChronicleLookup, EngineFiles};
pub use engine::Engine;
pub use grapher::Grapher;
pub use manifest::{Manifest, ManifestReplay};
pub use pieces::piece::Shelves;
#[cfg(feature = "sabotage")]
pub use sabotage::FAULTS;
pub use settings::EngineSettings;
