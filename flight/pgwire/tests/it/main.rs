//! The server from its clients' view: tokio-postgres, and misbehaving sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

mod copy;
mod extended;
mod goodbye;
mod inbound;
mod lies;
mod limits;
mod malformed;
mod memory;
mod raw;
mod server;
mod simple;
mod speed;
mod startup;
mod subscribe;
