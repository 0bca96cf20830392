//! The program as its users run it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod import;
mod kill;
mod output;
mod settings;
mod sql;
mod start;
mod support;
