//! Tests of the journal through its public interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

mod basics;
mod conformance;
mod damage;
mod faults;
mod format;
mod release;
mod successor;
mod support;
