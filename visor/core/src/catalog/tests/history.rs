//! After any sequence of commands, a restart restores the same catalog (CL-9).

use std::{collections::BTreeSet, sync::Arc};

use proptest::prelude::*;
use stratalog_model::{ChronicleId, ColumnType, ErrorKind};

use super::{MemoryLog, apply, clock, column, open, table, time, with_key, with_option};
use crate::catalog::{Catalog, Command, NewChronicle};

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "time", "public", "stratalog"]).prop_map(String::from)
}

fn id() -> impl Strategy<Value = ChronicleId> {
    (1_u32..8).prop_map(ChronicleId)
}

fn column_type() -> impl Strategy<Value = ColumnType> {
    prop::sample::select(vec![
        ColumnType::Boolean,
        ColumnType::Double,
        ColumnType::Numeric { precision: 10, scale: 2 },
        ColumnType::Jsonb,
        ColumnType::Array(Box::new(ColumnType::Text)),
        ColumnType::TimestampTz { precision: 3 },
    ])
}

fn new_chronicle() -> impl Strategy<Value = NewChronicle> {
    let columns = prop::collection::vec((name(), column_type()), 0..3);
    (name(), name(), name(), columns, any::<[bool; 4]>()).prop_map(
        |(database, schema, name, columns, [keyed, coarse, lenient, home])| {
            let mut all: Vec<_> = columns.into_iter().map(|(n, t)| column(&n, t)).collect();
            let mut new = if keyed {
                all.push(time("at"));
                with_key(table(&name, all), &["at"])
            } else {
                table(&name, all)
            };
            if coarse {
                new = with_option(new, "granularity", "1s");
            }
            new.if_not_exists = lenient;
            if !home {
                new.database = database;
                new.schema = schema;
            }
            new
        },
    )
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        1 => (name(), any::<bool>())
            .prop_map(|(name, if_not_exists)| Command::CreateDatabase { name, if_not_exists }),
        1 => (name(), any::<bool>())
            .prop_map(|(name, if_exists)| Command::DropDatabase { name, if_exists }),
        1 => (name(), name(), any::<bool>()).prop_map(|(database, name, if_not_exists)| {
            Command::CreateSchema { database, name, if_not_exists, owner: None }
        }),
        1 => (name(), name(), any::<[bool; 2]>()).prop_map(|(database, name, [if_exists, cascade])| {
            Command::DropSchema { database, name, if_exists, cascade }
        }),
        4 => new_chronicle().prop_map(Command::CreateChronicle),
        2 => name().prop_map(|name| Command::DropChronicle {
            database: "stratalog".to_string(),
            schema: "public".to_string(),
            name,
            if_exists: false,
        }),
        1 => (id(), name()).prop_map(|(id, to)| Command::RenameChronicle { id, to }),
        1 => (id(), name(), name()).prop_map(|(id, from, to)| Command::RenameColumn { id, from, to }),
        2 => (id(), name(), column_type(), any::<[bool; 3]>()).prop_map(
            |(id, name, column_type, [nullable, filled, if_not_exists])| {
                let mut column = column(&name, column_type);
                column.nullable = nullable;
                column.missing_value = filled.then(|| "1".to_string());
                Command::AddColumn { id, column, key: false, if_not_exists }
            }
        ),
        1 => (id(), prop::sample::select(vec![("durability", "relaxed"), ("durability", "disk"), ("granularity", "5s"), ("granularity", "1min")])).prop_map(|(id, (option, value))| {
            Command::SetOptions { id, options: vec![(option.into(), value.into())] }
        }),
        1 => (id(), prop::option::of(name()))
            .prop_map(|(id, comment)| Command::CommentOnChronicle { id, comment }),
        1 => (id(), name(), prop::option::of(name()))
            .prop_map(|(id, column, comment)| Command::CommentOnColumn { id, column, comment }),
    ]
}

/// Checks the invariants of every state.
fn check(catalog: &Catalog) -> Result<(), TestCaseError> {
    let state = catalog.state();
    let mut ids = BTreeSet::new();
    for database in state.databases() {
        prop_assert!(state.schema(&database.name, "public").is_some());
        let mut previous = None;
        for chronicle in state.chronicles(&database.name) {
            prop_assert!(chronicle.validate().is_ok());
            prop_assert!(ids.insert(chronicle.id));
            prop_assert!(Arc::ptr_eq(chronicle, state.chronicle_by_id(chronicle.id).unwrap()));
            let place = (chronicle.schema.clone(), chronicle.name.clone());
            prop_assert!(previous < Some(place.clone()), "not sorted");
            previous = Some(place);
            let current = chronicle.arrow_schema_at(chronicle.schema_version);
            prop_assert_eq!(current.unwrap(), chronicle.arrow_schema());
        }
    }
    prop_assert_eq!(ids.len(), state.chronicle_count());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_restart_finds_the_same_catalog(
        commands in prop::collection::vec(command(), 1..40),
        restart in 0_usize..40,
    ) {
        let log = Arc::new(MemoryLog::default());
        let mut catalog = Catalog::open(Arc::clone(&log) as Arc<_>, clock()).unwrap();
        let mut highest = ChronicleId(0);
        for (at, command) in commands.into_iter().enumerate() {
            if at == restart {
                catalog = open(&log);
            }
            let before = catalog.state();
            match apply(&catalog, command) {
                Ok(outcome) if outcome.changed => {
                    prop_assert!(catalog.state().version() == before.version() + 1);
                    for id in &outcome.dropped {
                        prop_assert!(before.chronicle_by_id(*id).is_some());
                        prop_assert!(catalog.state().chronicle_by_id(*id).is_none());
                    }
                }
                Ok(_) => prop_assert_eq!(&before, &catalog.state()),
                Err(error) => {
                    prop_assert_eq!(&before, &catalog.state());
                    let defect = [ErrorKind::DataCorrupted, ErrorKind::Internal];
                    prop_assert!(!defect.contains(&error.kind()), "{error}");
                }
            }
            let state = catalog.state();
            let held = state.databases().flat_map(|held| state.chronicles(&held.name));
            for made in held.filter(|held| before.chronicle_by_id(held.id).is_none()) {
                prop_assert!(made.id > highest, "an id was given twice");
                highest = made.id;
            }
            check(&catalog)?;
        }
        prop_assert_eq!(open(&log).state(), catalog.state());
    }
}
