//! Arrow Flight SQL: columns in and out, as they are.
//!
//! *What it is*: the gRPC service that ADBC, JDBC and InfluxDB 3's clients speak to: logins and
//! tokens, statements and prepared statements with batches of parameters, transactions, metadata,
//! ingestion with an acknowledgement for each batch, cancellation.
//!
//! *What it deliberately is not*: a place where SQL is understood, or data kept. Of Flight's calls
//! none is answered as if it were done when it is not.
//!
//! *Data path*: call → who calls ([`FlightSettings`] bounds it) → a session of
//! [`QueryService`](stratalog_query::QueryService) → `GetFlightInfo` plans and seals a ticket →
//! `DoGet` runs it → batches, as they are produced → IPC messages, made once for all subscribers → the
//! socket, those of many streams in one write; and back: `DoPut` → batches, validated → one append each.

mod acknowledged;
mod answers;
mod caller;
mod connection;
mod counted;
mod describe;
mod encode;
mod ingest;
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
