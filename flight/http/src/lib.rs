//! HTTP, and line protocol over HTTP and TCP.
//!
//! **What it is*: the HTTP interfaces of the server: InfluxDB's write routes, Prometheus remote
//! write and OTLP, SQL over HTTP, health and metrics; also line protocol over TCP, for QuestDB's
//! clients.
//!
//! *What it deliberately is not*: a parser of lines (`stratalog-line`) or of telemetry
//! (`stratalog-telemetry`), a place to interpret SQL or to store data.
//!
//! **Data path*: body → decompression in steps, within a memory limit → columns by table → creation
//! of missing tables and columns → a single append for the request → status 204 after the rows have
//! the requested durability.

mod body;
mod compat;
mod connection_limit;
mod guard;
mod health;
mod json;
mod lines;
mod login;
mod metrics;
mod problem;
mod request_limit;
mod server;
mod settings;
mod sql;
mod state;
mod store;
mod subscribe;
mod tcp;
mod telemetry;
mod write;
mod writers;

pub use server::serve;
pub use settings::HttpSettings;
