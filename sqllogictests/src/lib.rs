//! Runs `.slt` files against Stratalog and reports differences.
//!
//! *What it is*: the driver of Stratalog's own records in `cases/*.slt`, in every [`Mode`] (in
//! process, over the Postgres wire, and with all or some events in lower tiers), and of a curated
//! list of DataFusion's files ([`upstream`]), in process.
//!
//! *What it deliberately is not*: a parser or a comparison of results (the `sqllogictest` crate
//! provides both). The crate is no part of the product.
//!
//! *Data path*: file → records → [`Connection`] of the mode's [`Database`] → rows rendered as
//! PostgreSQL's text → compared; the [`Report`] counts and keeps the differences.
//!
//! The expected results of `cases` come from PostgreSQL: `oracle.py` verifies or rewrites them.
//! Column types are checked in process, where the types are known: `B` boolean, `I` integer, `R`
//! float or numeric, `D` date, `P` timestamp, `T` anything else.
//!
//! Results are independent of the tier of the events. The few records that depend on the tier have
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
