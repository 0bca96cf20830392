//! SQL through sessions, on the real catalog, journal and engine in a temporary directory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

mod access;
mod acquire;
mod aggregates;
mod as_of;
mod audit;
mod conformance;
mod copy;
mod counted_rows;
mod crashes;
mod definitions;
mod deletes;
mod explain;
mod first_rows;
mod harness;
mod indexes;
mod inserts;
mod key_columns;
mod large_values;
mod limits;
mod lookups;
mod metrics;
mod newest;
mod parameters;
mod pushdown;
mod random_table;
mod selects;
mod settings;
mod slow_log;
mod subscribe;
mod system_columns;
mod tiers;
mod transactions;
mod types;
