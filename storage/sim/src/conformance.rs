//! Conformance suites: the promises of the traits between the layers, a function for each promise.
//!
//! ```text
//!   trait Log         ◄── log     the journal, and the logs in memory of tests
//!   trait Tier        ◄── tier    journal, tablets, stories
//!   trait EventStore  ◄── store   the engine, over each kind of log, with and without files
//! ```
//!
//! The tests of each implementation call the suite of the trait. A function of a suite panics if
//! the implementation breaks the promise.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the functions of a suite fail as tests do"
)]

pub mod log;
pub mod sample;
pub mod store;
pub mod tier;
