//! The service, called with arrow-flight's own client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests fail as tests do, and use real files and clocks"
)]

mod acquire;
mod batches;
mod lies;
mod limits;
mod logins;
mod metrics;
mod raw;
mod server;
mod shutdown;
mod statements;
