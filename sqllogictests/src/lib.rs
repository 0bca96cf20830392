//! Runs `.slt` files against Stratalog and reports differences.
//!
//! *What it is*: a test driver. The driver runs Stratalog's own records in `cases/*.slt` in every
//! [`Mode`] (in process, over the PostgreSQL protocol, and with all or some events in lower storage
//! tiers). The driver also runs selected DataFusion files ([`upstream`]) in process.
//!
//! *What it deliberately is not*: a parser or a comparison of results (the `sqllogictest` crate
//! provides both). The crate is not part of the product.
//!
//! *Data path*: file → records → [`Connection`] of the mode's [`Database`] → rows formatted as in
//! PostgreSQL → comparison; the [`Report`] counts the records and stores the differences.
//!
//! The expected results of `cases` come from PostgreSQL: `oracle.py` verifies or rewrites them.
//! Column types are checked in process, where the types are known: `B` boolean, `I` integer, `R`
//! float or numeric, `D` date, `P` timestamp, `T` anything else.
//!
//! Results do not depend on the storage tier of the events. The few records that depend on the tier
//! have `onlyif journal`, or `onlyif` or `skipif` with the label of another mode.

pub mod failure;
pub mod letter;
pub mod mode;
pub mod run;
pub mod upstream;

pub use failure::Failure;
pub use letter::Letter;
pub use mode::{Connection, Database, Mode};
pub use run::{Report, run_file};
