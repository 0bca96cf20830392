//! Statements of clients, and their answers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

mod clients;
mod corpus;
mod fixture;
mod information;
mod psql;
mod session_functions;
