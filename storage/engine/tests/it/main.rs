//! Integration tests of the engine: one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

mod acceptance;
mod backlog;
mod basics;
mod budget;
mod collisions;
mod concurrency;
mod conformance;
mod deletes;
mod failpoints;
mod faults;
mod fixture;
mod flips;
mod follow;
mod follow_limits;
mod formats;
mod journal;
mod life;
mod many_series;
mod memory_log;
mod merges;
mod model;
mod prepared;
mod pressure_flush;
mod producers;
#[cfg(feature = "sabotage")]
mod sabotage;
mod scans;
mod scenario;
mod schema_change;
mod tablets;
mod tiers;
mod trims;
mod types;
mod values;
mod wide;
