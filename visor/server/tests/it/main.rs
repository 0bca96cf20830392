//! The program as its users run it.

mod import;
mod kill;
mod output;
mod settings;
mod sql;
mod start;
mod support;
