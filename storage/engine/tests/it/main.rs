//! Integration tests of the engine: one binary.

mod basics;
mod budget;
mod collisions;
mod concurrency;
mod deletes;
mod faults;
mod fixture;
mod journal;
mod memory_log;
mod model;
mod producers;
#[cfg(feature = "sabotage")]
mod sabotage;
mod scans;
mod schema_change;
mod types;
