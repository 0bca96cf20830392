//! Optimizer rules for physical plans. Some rules move aggregates, orders and keys into scans;
//! others keep large or long computations within limits.
//!
//! The rules for PostgreSQL compatibility are in [`stratalog_postgres::rules`].

pub mod aggregate_pushdown;
pub mod first_rows;
pub mod key_lookups;
pub mod newest_rows;
pub mod one_stream;
pub mod ordered_scan;
pub mod physical;
pub mod sliced_batches;
pub mod stoppable_joins;
