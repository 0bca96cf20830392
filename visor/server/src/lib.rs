//! The program `stratalog`: connects all parts of a database.
//!
//! *What it is*: settings, the data directory, the wiring of clock, journals, catalog, engine,
//! query service and listeners ([`Server`], and [`Embedded`] without listeners), and the commands
//! `serve`, `sql`, `import`, `export`, `check`, `clock`, `backup`, `backups`, `restore`, `user`, `token`, `certificate` and `demo`.
//!
//! *What it deliberately is not*: it stores nothing, plans nothing and speaks no protocol itself.
//! The parts are independent of each other; only this crate connects them.
//!
//! *Data path*: settings → data directory → clock → catalog → engine → query service → listeners;
//! and a close goes in the opposite order.

mod access;
mod access_target;
mod backup;
mod certificate;
pub mod check;
pub mod cli;
mod clock;
pub mod demo;
pub mod directory;
mod embedded;
pub mod export;
mod identity;
pub mod import;
mod logging;
mod login_secret;
pub mod memory;
mod password;
mod serve;
mod server;
pub mod settings;
pub mod sql;
mod start_error;
mod threads;
mod token;
mod user;

pub use backup::DatabaseBackups;
pub use embedded::Embedded;
pub use server::Server;
pub use start_error::StartError;
