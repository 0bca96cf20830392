//! The server of Arrow Flight SQL: receives and sends data in columns, without conversion to rows.
//!
//! *What it is*: the gRPC service for ADBC, JDBC and InfluxDB 3's clients: logins and tokens,
//! statements and prepared statements with batches of parameters, transactions, metadata, ingestion
//! with an acknowledgement for each batch, cancellation.
//!
//! *What it deliberately is not*: a place to interpret SQL or to store data. The server reports
//! success for a call only after the work of the call is done.
//!
//! *Data path*: call → its login (within the limits of [`FlightSettings`]) → a session of
//! [`QueryService`](stratalog_query::QueryService) → `GetFlightInfo` plans the query and issues a
//! ticket → `DoGet` runs the query of the ticket → batches, as soon as the query produces them →
//! IPC messages, encoded once for all subscribers → the socket, with the messages of many streams
//! in one write. In the other direction: `DoPut` → validated batches → one append for all batches
//! that wait.

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
