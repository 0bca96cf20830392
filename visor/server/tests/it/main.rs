//! The program from its users' view.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

mod backup;
mod check;
mod import;
mod kill;
mod metrics;
mod output;
mod settings;
mod sql;
mod start;
mod support;
mod tiers;
