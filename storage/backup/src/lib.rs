//! Backups: copies of a database in a separate place, a folder or an object store.
//!
//! *What it is*: [`save`] captures a running engine at one instant, and stores the files that the
//! place lacks. [`restore`] makes a data directory from a backup. [`backups`] lists the backups of
//! a place, and [`keep`] removes old backups. In both directions, every byte is read back or
//! verified by its checksum (CL-6).
//!
//! *What it deliberately is not*: backups have no event format: files are copied unchanged. The
//! crate knows the files of the manifest, and how to copy a journal during writes. The crate has
//! no SQL, no settings and no threads.
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
//! A backup exists once its list exists: the next backup reuses the files of an interrupted backup,
//! or [`keep`] removes the files.

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
