//! SQL through sessions, on the real catalog, journal and engine in a temporary directory.

mod copy;
mod definitions;
mod deletes;
mod explain;
mod harness;
mod inserts;
mod limits;
mod parameters;
mod pushdown;
mod selects;
mod settings;
mod system_columns;
mod transactions;
mod types;
