//! HTTP, and line protocol over HTTP and TCP.
//!
//! *What it is*: the doors for agents and operators: InfluxDB's write routes and QuestDB's TCP port,
//! Prometheus remote write and OTLP, SQL in requests, health and metrics.
//!
//! *What it deliberately is not*: a parser of lines (that is `stratalog-line`) or of telemetry
//! (`stratalog-telemetry`), a place where SQL is understood, or data kept.
//!
//! *Data path*: body → decoded, piece by piece, within a budget → columns by table → tables and
//! columns that are missing are made → one append for the request → 204 when it is as durable as was
//! asked for.

mod body;
mod compat;
mod crowd;
mod guard;
mod health;
mod json;
mod lines;
mod metrics;
mod problem;
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
