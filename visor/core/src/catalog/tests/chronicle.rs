//! CREATE, ALTER and DROP TABLE.

use std::sync::Arc;

use stratalog_model::{
    Collision, ColumnId, ColumnType, Durability, ErrorKind, Granularity, SchemaVersion, TickSource,
};

use super::{
    MemoryLog, apply, column, cpu, create, empty, open, refused, table, time, with_key, with_option,
};
use crate::catalog::{Command, NewChronicle, NewColumn, OPTIONS_LATER};

fn creation(new: NewChronicle) -> Command {
    Command::CreateChronicle(new)
}

fn drop_table(name: &str) -> Command {
    Command::DropChronicle {
        database: "stratalog".to_string(),
        schema: "public".to_string(),
        name: name.to_string(),
        if_exists: false,
    }
}

#[test]
fn primary_key_makes_columns_not_null_and_collision_first() {
    let definition = create(&empty(), cpu());
    assert_eq!(definition.tick().unwrap().name, "time");
    assert_eq!(definition.key_columns, [ColumnId(2)]);
    assert_eq!(definition.collision, Collision::First);
    assert_eq!(definition.durability, Durability::Disk);
    assert_eq!(definition.scale.granularity(), Granularity::NANOSECOND);
    assert_eq!(definition.scale.base_ns(), definition.created_ns);
    let nullable: Vec<bool> = definition.columns.iter().map(|column| column.nullable).collect();
    assert_eq!(nullable, [false, false, true]);
}

#[test]
fn without_key_the_first_timestamp_is_the_tick() {
    let columns = vec![column("n", ColumnType::Integer), time("seen"), time("sent")];
    let definition = create(&empty(), table("t", columns));
    let tick = definition.tick().unwrap();
    assert_eq!((tick.name.as_str(), tick.nullable), ("seen", false));
    assert!(definition.column_named("sent").unwrap().nullable);
    assert!(!definition.primary_key && definition.key_columns.is_empty());
    assert_eq!(definition.collision, Collision::All);
}

#[test]
fn without_timestamp_a_time_column_is_added_as_the_last() {
    let definition = create(&empty(), table("t", vec![column("n", ColumnType::Integer)]));
    let names: Vec<&str> = definition.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["n", "time"]);
    let tick = definition.tick().unwrap();
    assert_eq!(tick.column_type, ColumnType::TimestampTz { precision: 9 });
    assert_eq!((tick.nullable, tick.default_sql.as_deref()), (false, Some("now()")));

    let taken = table("u", vec![column("time", ColumnType::Integer)]);
    assert_eq!(refused(&empty(), creation(taken)).0, ErrorKind::InvalidTableDefinition);
}

#[test]
fn a_key_without_a_time_is_told_how_to_get_one() {
    let hint = |columns: Vec<NewColumn>, key: &[&str]| {
        let new = with_key(table("t", columns), key);
        let error = apply(&empty(), creation(new)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTableDefinition);
        error.hint().unwrap().to_string()
    };
    let host = || column("host", ColumnType::Text);
    let midnight = |name: &str| {
        format!("declare \"{name}\" as TIMESTAMP: a date is stored as midnight of the date")
    };
    assert_eq!(hint(vec![column("time", ColumnType::Date)], &["time"]), midnight("time"));
    let days = vec![host(), column("day", ColumnType::Date)];
    assert_eq!(hint(days, &["host", "day"]), midnight("day"));
    assert_eq!(
        hint(vec![host(), column("time", ColumnType::BigInt)], &["time"]),
        "give \"time\" the type TIMESTAMPTZ or TIMESTAMP, and put the column last in the PRIMARY KEY"
    );
    assert_eq!(
        hint(vec![host()], &["host"]),
        "add a column \"time\" TIMESTAMPTZ, and declare PRIMARY KEY (host, time)"
    );
    assert_eq!(
        hint(vec![host(), time("seen")], &["host"]),
        "put the time column last: PRIMARY KEY (host, seen)"
    );
}

