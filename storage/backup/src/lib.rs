//! Backups: copies of a database in a separate place, which is a folder or an object store.
//!
//! *What it is*: [`save`] captures a running engine at one instant, and stores the files missing in
//! the place. [`restore`] makes a data directory from a backup. [`backups`] lists the backups of a
//! place, and [`keep`] removes old backups. A stored file is read back, and a restored file is
//! verified by its checksum (CL-6).
//!
//! *What it deliberately is not*: backups have no separate format for events, because files are
//! copied unchanged. The crate knows which files the manifest names, and how to copy a journal that
//! is being written. The crate has no SQL, no settings and no threads.
//!
//! *Data path*:
//! ```text
//!   Engine::hold ─► manifest, floor ─┐
//!   Journal::extents, synced ────────┤   name from the content     no   put ─► read back
//!   catalog's journal, clock ────────┼─► is it in the place? ─────────►          │
//!   tablets, stories ────────────────┘            yes └────────────► list, put last ◄┘
//!
//!   list ─► files, each verified by checksum, synced ─► manifest rewritten ─► FORMAT
//! ```
//! A backup exists once its list exists. The files of an interrupted backup are reused by the next
//! backup, or removed by [`keep`].

mod capture;
mod content;
mod list;
mod place;
mod restore;
mod retention;
mod save;
mod source;
mod watch;

pub use list::{Entry, FORMAT_VERSION, List};
pub use place::{Place, PlaceGuard};
pub use restore::{RESTORING, RestoreResult, Target, restore};
pub use retention::{Backup, RemovalResult, Summary, backups, keep};
pub use save::{SavedBackup, save};
pub use source::Source;
pub use watch::Watch;
