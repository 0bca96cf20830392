//! The PostgreSQL protocol, version 3.
//!
//! *What it is*: a server that accepts connections, speaks start-up, simple and extended query,
//! COPY in and out, and cancel, and gives every connection one
//! [`Session`](stratalog_query::Session) of a [`QueryService`](stratalog_query::QueryService).
//!
//! *What it deliberately is not*: it plans no SQL, keeps no data and knows only its own limits as
//! settings. The `pgwire` crate encodes messages to the client, except rows. Messages from the
//! client are decoded here, because the `pgwire` crate's decoder trusts the lengths within a
//! message.
//!
//! *Data path*: socket → [`frontend`] (framed, limited) → [`connection`] → session → batches →
//! [`encode`] (column at a time) → output buffer → socket. A result is never held completely in
//! memory: a full buffer is flushed, and the stream waits meanwhile.

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
