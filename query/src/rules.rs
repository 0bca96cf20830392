//! Rules over physical plans that use storage: aggregates, orders and keys go down into the scan, and
//! large or long work stays within limits.
//!
//! The rules for PostgreSQL's answers are in [`stratalog_postgres::rules`].

pub mod aggregate_pushdown;
pub mod first_rows;
pub mod key_lookups;
pub mod newest_rows;
pub mod one_stream;
pub mod ordered_scan;
pub mod physical;
pub mod sliced_batches;
pub mod stoppable_joins;
