//! The PostgreSQL protocol, version 3.
//!
//! *What it is*: a server that accepts connections, speaks start-up, simple and extended
//! query, COPY in and out, and cancel, and gives every connection one
//! [`Session`](stratalog_query::Session) of a [`QueryService`](stratalog_query::QueryService).
//!
//! *What it deliberately is not*: it plans no SQL, keeps no data and knows no setting but
//! its own limits. Messages to the client are encoded by the `pgwire` crate, but for the
//! rows; messages from the client are read here, because that crate's decoder trusts the
//! lengths within a message.
//!
//! *Data path*: socket → [`frontend`] (framed, bounded) → [`connection`] → session →
//! batches → [`encode`] (column at a time) → output buffer → socket. A result is never
//! held as a whole: the buffer is flushed when it is full, and the stream waits meanwhile.

pub mod budget;
pub mod connection;
mod copy_binary;
pub mod encode;
mod encoding;
pub mod frontend;
mod lobby;
mod outbound;
pub mod parameter;
mod server;
mod settings;
mod startup;
pub mod types;

pub use server::serve;
pub use settings::PgwireSettings;
