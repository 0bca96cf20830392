//! Tests across modules: requests of other encoders into batches.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    dead_code,
    reason = "helpers of tests and benches fail as tests do, and are shared with others"
)]

#[path = "../../../line/tests/it/fixture.rs"]
mod catalog;
mod json;
mod logs;
mod messages;
mod metrics;
mod properties;
mod remote_write;
mod rows;
