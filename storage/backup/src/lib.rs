//! Backups: copies of a database in a place of their own, a folder or an object store.
//!
//! *What it is*: [`save`] takes what a running engine names at one instant and stores what the
//! place does not have yet; [`restore`] makes a data directory of it; [`backups`] tells what is
//! there, and [`keep`] removes old ones. Every byte is read back, or compared with its checksum,
//! on both ways (CL-6).
//!
//! *What it deliberately is not*: a format of events. Files are copied as they are; it knows what
//! the manifest names, and how a journal is copied while it is written. No SQL, no settings, no
//! thread of its own.
//!
//! *Data path*:
//! ```text
//!   Engine::hold ─► manifest, floor ─┐
//!   Journal::extents, synced ────────┤   name from what it holds   no   put ─► read back
//!   catalog's journal, clock ────────┼─► is it in the place? ─────────►          │
//!   tablets, stories ────────────────┘            yes └────────────► list, put last ◄┘
//!
//!   list ─► files, each compared with its checksum, synced ─► manifest written anew ─► FORMAT
//! ```
//! A backup is there when its list is: what an interrupted one left is used by the next, or
//! removed by [`keep`].

mod capture;
mod content;
mod keep;
mod list;
mod place;
mod restore;
mod save;
mod source;
mod watch;

pub use keep::{Backup, Kept, Summary, backups, keep};
pub use list::{Entry, FORMAT_VERSION, List};
pub use place::{Place, PlaceGuard};
pub use restore::{RESTORING, Restored, Target, restore};
pub use save::{Saved, save};
pub use source::Source;
pub use watch::Watch;