#[test]
fn time_alone_may_be_the_key() {
    for (value, collision) in [
        ("first", Collision::First),
        ("last", Collision::Last),
        ("next", Collision::Next),
        ("merge", Collision::Merge),
        ("all", Collision::All),
    ] {
        let new = with_key(table("t", vec![time("time")]), &["time"]);
        let definition = create(&empty(), with_option(new, "collision", value));
        assert_eq!(definition.collision, collision);
        assert!(definition.key_columns.is_empty());
        assert_eq!(definition.key_is_unique(), collision != Collision::All);
    }
}

#[test]
fn keys_that_cannot_be() {
    let catalog = empty();
    let key = |names: &[&str]| creation(with_key(cpu(), names));
    assert_eq!(
        refused(&catalog, key(&["hosts", "time"])),
        (ErrorKind::UndefinedColumn, "column \"hosts\" named in key does not exist".to_string())
    );
    assert_eq!(
        refused(&catalog, key(&["host", "host", "time"])),
        (
            ErrorKind::DuplicateColumn,
            "column \"host\" appears twice in primary key constraint".to_string()
        )
    );
    assert_eq!(refused(&catalog, key(&[])).0, ErrorKind::InvalidTableDefinition);
    assert_eq!(refused(&catalog, key(&["usage", "time"])).0, ErrorKind::InvalidTableDefinition);
    // If a key has only one timestamp column, this column is the tick column, at any position in
    // the key.
    let [swapped, usual] = [&["time", "host"], &["host", "time"]]
        .map(|names| create(&empty(), with_key(cpu(), names)));
    assert_eq!(
        (&swapped.key_columns, swapped.tick_column),
        (&usual.key_columns, usual.tick_column)
    );
}

#[test]
fn collision_rules_need_a_key() {
    let new = with_option(table("t", vec![time("time")]), "collision", "last");
    assert_eq!(refused(&empty(), creation(new)).0, ErrorKind::InvalidTableDefinition);
}

#[test]
fn columns_that_cannot_be() {
    let catalog = empty();
    let twice = table("t", vec![column("a", ColumnType::Text), column("a", ColumnType::Text)]);
    assert_eq!(
        refused(&catalog, creation(twice)),
        (ErrorKind::DuplicateColumn, "column \"a\" specified more than once".to_string())
    );
    let system = table("t", vec![column("_tick", ColumnType::BigInt)]);
    assert_eq!(refused(&catalog, creation(system)).0, ErrorKind::DuplicateColumn);
    let wide = ColumnType::Numeric { precision: 39, scale: 0 };
    let numeric = table("t", vec![column("a", wide)]);
    assert_eq!(refused(&catalog, creation(numeric)).0, ErrorKind::InvalidParameterValue);
    let many = (0..1600).map(|n| column(&format!("c{n}"), ColumnType::Integer)).collect();
    assert_eq!(refused(&catalog, creation(table("t", many))).0, ErrorKind::LimitExceeded);
}

#[test]
fn options_take_effect() {
    let new = ["granularity=1ms", "collision=last", "late=accept", "durability=relaxed"]
        .iter()
        .filter_map(|option| option.split_once('='))
        .fold(cpu(), |new, (option, value)| with_option(new, option, value));
    let definition = create(&empty(), new);
    assert_eq!(definition.scale.granularity().ns(), 1_000_000);
    assert_eq!(definition.scale.base_ns().rem_euclid(1_000_000), 0);
    assert_eq!(definition.collision, Collision::Last);
    assert_eq!(definition.durability, Durability::Relaxed);
}

#[test]
fn options_of_later_parts_are_refused() {
    let catalog = empty();
    for option in OPTIONS_LATER {
        assert_eq!(
            refused(&catalog, creation(with_option(cpu(), option, "auto"))),
            (ErrorKind::FeatureNotSupported, format!("option \"{option}\" is not yet supported"))
        );
    }
    let new = with_option(cpu(), "durability", "quorum");
    assert_eq!(refused(&catalog, creation(new)).0, ErrorKind::FeatureNotSupported);
}

