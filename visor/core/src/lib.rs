//! The state of the visor: the catalog of databases, schemas and chronicles, the acquisitions of
//! chronicles, and the master clock.
//!
//! *What it is*: the catalog, stored as a log of commands (CL-9), rebuilt from the log at start,
//! and read through immutable snapshots; the acquisitions of chronicles, in memory only; and the
//! master clock (CL-8).
//!
//! *What it deliberately is not*: it stores no events, plans no SQL and opens no file. The caller
//! passes in the log and the disk.
//!
//! *Data path*: `Catalog::apply(Command)` validates against the current state, appends the command
//! to the log, waits until the record is durable, then publishes a new [`CatalogState`].

pub mod access;
pub mod acquisition;
pub mod catalog;
pub mod clock;
mod sabotage;

pub use acquisition::Acquisitions;
pub use catalog::{Catalog, CatalogState, Command, NewChronicle, NewColumn, Outcome};
pub use clock::{ClockSettings, MasterClock, SystemTimeSource, TimeSource};
