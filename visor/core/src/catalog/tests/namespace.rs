//! Databases, schemas and names.

use stratalog_model::ErrorKind;

use super::{apply, cpu, create, empty, refused, table};
use crate::catalog::{Command, oid_of};

fn create_schema(name: &str) -> Command {
    Command::CreateSchema {
        database: "stratalog".to_string(),
        name: name.to_string(),
        if_not_exists: false,
        owner: None,
    }
}

fn drop_schema(name: &str, cascade: bool) -> Command {
    Command::DropSchema {
        database: "stratalog".to_string(),
        name: name.to_string(),
        if_exists: false,
        cascade,
    }
}

fn create_database(name: &str) -> Command {
    Command::CreateDatabase { name: name.to_string(), if_not_exists: false }
}

fn drop_database(name: &str) -> Command {
    Command::DropDatabase { name: name.to_string(), if_exists: false }
}

#[test]
fn a_new_catalog_has_one_database_with_public() {
    let state = empty().state();
    assert_eq!(state.databases().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["stratalog"]);
    assert_eq!(state.schemas("stratalog").map(|s| s.name.as_str()).collect::<Vec<_>>(), ["public"]);
    assert_eq!(state.schemas("nowhere").count(), 0);
    assert_eq!(state.version(), 0);
}

#[test]
fn databases_are_separate() {
    let catalog = empty();
    create(&catalog, cpu());
    assert!(apply(&catalog, create_database("other")).unwrap().changed);
    let mut there = cpu();
    there.database = "other".to_string();
    let there = create(&catalog, there);
    let state = catalog.state();
    assert_ne!(state.chronicle("stratalog", "public", "cpu").unwrap().id, there.id);
    assert_eq!(state.chronicle("other", "public", "cpu").unwrap().id, there.id);
    assert_eq!(
        refused(&catalog, create_database("other")),
        (ErrorKind::DuplicateDatabase, "database \"other\" already exists".to_string())
    );
    let (kind, _) = refused(&catalog, drop_database("other"));
    assert_eq!(kind, ErrorKind::DependentObjects);
}

#[test]
fn dropping_what_is_missing() {
    let catalog = empty();
    assert_eq!(
        refused(&catalog, drop_database("x")),
        (ErrorKind::UndefinedDatabase, "database \"x\" does not exist".to_string())
    );
    assert_eq!(
        refused(&catalog, drop_schema("x", false)),
        (ErrorKind::UndefinedSchema, "schema \"x\" does not exist".to_string())
    );
    let if_exists = Command::DropChronicle {
        database: "stratalog".to_string(),
        schema: "public".to_string(),
        name: "x".to_string(),
        if_exists: true,
    };
    let outcome = apply(&catalog, if_exists).unwrap();
    assert!(!outcome.changed);
    assert_eq!(outcome.notices[0], "table \"x\" does not exist, skipping");
}

#[test]
fn what_everyone_relies_on_cannot_be_dropped() {
    let catalog = empty();
    assert_eq!(refused(&catalog, drop_database("stratalog")).0, ErrorKind::FeatureNotSupported);
    assert_eq!(refused(&catalog, drop_schema("public", true)).0, ErrorKind::FeatureNotSupported);
    assert_eq!(refused(&catalog, drop_schema("pg_catalog", true)).0, ErrorKind::DependentObjects);
}

#[test]
fn a_schema_with_tables_needs_cascade() {
    let catalog = empty();
    apply(&catalog, create_schema("metrics")).unwrap();
    let mut new = cpu();
    new.schema = "metrics".to_string();
    let id = create(&catalog, new).id;
    let error = apply(&catalog, drop_schema("metrics", false)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DependentObjects);
    assert_eq!(error.message(), "cannot drop schema metrics because other objects depend on it");
    assert_eq!(error.detail(), Some("table metrics.cpu depends on schema metrics"));
    let outcome = apply(&catalog, drop_schema("metrics", true)).unwrap();
    assert_eq!(outcome.dropped, [id]);
    assert!(catalog.state().chronicle_by_id(id).is_none());
    assert!(catalog.state().schema("stratalog", "metrics").is_none());
}

#[test]
fn system_schemas_are_reserved() {
    let catalog = empty();
    for name in ["pg_catalog", "pg_mine", "information_schema", "stratalog"] {
        assert_eq!(
            refused(&catalog, create_schema(name)),
            (ErrorKind::ReservedName, format!("unacceptable schema name \"{name}\""))
        );
        let mut new = cpu();
        new.schema = name.to_string();
        let kind = refused(&catalog, Command::CreateChronicle(new)).0;
        let expected = match name {
            "pg_mine" => ErrorKind::UndefinedSchema,
            _ => ErrorKind::InsufficientPrivilege,
        };
        assert_eq!(kind, expected, "{name}");
    }
}

#[test]
fn long_names_are_refused_not_cut() {
    let catalog = empty();
    create(&catalog, table(&"a".repeat(63), Vec::new()));
    let long = "ä".repeat(32);
    for command in [
        Command::CreateChronicle(table(&long, Vec::new())),
        create_schema(&long),
        create_database(&long),
    ] {
        assert_eq!(refused(&catalog, command).0, ErrorKind::NameTooLong);
    }
    assert_eq!(
        refused(&catalog, Command::CreateChronicle(table("", Vec::new()))),
        (ErrorKind::SyntaxError, "zero-length delimited identifier".to_string())
    );
}

#[test]
fn oids_are_distinct_and_stay() {
    let catalog = empty();
    apply(&catalog, create_schema("one")).unwrap();
    apply(&catalog, create_schema("two")).unwrap();
    let two = catalog.state().schema("stratalog", "two").unwrap().oid;
    apply(&catalog, drop_schema("one", false)).unwrap();
    apply(&catalog, create_schema("one")).unwrap();
    let state = catalog.state();
    let mut oids: Vec<u32> = state.schemas("stratalog").map(|schema| schema.oid).collect();
    assert_eq!(state.schema("stratalog", "two").unwrap().oid, two);
    oids.sort_unstable();
    oids.dedup();
    assert_eq!(oids.len(), 3);
    let id = create(&catalog, cpu()).id;
    assert_eq!(oid_of(id), 16_384 + id.0);
}
