//! Integration tests of the engine: one binary.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, outside of #[test] functions"
)]

mod basics;
mod budget;
mod collisions;
mod concurrency;
mod deletes;
mod faults;
mod fixture;
mod journal;
mod memory_log;
mod model;
mod producers;
#[cfg(feature = "sabotage")]
mod sabotage;
mod scans;
mod schema_change;
mod types;
