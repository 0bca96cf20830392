mod access;
mod chronicle;
mod conformance;
mod durability;
mod history;
mod memory_log;
mod namespace;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use futures::executor::block_on;
use stratalog_model::{ChronicleDefinition, Clock, ColumnType, ErrorKind, Result};

use super::{Catalog, Command, NewChronicle, NewColumn, Outcome};
use crate::access::Identity;
use memory_log::MemoryLog;

/// A clock that advances by 1 s with each reading.
#[derive(Debug)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now_ns(&self) -> i64 {
        self.0.fetch_add(1_000_000_000, Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        0
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(TestClock(AtomicI64::new(1_700_000_000_123_456_789)))
}

fn open(log: &Arc<MemoryLog>) -> Arc<Catalog> {
    Catalog::open(Arc::new(log.reopened()), clock()).unwrap()
}

fn empty() -> Arc<Catalog> {
    open(&Arc::default())
}

fn apply(catalog: &Catalog, command: Command) -> Result<Outcome> {
    block_on(catalog.apply(Identity::System, command))
}

/// The kind and the message of the error that a command must return.
fn refused(catalog: &Catalog, command: Command) -> (ErrorKind, String) {
    let before = catalog.state();
    let error = apply(catalog, command).unwrap_err();
    assert_eq!(before, catalog.state(), "a refused command changed something");
    (error.kind(), error.message().to_string())
}

fn column(name: &str, column_type: ColumnType) -> NewColumn {
    NewColumn {
        name: name.to_string(),
        column_type,
        nullable: true,
        default_sql: None,
        missing_value: None,
    }
}

fn time(name: &str) -> NewColumn {
    column(name, ColumnType::TimestampTz { precision: 9 })
}

fn table(name: &str, columns: Vec<NewColumn>) -> NewChronicle {
    NewChronicle {
        database: "stratalog".to_string(),
        schema: "public".to_string(),
        name: name.to_string(),
        columns,
        primary_key: None,
        options: Vec::new(),
        if_not_exists: false,
    }
}

fn with_key(mut new: NewChronicle, key: &[&str]) -> NewChronicle {
    new.primary_key = Some(key.iter().map(ToString::to_string).collect());
    new
}

fn with_option(mut new: NewChronicle, option: &str, value: &str) -> NewChronicle {
    new.options.push((option.to_string(), value.to_string()));
    new
}

fn cpu() -> NewChronicle {
    let columns =
        vec![time("time"), column("host", ColumnType::Text), column("usage", ColumnType::Double)];
    with_key(table("cpu", columns), &["host", "time"])
}

fn create(catalog: &Catalog, new: NewChronicle) -> Arc<ChronicleDefinition> {
    apply(catalog, Command::CreateChronicle(new)).unwrap().chronicle.unwrap()
}