#[test]
fn unknown_options_and_values_are_refused_with_a_hint() {
    let catalog = empty();
    let misspelt = creation(with_option(cpu(), "granularty", "1s"));
    let error = apply(&catalog, misspelt).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParameterValue);
    assert_eq!(error.message(), "unrecognized parameter \"granularty\"");
    assert!(error.hint().unwrap().starts_with("did you mean \"granularity\"?"), "{error}");
    let alien = apply(&catalog, creation(with_option(cpu(), "fillfactor", "70"))).unwrap_err();
    assert!(alien.hint().unwrap().starts_with("options are"), "{alien}");
    for (option, value) in [
        ("granularity", "2 fortnights"),
        ("granularity", "2d"),
        ("collision", "maybe"),
        ("late", "never"),
        ("durability", "paper"),
        ("retention", "for ever"),
        ("story_rows_max", "-1"),
        ("story_bytes_max", "0"),
        ("story_age_max", "90"),
        ("pin_for", "1 moon"),
    ] {
        let kind = refused(&catalog, creation(with_option(cpu(), option, value))).0;
        assert_eq!(kind, ErrorKind::InvalidParameterValue, "{option} {value}");
    }
    let twice = with_option(with_option(cpu(), "late", "accept"), "late", "accept");
    assert_eq!(refused(&catalog, creation(twice)).0, ErrorKind::InvalidParameterValue);
}

#[test]
fn the_tick_column_must_show_every_tick() {
    let catalog = empty();
    let seconds = |granularity: &str, collision: &str| {
        let column = column("time", ColumnType::TimestampTz { precision: 0 });
        let new = with_key(table("t", vec![column]), &["time"]);
        let new = with_option(new, "granularity", granularity);
        creation(with_option(new, "collision", collision))
    };
    for granularity in ["1500ms", "700ms", "7ns"] {
        let kind = refused(&catalog, seconds(granularity, "first")).0;
        assert_eq!(kind, ErrorKind::InvalidTableDefinition, "{granularity}");
    }
    assert_eq!(refused(&catalog, seconds("1ms", "next")).0, ErrorKind::InvalidTableDefinition);
    for (granularity, collision) in [("1ms", "first"), ("1s", "next"), ("1min", "last")] {
        apply(&catalog, seconds(granularity, collision)).unwrap();
        apply(&catalog, drop_table("t")).unwrap();
    }
}

#[test]
fn names_are_taken_once_and_ids_never_again() {
    let catalog = empty();
    let first = create(&catalog, cpu()).id;
    assert_eq!(
        refused(&catalog, creation(cpu())),
        (ErrorKind::DuplicateTable, "relation \"cpu\" already exists".to_string())
    );
    let again = NewChronicle { if_not_exists: true, ..cpu() };
    let outcome = apply(&catalog, creation(again)).unwrap();
    assert!(!outcome.changed);
    assert_eq!(outcome.notices[0], "relation \"cpu\" already exists, skipping");
    assert_eq!(outcome.chronicle.unwrap().id, first);
    let outcome = apply(&catalog, drop_table("cpu")).unwrap();
    assert_eq!(outcome.dropped, [first]);
    assert_eq!(
        refused(&catalog, drop_table("cpu")),
        (ErrorKind::UndefinedTable, "table \"cpu\" does not exist".to_string())
    );
    assert!(create(&catalog, cpu()).id > first);
}

#[test]
fn a_schema_that_is_missing_is_said() {
    let catalog = empty();
    let new = NewChronicle { schema: "nowhere".to_string(), ..cpu() };
    assert_eq!(
        refused(&catalog, creation(new)),
        (ErrorKind::UndefinedSchema, "schema \"nowhere\" does not exist".to_string())
    );
    let new = NewChronicle { database: "nowhere".to_string(), ..cpu() };
    assert_eq!(refused(&catalog, creation(new)).0, ErrorKind::UndefinedDatabase);
}

