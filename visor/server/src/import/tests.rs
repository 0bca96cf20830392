use stratalog_model::ColumnType;

use super::*;
use crate::sql::rows::ResultColumn;

fn column(name: &str, column_type: ColumnType) -> ResultColumn {
    ResultColumn { name: name.to_string(), column_type }
}

fn weather() -> Vec<ResultColumn> {
    vec![
        column("origin", ColumnType::Text),
        column("temp", ColumnType::Double),
        column("time_hour", ColumnType::TimestampTz { precision: 9 }),
    ]
}

#[test]
fn a_table_is_made_from_the_inputs_columns() {
    let shape = Shape { key: vec!["origin".to_string()], time: None, ..Shape::default() };
    assert_eq!(
        create_statement("\"weather\"", &weather(), &shape).unwrap(),
        "CREATE TABLE IF NOT EXISTS \"weather\" (\n  \"origin\" text NOT NULL,\n  \"temp\" double precision,\n  \"time_hour\" timestamp(9) with time zone NOT NULL,\n  PRIMARY KEY (\"origin\", \"time_hour\")\n)"
    );
    let keyless = create_statement("w", &weather(), &Shape::default()).unwrap();
    assert!(keyless.ends_with("PRIMARY KEY (\"time_hour\")\n) WITH (collision = 'all')"));
}

