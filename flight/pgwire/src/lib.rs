//! The server side of the PostgreSQL protocol, version 3.
//!
//! *What it is*: a server that accepts connections, speaks start-up, simple and extended query,
//! COPY in and out, and cancel, and gives every connection one
//! [`Session`](stratalog_query::Session) of a [`QueryService`](stratalog_query::QueryService).
//!
//! *What it deliberately is not*: the crate plans no SQL and stores no data; its settings are only
//! its own limits. The `pgwire` crate encodes messages to the client, except rows. Messages from
//! the client are decoded here, because the `pgwire` crate's decoder trusts the lengths within a
//! message.
//!
//! *Data path*: socket → TLS and login (`authentication`) → [`frontend`] (framed, limited) →
//! [`connection`] → session → batches → [`encode`] (column at a time) → output buffer → socket. The
//! server never has a complete result in memory: when the output buffer is full, the server sends
//! it, and the query waits in the
//! meantime.

mod authentication;
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
mod stream;
pub mod types;

pub use server::serve;
pub use settings::PgwireSettings;