#[test]
fn renames_keep_ids() {
    let catalog = empty();
    let id = create(&catalog, cpu()).id;
    create(&catalog, table("mem", Vec::new()));
    let rename = |to: &str| Command::RenameChronicle { id, to: to.to_string() };
    for taken in ["mem", "cpu"] {
        assert_eq!(
            refused(&catalog, rename(taken)),
            (ErrorKind::DuplicateTable, format!("relation \"{taken}\" already exists"))
        );
    }
    assert_eq!(apply(&catalog, rename("load")).unwrap().chronicle.unwrap().name, "load");
    let state = catalog.state();
    assert!(state.chronicle("stratalog", "public", "cpu").is_none());
    assert_eq!(state.chronicle("stratalog", "public", "load").unwrap().id, id);

    let rename = |from: &str, to: &str| Command::RenameColumn {
        id,
        from: from.to_string(),
        to: to.to_string(),
    };
    assert_eq!(
        refused(&catalog, rename("nope", "x")),
        (ErrorKind::UndefinedColumn, "column \"nope\" does not exist".to_string())
    );
    assert_eq!(
        refused(&catalog, rename("host", "usage")),
        (
            ErrorKind::DuplicateColumn,
            "column \"usage\" of relation \"load\" already exists".to_string()
        )
    );
    assert_eq!(refused(&catalog, rename("host", "_gsn")).0, ErrorKind::DuplicateColumn);
    assert_eq!(refused(&catalog, rename("_gsn", "x")).0, ErrorKind::FeatureNotSupported);
    let renamed = apply(&catalog, rename("time", "at")).unwrap().chronicle.unwrap();
    assert_eq!(renamed.tick().unwrap().name, "at");
    assert_eq!(renamed.schema_version, SchemaVersion(1), "a rename touches no data");
}

#[test]
fn added_columns_make_a_schema_version() {
    let catalog = empty();
    let id = create(&catalog, cpu()).id;
    let add = |column, if_not_exists| Command::AddColumn { id, column, key: false, if_not_exists };
    let added = apply(&catalog, add(column("idle", ColumnType::Real), false)).unwrap();
    let definition = added.chronicle.unwrap();
    assert_eq!(definition.schema_version, SchemaVersion(2));
    assert_eq!(definition.columns.last().unwrap().id, ColumnId(4));
    assert_eq!(definition.arrow_schema_at(SchemaVersion(1)).unwrap().fields().len(), 3);
    assert_eq!(definition.arrow_schema_at(SchemaVersion(2)).unwrap().fields().len(), 4);

    assert_eq!(
        refused(&catalog, add(column("idle", ColumnType::Real), false)),
        (
            ErrorKind::DuplicateColumn,
            "column \"idle\" of relation \"cpu\" already exists".to_string()
        )
    );
    let outcome = apply(&catalog, add(column("idle", ColumnType::Real), true)).unwrap();
    assert!(!outcome.changed);
    assert_eq!(outcome.notices[0], "column \"idle\" of relation \"cpu\" already exists, skipping");

    let mut strict = column("dc", ColumnType::Text);
    strict.nullable = false;
    assert_eq!(
        refused(&catalog, add(strict.clone(), false)),
        (
            ErrorKind::NotNullViolation,
            "column \"dc\" of relation \"cpu\" contains null values".to_string()
        )
    );
    strict.missing_value = Some("unknown".to_string());
    let added = apply(&catalog, add(strict, false)).unwrap().chronicle.unwrap();
    assert_eq!(added.columns.last().unwrap().missing_value.as_deref(), Some("unknown"));
}

