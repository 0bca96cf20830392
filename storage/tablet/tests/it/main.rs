//! Tablets on a real disk, on a disk that loses unsynced data, and with damage.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests fail as tests do, and use real files"
)]

mod damage;
mod files;
mod fixture;
mod power;
