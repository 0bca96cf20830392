//! Backups of running databases, on faulty disks and stores.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "helpers of tests fail as tests do"
)]

mod concurrency;
mod damage;
mod database;
mod failures;
mod increments;
mod remote;