#[test]
fn only_some_options_may_change() {
    let catalog = empty();
    let id = create(&catalog, cpu()).id;
    let set = |option: &str, value: &str| Command::SetOptions {
        id,
        options: vec![(option.to_string(), value.to_string())],
    };
    let changed = apply(&catalog, set("durability", "relaxed")).unwrap();
    assert_eq!(changed.chronicle.unwrap().durability, Durability::Relaxed);
    assert!(!apply(&catalog, set("durability", "relaxed")).unwrap().changed);
    let kept = |option: &str, value: &str| {
        apply(&catalog, set(option, value)).unwrap().chronicle.unwrap().tiering
    };
    assert_eq!(kept("retention", "2h").retention_ms, Some(7_200_000));
    let both = kept("story_bytes_max", "1GiB");
    assert_eq!((both.retention_ms, both.story_bytes_max), (Some(7_200_000), Some(1 << 30)));
    assert!(!apply(&catalog, set("retention", "120 min")).unwrap().changed);
    assert_eq!(kept("retention", "off").retention_ms, None);
    for (option, value, kind) in [
        ("collision", "last", ErrorKind::CannotChangeNow),
        ("retention", "1 fortnight", ErrorKind::InvalidParameterValue),
        ("colour", "red", ErrorKind::InvalidParameterValue),
    ] {
        assert_eq!(refused(&catalog, set(option, value)).0, kind, "{option}");
    }
}

#[test]
fn where_times_come_from() {
    let log = Arc::new(MemoryLog::default());
    let catalog = open(&log);
    let plain = create(&catalog, cpu());
    assert_eq!((plain.time_source, plain.acceptance_window_ms), (TickSource::Column, None));
    let clocked = |name: &str, source: &str| {
        let mut new = with_option(cpu(), "time_source", source);
        new.name = name.to_string();
        new
    };
    let client = create(&catalog, clocked("a", "client"));
    assert_eq!((client.time_source, client.window_ns()), (TickSource::Client, 1_000_000_000));
    let server = clocked("b", "SERVER");
    let server = create(&catalog, with_option(server, "acceptance_window", "250ms"));
    assert_eq!((server.time_source, server.window_ns()), (TickSource::Server, 250_000_000));
    let set = |id, option: &str, value: &str| Command::SetOptions {
        id,
        options: vec![(option.to_string(), value.to_string())],
    };
    apply(&catalog, set(client.id, "acceptance_window", "5s")).unwrap();
    assert!(!apply(&catalog, set(client.id, "acceptance_window", "5000ms")).unwrap().changed);
    apply(&catalog, set(server.id, "acceptance_window", "default")).unwrap();
    for (id, option, value, kind) in [
        (client.id, "time_source", "server", ErrorKind::CannotChangeNow),
        (client.id, "late", "reject", ErrorKind::InvalidTableDefinition),
        (client.id, "acceptance_window", "61s", ErrorKind::InvalidParameterValue),
        (client.id, "acceptance_window", "0s", ErrorKind::InvalidParameterValue),
        (plain.id, "acceptance_window", "1s", ErrorKind::InvalidTableDefinition),
    ] {
        assert_eq!(refused(&catalog, set(id, option, value)).0, kind, "{option} = {value}");
    }
    for (option, value) in [("late", "reject"), ("acceptance_window", "2h")] {
        let new = with_option(clocked("c", "client"), option, value);
        refused(&catalog, Command::CreateChronicle(new));
    }
    let mut new = clocked("c", "server");
    new.columns[0].default_sql = Some("'2024-01-01'".to_string());
    let (kind, message) = refused(&catalog, Command::CreateChronicle(new.clone()));
    assert_eq!(kind, ErrorKind::InvalidTableDefinition, "{message}");
    new.columns[0].default_sql = Some("now()".to_string());
    create(&catalog, new);
    // A start reads all records, and an earlier version reads its known records: only these records
    // have format 4.
    assert_eq!(open(&log).state(), catalog.state());
    let formats: Vec<String> = log
        .frames
        .lock()
        .iter()
        .map(|frame| {
            let record: serde_json::Value = serde_json::from_slice(&frame.payload).unwrap();
            record["format"].to_string()
        })
        .collect();
    assert_eq!(formats.last_chunk().unwrap(), &["1", "4", "4", "4", "4", "4"].map(String::from));
    let text = serde_json::to_string(plain.as_ref()).unwrap();
    assert!(!text.contains("time_source") && !text.contains("acceptance"), "{text}");
}

