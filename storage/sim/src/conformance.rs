//! Conformance suites: each suite tests the promises of a trait between the layers, with one
//! function for each promise.
//!
//! ```text
//!   trait Log         ◄── log     tested: the journal, and the in-memory logs of tests
//!   trait Tier        ◄── tier    tested: journal, tablets, stories
//!   trait EventStore  ◄── store   tested: the engine, over each kind of log, and over files
//! ```
//!
//! The tests of each implementation call the suite of its trait. A function of a suite panics if
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
