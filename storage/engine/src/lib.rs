//! The storage engine: keeps events durable and in order, and reads them back.
//!
//! *What it is*: the implementation of [`EventStore`](stratalog_model::EventStore) on any
//! [`Log`](stratalog_model::Log). The keeper admits events: it checks their schema, assigns ticks,
//! and detects collisions with the series table (F24–F28). Committed events stay in memory as
//! batches until they move into files. Versions record the owner of each event. The player reads a
//! pinned version through [`Tier`](stratalog_model::Tier)s (F18, F37).
//!
//! *What it deliberately is not*: the engine parses no SQL, knows no DataFusion, and keeps no
//! catalog (the caller passes definitions in). It opens no file itself: the log, and the crates of
//! tablets and stories, do. The engine has one permanent thread, the grapher's. Recovery, and moves
//! that a caller requests, use temporary threads. All other work runs on the thread of the append,
//! the read or the frame completion.
//!
//! *Data path*:
//! ```text
//!   push ─► ticks ─► stored columns ─► admit: keys reserved, events numbered ─► payload ─► Log
//!                                                                                          │
//!   scan ◄─ player ◄─ snapshot ◄─ PublishedVersions ◄───────── publish: gsn's ◄─ durable ◄─┘
//! ```
//!
//! | folder | subject |
//! |---|---|
//! | `events` | the forms of events: columns, batches, payloads of frames, blocks |
//! | `ingest` | appends and deletes, up to the commit |
//! | `version` | the owners of the events, in memory and in the manifest |
//! | `tiering` | moves: journal → tablets → stories → removal |
//! | `read` | scans, lookups, aggregates, subscriptions |
//! | `check` | verification of all stored data |
//! | `recovery` | the start: manifest and journal → versions |
//!
//! | to change | look at |
//! |---|---|
//! | visibility of commits, the order of locks | `version/publisher.rs` |
//! | collisions, pending keys | `ingest/chronicle.rs`, `ingest/outcome.rs` |
//! | the bytes of a frame's payload | `events/encode.rs` |
//! | merging of small batches | `version/compact.rs` |
//! | visibility in a snapshot | `version.rs`, `read/select.rs` |
//! | order of scans | `read/merge.rs` |

mod blocking_pool;
pub mod check;
mod engine;
mod events;
mod ingest;
mod read;
mod recovery;
mod sabotage;
mod settings;
mod tiering;
mod version;

pub use blocking_pool::BlockingPool;
pub use engine::Engine;
#[cfg(feature = "sabotage")]
pub use sabotage::FAULTS;
pub use settings::EngineSettings;
pub use tiering::{
    backup_hold::{BackupHold, HeldPiece, write_manifest},
    files::{ChronicleLookup, EngineFiles},
    grapher::Grapher,
};
pub use version::{
    manifest::{Manifest, ManifestReplay},
    piece::Shelves,
};