#[test]
fn an_index_becomes_coarser() {
    let log = Arc::new(MemoryLog::default());
    let catalog = open(&log);
    for (at, rule) in ["all", "first", "last", "next"].into_iter().enumerate() {
        let mut new = with_option(with_option(cpu(), "collision", rule), "granularity", "10ms");
        new.name = rule.to_string();
        let made = create(&catalog, new);
        assert_eq!(made.index_granularity(), made.scale.granularity());
        let text = serde_json::to_string(made.as_ref()).unwrap();
        assert!(!text.contains("coarsened"), "{text}");
        let set = |value: &str| Command::SetOptions {
            id: made.id,
            options: vec![("granularity".to_string(), value.to_string())],
        };
        assert!(!apply(&catalog, set("10ms")).unwrap().changed);
        let coarser = apply(&catalog, set("1s")).unwrap().chronicle.unwrap();
        assert_eq!(coarser.index_granularity().to_string(), "1s");
        assert_eq!((coarser.scale, coarser.collision), (made.scale, made.collision));
        assert!(!apply(&catalog, set("1000ms")).unwrap().changed);
        for (value, kind) in [
            ("10ms", ErrorKind::CannotChangeNow),
            ("700ms", ErrorKind::CannotChangeNow),
            ("1500ms", ErrorKind::InvalidParameterValue),
            ("2d", ErrorKind::InvalidParameterValue),
        ] {
            assert_eq!(refused(&catalog, set(value)).0, kind, "{value}");
        }
        apply(&catalog, set("1min")).unwrap();
        assert_eq!(log.frames.lock().len(), 3 * (at + 1));
    }
    // A start reads the record and also older records: earlier versions have no granularity of the
    // index.
    assert_eq!(open(&log).state(), catalog.state());
    let mut old = log.frames.lock().last().unwrap().clone();
    assert!(old.payload.starts_with(b"{\"format\":5,"));
    old.payload = bytes::Bytes::from_static(
        b"{\"format\":4,\"change\":{\"set_options\":{\"id\":4,\"durability\":null,\"late\":null,\
          \"acceptance_window\":{\"window_ms\":5000}}}}",
    );
    log.frames.lock().push(old);
    let reopened = open(&log).state();
    let known = reopened.chronicle("stratalog", "public", "next").unwrap();
    assert_eq!(known.index_granularity().to_string(), "1min");
    assert_eq!(known.acceptance_window_ms, Some(5_000));
}

#[test]
fn comments_come_and_go() {
    let catalog = empty();
    let id = create(&catalog, cpu()).id;
    let on_table =
        |text: Option<&str>| Command::CommentOnChronicle { id, comment: text.map(str::to_string) };
    let on_column = |column: &str, text: Option<&str>| Command::CommentOnColumn {
        id,
        column: column.to_string(),
        comment: text.map(str::to_string),
    };
    let noted = apply(&catalog, on_table(Some("all hosts"))).unwrap().chronicle.unwrap();
    assert_eq!(noted.comment.as_deref(), Some("all hosts"));
    assert_eq!(apply(&catalog, on_table(Some(""))).unwrap().chronicle.unwrap().comment, None);
    apply(&catalog, on_column("usage", Some("percent"))).unwrap();
    let state = catalog.state();
    let usage = state.chronicle_by_id(id).unwrap().column_named("usage").unwrap().clone();
    assert_eq!(usage.comment.as_deref(), Some("percent"));
    assert_eq!(
        refused(&catalog, on_column("load", None)),
        (
            ErrorKind::UndefinedColumn,
            "column \"load\" of relation \"cpu\" does not exist".to_string()
        )
    );
}

#[test]
fn altering_what_was_dropped() {
    let catalog = empty();
    let id = create(&catalog, cpu()).id;
    apply(&catalog, drop_table("cpu")).unwrap();
    let rename = Command::RenameChronicle { id, to: "x".to_string() };
    assert_eq!(refused(&catalog, rename).0, ErrorKind::UndefinedTable);
}
