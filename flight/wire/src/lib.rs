//! Reads and validates the data that Flight clients send.
//!
//! *What it is*: the readers of tickets ([`SealedTicket`], [`TextTicket`]), of commands and bodies
//! of actions ([`command`]), of session options, of batches in Arrow IPC ([`Batches`]) and of their
//! additional metadata ([`BatchMetadata`]). The error for an unreadable input names the problem,
//! the place, and the correction.
//!
//! *What it deliberately is not*: a server, a session, or SQL. The crate opens no connection and
//! stores no data. For tests with libFuzzer, the crate does not depend on DataFusion.
//!
//! *Data path*: bytes → checks that the libraries omit, because they trust the sender → a message
//! or a batch.

mod batch_metadata;
mod batches;
pub mod command;
mod ipc;
pub mod options;
mod seal;
mod text_ticket;
mod ticket;

pub use batch_metadata::BatchMetadata;
pub use batches::{
    ArrivedBatch, Batches, BoundParameters, InboundMessages, broken_off, shutting_down,
};
pub use ipc::BatchLimits;
pub use seal::Seal;
pub use text_ticket::TextTicket;
pub use ticket::{PreparedWork, SealedTicket, StatementWork, TICKET, TicketWork};
