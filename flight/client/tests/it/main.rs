//! The client against a real server, with kills, stops and broken connections.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests fail as tests do, and use real files and clocks"
)]

mod chronicle;
mod chronicle_faults;
mod clock;
mod concurrent;
mod examples;
mod faults;
mod login;
mod page;
mod proxy;
mod sql;
mod support;
mod writers;
