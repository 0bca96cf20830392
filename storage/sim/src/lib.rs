//! Accidents on purpose: what the tests of storage run on.
//!
//! *What it is*: [`FaultyDisk`], a disk in memory with a page cache, power cuts and
//! failing calls; [`SabotageDisk`], one that lies; [`power_cut`], a test of the journal
//! that a seed repeats; and the program `crash`, which kills a real server and checks
//! what it recovers.
//!
//! *What it deliberately is not*: part of the product. Nothing of it is linked into the
//! server.
//!
//! *Data path*:
//! ```text
//!   seed ─► script of appends and accidents ─► Journal on FaultyDisk ─► reopen ─► CL-1?
//! ```

pub mod faulty_disk;
pub mod power_cut;
pub mod random;
pub mod sabotage_disk;

pub use faulty_disk::{Crash, DiskCounts, Failure, FaultyDisk, Operation};
pub use random::Random;
pub use sabotage_disk::{Lie, SabotageDisk};
