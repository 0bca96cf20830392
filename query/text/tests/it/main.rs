//! Tests across modules: a read of a written value returns the value.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

mod round_trip;
