//! Simulated accidents for the tests of storage.
//!
//! *What it is*: [`FaultyDisk`], a disk in memory with a page cache, power cuts and failing calls;
//! [`SabotageDisk`], a disk that reports success without effect; [`power_cut`], a random test of
//! the journal that can be repeated by its seed; the program `crash`, which kills a real server and
//! checks the recovered data; and [`conformance`], the test suites that each log, tier and store
//! must pass.
//!
//! *What it deliberately is not*: the crate is not part of the product; the server links nothing
//! of the crate.
//!
//! *Data path*:
//! ```text
//!   seed ─► script of appends and accidents ─► Journal on FaultyDisk ─► reopen ─► CL-1?
//! ```

pub mod conformance;
pub mod faulty_disk;
pub mod power_cut;
pub mod random;
pub mod sabotage_disk;

pub use faulty_disk::{Crash, DiskCounts, Failure, FaultyDisk, Operation};
pub use random::Random;
pub use sabotage_disk::{Lie, SabotageDisk};
