//! What clients of Flight send, read by code that trusts none of it.
//!
//! *What it is*: the readers of tickets ([`Sealed`], [`TextTicket`]), of commands and bodies of actions
//! ([`command`]), of session options, of batches in Arrow IPC ([`Batches`]) and of what they say
//! besides ([`Wish`]). What cannot be read is an error that says what, where, and how to mend it.
//!
//! *What it deliberately is not*: a server, a session, or SQL. It opens nothing and keeps nothing; no
//! DataFusion, so that libFuzzer can be set upon it.
//!
//! *Data path*: bytes → checked, where the libraries take a sender at his word → a message or a batch.

mod batches;
pub mod command;
mod ipc;
pub mod options;
mod seal;
mod text_ticket;
mod ticket;
mod wish;

pub use batches::{Arrived, Batches, Bound, Inbound, broken_off, shutting_down};
pub use ipc::BatchLimits;
pub use seal::Seal;
pub use text_ticket::TextTicket;
pub use ticket::{Errand, PreparedErrand, Sealed, StatementErrand, TICKET};
pub use wish::Wish;
