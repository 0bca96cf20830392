//! Stories on a real disk, on a faulty disk, in an object store, and with damage.

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
mod decoded;
mod faults;
mod files;
mod fixture;
mod formats;
mod power;
mod reading;
mod remote;
mod s3;
mod types;
