//! SQL over chronicles: sessions, planning, execution.
//!
//! *What it is*: the one [`QueryService`] that every protocol calls; DataFusion plans and
//! runs, chronicles are its tables, the catalog answers DDL, an
//! [`EventStore`](stratalog_model::EventStore) takes appends and gives snapshots.
//!
//! *What it deliberately is not*: it speaks no protocol, stores nothing and does not know
//! the engine behind the `EventStore` trait.

pub mod service;
