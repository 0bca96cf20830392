//! HTTP, and line protocol over HTTP and TCP.
//!
//! *What it is*: the interfaces for agents and operators: InfluxDB's write routes and QuestDB's TCP
//! port, Prometheus remote write and OTLP, SQL in requests, health and metrics.
//!
//! *What it deliberately is not*: a parser of lines (`stratalog-line`) or of telemetry
//! (`stratalog-telemetry`), a place to interpret SQL or to store data.
//!
//! *Data path*: body → decoded in pieces, within a budget → columns by table → missing tables and
//! columns are made → a single append for the request → 204 after the requested durability is
//! reached.

mod body;
mod compat;
mod connection_limit;
mod guard;
mod health;
mod json;
mod lines;
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

pub use server::serve;
pub use settings::HttpSettings;
