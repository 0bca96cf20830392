//! The client against the program itself, killed, stopped and cut off.

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
