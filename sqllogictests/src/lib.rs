//! Runs `.slt` files against Stratalog, and says what differs.
//!
//! *What it is*: the driver of `cases/*.slt`, our own records, in every [`Mode`] (in
//! process, over the Postgres wire, and with events in lower tiers, all of them or some), and
//! of a curated list of DataFusion's files ([`upstream`]), in process.
//!
//! *What it deliberately is not*: a parser or comparer of its own (the `sqllogictest` crate
//! is), or a part of the product.
//!
//! *Data path*: file → records → [`Connection`] of the mode's [`Database`] → rows rendered
//! as PostgreSQL's text → compared; the [`Report`] counts and keeps the differences.
//!
//! The expected results of `cases` come from PostgreSQL: `oracle.py` verifies or rewrites
//! them. Column types are checked in process, where they are known: `B` boolean, `I`
//! integer, `R` float or numeric, `D` date, `P` timestamp, `T` anything else.
//!
//! Results are the same wherever events are. The few records that show where that is say
//! `onlyif journal`, or `onlyif` or `skipif` with the label of another mode.

pub mod failure;
pub mod letter;
pub mod mode;
pub mod run;
pub mod upstream;

pub use failure::Failure;
pub use letter::Letter;
pub use mode::{Connection, Database, Mode};
pub use run::{Report, run_file};
