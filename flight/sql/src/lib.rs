//! Arrow Flight SQL: columns in and out, without conversion to rows.
//!
//! *What it is*: the gRPC service for ADBC, JDBC and InfluxDB 3's clients: logins and tokens,
//! statements and prepared statements with batches of parameters, transactions, metadata, ingestion
//! with an acknowledgement for each batch, cancellation.
//!
//! *What it deliberately is not*: a place to interpret SQL or to store data. No call is answered
//! with success before its work is done.
//!
//! *Data path*: call → its caller (limited by [`FlightSettings`]) → a session of
//! [`QueryService`](stratalog_query::QueryService) → `GetFlightInfo` plans and seals a ticket →
//! `DoGet` runs the ticket → batches, as soon as they are produced → IPC messages, encoded once for
//! all subscribers → the socket, with the messages of many streams in one write. In the other
//! direction: `DoPut` → batches, validated → one append each.

mod acknowledgement;
mod answers;
mod caller;
mod connection;
mod counted_body;
mod describe;
mod encode;
mod ingest;
mod measured_body;
mod metadata;
mod options;
mod placeholders;
mod prepared;
mod put;
mod server;
mod service;
mod settings;
mod sql_info;
mod statement;
mod status;
mod transaction;
mod wire_types;

pub use server::serve;
pub use settings::FlightSettings;