#[test]
fn an_export_tells_the_base_of_its_table() {
    let note = TableNote {
        time: "time_hour".to_string(),
        key: vec!["origin".to_string()],
        granularity: "1us".to_string(),
        base_ns: -5_000,
        collision: "last".to_string(),
    };
    assert_eq!(TableNote::parse(&note.json()), Some(note.clone()));
    assert_eq!(
        note.flags(),
        "--create --time time_hour --key origin --with granularity=1us --with base=-5000ns --with collision=last"
    );
    let made = |shape: Shape, columns: &[ResultColumn]| {
        let shape = shape.with_note(Some(note.clone()), columns);
        create_statement("w", columns, &shape).unwrap()
    };
    let whole = made(Shape::default(), &weather());
    assert!(whole.ends_with(
        "PRIMARY KEY (\"origin\", \"time_hour\")\n) WITH (granularity = '1us', base = '-5000ns', collision = 'last')"
    ), "{whole}");
    let own = Shape { options: vec![("base".to_string(), "7'ns".to_string())], ..Shape::default() };
    let own = made(own, &weather());
    assert!(
        own.contains("WITH (base = '7''ns', granularity = '1us', collision = 'last')"),
        "{own}"
    );
    // The note names another key than the new table, or a column that the file lacks.
    let key = Shape { key: vec!["temp".to_string()], ..Shape::default() };
    let other = made(key, &weather());
    assert!(
        other.ends_with("\"temp\", \"time_hour\")\n) WITH (granularity = '1us', base = '-5000ns')"),
        "{other}"
    );
    let cut = made(Shape::default(), &weather()[1..]);
    assert!(cut.ends_with("PRIMARY KEY (\"time_hour\")\n) WITH (collision = 'all')"), "{cut}");
    assert!(option_of("base=5ns").is_ok());
    for wrong in ["base", "=5ns", "base=", "Base=1", "a b=1", "base) --=1"] {
        assert!(option_of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn names_of_keys_may_contain_commas() {
    for (text, names) in [
        ("host", vec!["host"]),
        ("a,b c", vec!["a", "b c"]),
        ("\"k,2\",\"K ey\",host", vec!["k,2", "K ey", "host"]),
        ("\"say \"\"hi\"\"\"", vec!["say \"hi\""]),
        ("a,", vec!["a", ""]),
    ] {
        assert_eq!(KeyNames::parse(text).unwrap().names(), names, "{text}");
    }
    for wrong in ["\"a", "\"a\"b", "b,\"a\" ,c"] {
        assert!(KeyNames::parse(wrong).is_err(), "{wrong}");
    }
    let note = |key: &[&str]| TableNote {
        time: "at time".to_string(),
        key: key.iter().map(|name| (*name).to_string()).collect(),
        granularity: "1us".to_string(),
        base_ns: 0,
        collision: "last".to_string(),
    };
    let flag = |key: &[&str]| {
        let flags = note(key).flags();
        let (_, rest) = flags.split_once(" --key ").unwrap();
        rest.split_once(" --with").unwrap().0.to_string()
    };
    assert_eq!(flag(&["host", "k_2"]), "host,k_2");
    assert_eq!(flag(&["K ey", "k,2", "host"]), "'\"K ey\",\"k,2\",host'");
    assert_eq!(flag(&["it's", "\"q\""]), "'\"it'\\''s\",\"\"\"q\"\"\"'");
    assert!(note(&[]).flags().starts_with("--create --time 'at time' --with granularity=1us"));
    // The shell of the user removes the outer quotes.
    let (key, names) = ("\"K ey\",\"k,2\",host", ["K ey", "k,2", "host"]);
    assert_eq!(KeyNames::parse(key).unwrap().to_string(), key);
    assert_eq!(KeyNames::parse(key).unwrap().names(), names);
}

#[test]
fn dates_are_the_time_where_there_are_no_timestamps() {
    let dates = [
        column("born", ColumnType::Date),
        column("Day", ColumnType::Date),
        column("n", ColumnType::BigInt),
    ];
    assert_eq!(
        create_statement("d", &dates, &Shape::default()).unwrap(),
        "CREATE TABLE IF NOT EXISTS d (\n  \"born\" date,\n  \"Day\" timestamp(9) without time zone NOT NULL,\n  \"n\" bigint,\n  PRIMARY KEY (\"Day\")\n) WITH (collision = 'all')"
    );
    let unnamed = create_statement("d", &dates[..1], &Shape::default()).unwrap();
    assert!(unnamed.contains("\"born\" timestamp(9) without time zone NOT NULL"), "{unnamed}");
    let both = [&dates[..], &weather()].concat();
    let timestamp = create_statement("d", &both, &Shape::default()).unwrap();
    assert!(timestamp.contains("PRIMARY KEY (\"time_hour\")"), "{timestamp}");
}

#[test]
fn what_cannot_be_a_table_is_said_by_name() {
    let error = |shape: Shape| create_statement("w", &weather(), &shape).unwrap_err();
    let unknown = error(Shape { key: vec!["nope".to_string()], time: None, ..Shape::default() });
    assert!(unknown.message.contains("no column \"nope\" (--key)"));
    assert_eq!(&*unknown.hint.unwrap(), "the columns of the input are: origin, temp, time_hour");
    let number = error(Shape { key: vec![], time: Some("temp".to_string()), ..Shape::default() });
    assert!(number.message.contains("contains double precision, not timestamps or dates"));
    let timeless = create_statement("w", &weather()[..2], &Shape::default()).unwrap_err();
    assert!(timeless.hint.unwrap().contains("--time"));
}

#[test]
fn a_producers_name_always_gives_the_same_id() {
    let id = |name: &str, table: u32| Producer::new(Some(name), table).id;
    assert_eq!(id("nightly", 16385).to_string(), "06c15161-88bc-36bc-fc08-4b48986c13d5");
    assert_ne!(id("nightly", 16385), id("nightly2", 16385));
    assert_ne!(id("nightly", 16385), id("nightly", 16386));
    assert_ne!(Producer::new(None, 16385), Producer::new(None, 16385));
    // With the random name, a later run can resume an interrupted import.
    let random = Producer::new(None, 16385);
    assert_eq!(Producer::new(Some(&random.name), 16385), random);
}

#[test]
fn table_names_keep_their_case_and_are_quoted() {
    assert_eq!(TableName::parse("a.B\"c").unwrap().quoted(), "\"a\".\"B\"\"c\"");
    let quoted = |text: &str| TableName::parse(text).unwrap().quoted();
    assert_eq!(quoted("public.\"My Table\""), "\"public\".\"My Table\"");
    assert_eq!(quoted("\"a.b\".\"c\"\"d\""), "\"a.b\".\"c\"\"d\"");
    assert!(TableName::parse("\"open").is_err() && TableName::parse("\"a\"b").is_err());
    assert!(TableName::parse("").is_err());
    assert!(TableName::parse(".t").is_err());
}
