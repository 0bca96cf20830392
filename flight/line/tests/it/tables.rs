//! Values in existing columns and in missing columns of a table.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{
        Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    },
};
use stratalog_line::{LineLimits, LineParser};
use stratalog_model::{Collision, ColumnType, ErrorKind};

use crate::fixture::{Catalog, NOW_NS, NS, REQUEST, batches, read, table};

fn column<'a>(batch: &'a RecordBatch, name: &str) -> &'a dyn Array {
    batch.column_by_name(name).unwrap()
}

fn texts(batch: &RecordBatch, name: &str) -> Vec<Option<String>> {
    let column = column(batch, name).as_string_view();
    column.iter().map(|value| value.map(String::from)).collect()
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_string())).collect()
}

#[test]
fn a_table_that_does_not_exist() {
    let mut catalog = Catalog::default();
    let outcome = read(
        &catalog,
        "cpu,host=a,region=a-long-name-of-a-region usage=1.5,cores=4i,free=5u,up=t,os=\"Linux\" 7\n\
         cpu,host=b usage=2 8\n\
         # nothing\n\
         cpu free=18446744073709551615u\n\
         cpu free=1u",
    );
    assert_eq!((outcome.lines_ok, outcome.lines_failed), (4, 0));
    let rows = &outcome.tables[0];
    assert_eq!(rows.measurement(), "cpu");
    assert!(rows.definition().is_none());
    assert_eq!(rows.new_tags(), ["host", "region"]);
    let numeric = ColumnType::Numeric { precision: 20, scale: 0 };
    assert_eq!(
        rows.new_fields(),
        [
            ("usage".to_string(), ColumnType::Double),
            ("cores".to_string(), ColumnType::BigInt),
            ("free".to_string(), numeric),
            ("up".to_string(), ColumnType::Boolean),
            ("os".to_string(), ColumnType::Text),
        ]
    );
    assert_eq!(
        (0..5).map(|row| rows.line(row)).collect::<Vec<_>>(),
        [Some(1), Some(2), Some(4), Some(5), None]
    );
    assert_eq!((rows.rows(), rows.first_line(), rows.last_line()), (4, 1, 5));
    assert_eq!(rows.ticks_ns(), [7, 8, NOW_NS, NOW_NS + 1]);

    let batch = batches(&mut catalog, outcome.tables).remove("cpu").unwrap();
    let ticks = column(&batch, "time").as_primitive::<TimestampNanosecondType>();
    assert_eq!(*ticks.values(), [7, 8, NOW_NS, NOW_NS + 1]);
    assert_eq!(texts(&batch, "host"), some(&["a", "b", "", ""]));
    assert_eq!(texts(&batch, "region"), some(&["a-long-name-of-a-region", "", "", ""]));
    let usage: Vec<_> = column(&batch, "usage").as_primitive::<Float64Type>().iter().collect();
    assert_eq!(usage, [Some(1.5), Some(2.0), None, None]);
    let free: Vec<_> = column(&batch, "free").as_primitive::<Decimal128Type>().iter().collect();
    assert_eq!(free, [Some(5), None, Some(u64::MAX.into()), Some(1)]);
    let up: Vec<_> = column(&batch, "up").as_boolean().iter().collect();
    assert_eq!(up, [Some(true), None, None, None]);
    assert_eq!(texts(&batch, "os"), [Some("Linux".to_string()), None, None, None]);
}

fn kinds() -> Catalog {
    let columns = [
        ("device", ColumnType::Text),
        ("note", ColumnType::Text),
        ("r", ColumnType::Real),
        ("s", ColumnType::SmallInt),
        ("i", ColumnType::Integer),
        ("b", ColumnType::BigInt),
        ("n", ColumnType::Numeric { precision: 5, scale: 2 }),
        ("u", ColumnType::Uuid),
        ("seen_at", ColumnType::TimestampTz { precision: 3 }),
    ];
    Catalog::with([table("m", &columns, &["device", "seen_at"])])
}

#[test]
fn a_table_made_by_sql() {
    let mut catalog = kinds();
    let outcome = read(
        &catalog,
        "m,device=d,note=as\\ a\\ tag r=1.5,s=-32768i,i=2147483647i,b=5u,n=-999i 1700000000000999999\n\
         m,device=d note=\"as a field\",s=7u,n=1u -1\n\
         m,device=d b=1i 0\n",
    );
    assert_eq!(outcome.errors, []);
    assert!(outcome.tables[0].new_tags().is_empty() && outcome.tables[0].new_fields().is_empty());
    let batch = batches(&mut catalog, outcome.tables).remove("m").unwrap();
    // Rounded down to milliseconds, towards the past.
    let ticks = column(&batch, "seen_at").as_primitive::<TimestampMillisecondType>();
    assert_eq!(*ticks.values(), [1_700_000_000_000, -1, 0]);
    assert_eq!(
        texts(&batch, "note"),
        [Some("as a tag".to_string()), Some("as a field".to_string()), None]
    );
    let r: Vec<_> = column(&batch, "r").as_primitive::<Float32Type>().iter().collect();
    assert_eq!(r, [Some(1.5), None, None]);
    let s: Vec<_> = column(&batch, "s").as_primitive::<Int16Type>().iter().collect();
    assert_eq!(s, [Some(i16::MIN), Some(7), None]);
    let i: Vec<_> = column(&batch, "i").as_primitive::<Int32Type>().iter().collect();
    assert_eq!(i, [Some(i32::MAX), None, None]);
    let b: Vec<_> = column(&batch, "b").as_primitive::<Int64Type>().iter().collect();
    assert_eq!(b, [Some(5), None, Some(1)]);
    let n: Vec<_> = column(&batch, "n").as_primitive::<Decimal128Type>().iter().collect();
    assert_eq!(n, [Some(-99_900), Some(100), None]);
    assert_eq!(column(&batch, "u").null_count(), 3);
}

#[test]
fn values_that_no_column_takes() {
    let catalog = kinds();
    for (line, kind, message) in [
        (
            "m r=1i",
            ErrorKind::DatatypeMismatch,
            "field \"r\" of table \"m\": the column is of type real, and the line has an integer; write a float, 1.5",
        ),
        (
            "m b=1",
            ErrorKind::DatatypeMismatch,
            "field \"b\" of table \"m\": the column is of type bigint, and the line has a float; write an integer, 1i",
        ),
        (
            "m u=\"x\"",
            ErrorKind::DatatypeMismatch,
            "field \"u\" of table \"m\": the column is of type uuid, and the line has a string; no line can write to the column: use another name for the field",
        ),
        (
            "m note=t",
            ErrorKind::DatatypeMismatch,
            "field \"note\" of table \"m\": the column is of type text, and the line has a boolean; write a string, \"text\"",
        ),
        (
            "m s=32768i",
            ErrorKind::NumericOutOfRange,
            "field \"s\" of table \"m\": the value is out of range for type smallint; write a value within the range, or write to another field",
        ),
        (
            "m n=1000i",
            ErrorKind::NumericOutOfRange,
            "field \"n\" of table \"m\": the value is out of range for type numeric(5,2); write a value within the range, or write to another field",
        ),
        (
            "m r=1e39",
            ErrorKind::NumericOutOfRange,
            "field \"r\" of table \"m\": the value is out of range for type real; write a value within the range, or write to another field",
        ),
        (
            "m b=9223372036854775808u",
            ErrorKind::NumericOutOfRange,
            "field \"b\" of table \"m\": the value is out of range for type bigint; write a value within the range, or write to another field",
        ),
        (
            "m device=\"d\"",
            ErrorKind::DatatypeMismatch,
            "field \"device\" of table \"m\": the column is a tag; write it behind the measurement, m,device=…",
        ),
        (
            "m,r=1 b=1i",
            ErrorKind::DatatypeMismatch,
            "tag \"r\" of table \"m\": the column is of type real, and tags are text; write a field instead, with a float, 1.5",
        ),
        (
            "m seen_at=1i",
            ErrorKind::DatatypeMismatch,
            "field \"seen_at\" of table \"m\" has the name of the column of timestamps; use another name",
        ),
        (
            "m,note=a note=\"b\"",
            ErrorKind::DuplicateColumn,
            "field \"note\" of table \"m\" has two values in the line; remove one of the two",
        ),
    ] {
        // A correct line first, so that the fast path is tried for the second line.
        let outcome = read(&catalog, &format!("m b=1i 1\n{line}\nm b=2i 3\n"));
        assert_eq!(outcome.errors.len(), 1, "{line}");
        let error = &outcome.errors[0];
        assert_eq!((error.line, error.kind, error.message.as_str()), (2, kind, message));
        assert_eq!(error.original, line);
        assert_eq!(outcome.tables[0].rows(), 2, "{line}");
        assert!(
            outcome.tables[0].new_tags().is_empty() && outcome.tables[0].new_fields().is_empty()
        );
        let batch = batches(&mut kinds(), outcome.tables).remove("m").unwrap();
        let b: Vec<_> = column(&batch, "b").as_primitive::<Int64Type>().iter().collect();
        assert_eq!(b, [Some(1), Some(2)], "{line}");
    }
}

#[test]
fn a_field_fills_a_key_column_that_is_not_text() {
    let columns = [
        ("at", ColumnType::Timestamp { precision: 0 }),
        ("device", ColumnType::BigInt),
        ("v", ColumnType::Double),
    ];
    let mut catalog = Catalog::with([table("m", &columns, &["device", "at"])]);
    let outcome = read(&catalog, "m device=7i,v=1 1999999999\nm v=2 2\n");
    assert_eq!(
        outcome.errors[0].to_string(),
        "line 2: null value in column \"device\" of relation \"m\" violates not-null constraint; write a value in every line"
    );
    assert_eq!(outcome.errors[0].kind, ErrorKind::NotNullViolation);
    let batch = batches(&mut catalog, outcome.tables).remove("m").unwrap();
    assert_eq!(*column(&batch, "device").as_primitive::<Int64Type>().values(), [7]);
    assert_eq!(*column(&batch, "at").as_primitive::<TimestampSecondType>().values(), [1]);
}

#[test]
fn tags_and_fields_that_a_table_lacks() {
    let columns = [("time", NS), ("host", ColumnType::Text), ("v", ColumnType::Double)];
    let mut catalog = Catalog::with([table("m", &columns, &["host", "time"])]);
    let outcome = read(&catalog, "m,host=a,rack=7 v=1,w=1i 1\nm,host=b v=2 2\nm w=3i 3\n");
    let rows = &outcome.tables[0];
    assert_eq!(rows.new_tags(), ["rack"]);
    assert_eq!(rows.new_fields(), [("w".to_string(), ColumnType::BigInt)]);
    // Without the columns the batch fails.
    let narrow = Arc::clone(rows.definition().unwrap());
    let error = read(&catalog, "m w=1i\n").tables.remove(0).into_batch(&narrow).unwrap_err();
    assert_eq!(error.message(), "table \"m\" has no column for field \"w\"");
    let batch = batches(&mut catalog, outcome.tables).remove("m").unwrap();
    assert_eq!(texts(&batch, "host"), some(&["a", "b", ""]));
    assert_eq!(texts(&batch, "rack"), [Some("7".to_string()), None, None]);
    let w: Vec<_> = column(&batch, "w").as_primitive::<Int64Type>().iter().collect();
    assert_eq!(w, [Some(1), None, Some(3)]);
}

#[test]
fn a_refused_line_leaves_nothing_behind() {
    let catalog = Catalog::default();
    // A new tag and new fields, and an error behind them.
    let outcome = read(&catalog, "m,a=1 x=1,y=2,x=3\nm,b=1 y=\"text\"\nm,x=1 a=t\n");
    assert_eq!(outcome.lines_failed, 1);
    let rows = &outcome.tables[0];
    assert_eq!(rows.new_tags(), ["b", "x"]);
    assert_eq!(
        rows.new_fields(),
        [("y".to_string(), ColumnType::Text), ("a".to_string(), ColumnType::Boolean)]
    );
}

#[test]
fn a_table_that_changed_while_rows_were_read() {
    let catalog = Catalog::default();
    let rows = || read(&catalog, "m,k=a v=1i,w=2.5 1\nm v=300i 2\n").tables.remove(0);
    let with = |v: ColumnType, w: ColumnType| {
        let columns = [("time", NS), ("k", ColumnType::Text), ("v", v), ("w", w)];
        Arc::new(table("m", &columns, &["k", "time"]))
    };
    let batch = rows().into_batch(&with(ColumnType::SmallInt, ColumnType::Real)).unwrap();
    let v: Vec<_> = column(&batch, "v").as_primitive::<Int16Type>().iter().collect();
    assert_eq!(v, [Some(1), Some(300)]);
    let w: Vec<_> = column(&batch, "w").as_primitive::<Float32Type>().iter().collect();
    assert_eq!(w, [Some(2.5), None]);
    let narrow = ColumnType::Numeric { precision: 2, scale: 0 };
    let error = rows().into_batch(&with(narrow, ColumnType::Real)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
    let error = rows().into_batch(&with(ColumnType::Text, ColumnType::Real)).unwrap_err();
    assert_eq!(error.message(), "column \"v\" is of type text, and the data was read as bigint");
}

#[test]
fn a_parser_asks_again_with_each_request() {
    let mut catalog = Catalog::default();
    let mut parser = LineParser::new(LineLimits::default());
    for round in 0..3 {
        parser.begin(REQUEST);
        parser.push(b"m,k=a v=1i 1\n", &catalog).unwrap();
        // The kind found for a new field stays valid within the request …
        let first = parser.take();
        assert_eq!(first[0].new_fields().len(), usize::from(round == 0));
        let _ = batches(&mut catalog, first);
        parser.push(b"m,k=a v=2i 2\n", &catalog).unwrap();
        let second = parser.take();
        assert_eq!(second[0].new_fields().len(), usize::from(round == 0));
        // … or until the parser is refreshed.
        parser.refresh();
        let outcome = {
            parser.push(b"m,k=a v=3i 3\nm,k=a v=t 4\n", &catalog).unwrap();
            parser.finish(&catalog).unwrap()
        };
        assert_eq!((outcome.lines_ok, outcome.lines_failed), (3, 1));
        assert!(outcome.tables[0].new_fields().is_empty());
    }
    // Rows that were not taken are dropped.
    parser.begin(REQUEST);
    parser.push(b"m,k=a v=1i 1\nm,k=a v=", &catalog).unwrap();
    parser.begin(REQUEST);
    let outcome = parser.finish(&catalog).unwrap();
    assert!(outcome.tables.is_empty() && outcome.lines_ok == 0);
}

#[test]
fn known_series_meet_a_changed_table() {
    let with = |host: ColumnType| {
        let columns = [("time", NS), ("host", host), ("v", ColumnType::Double)];
        Catalog::with([table("m", &columns, &["host", "time"])])
    };
    let mut parser = LineParser::new(LineLimits::default());
    let mut read = |catalog: &Catalog, text: &str| {
        parser.begin(REQUEST);
        parser.push(text.as_bytes(), catalog).unwrap();
        parser.finish(catalog).unwrap()
    };
    let text = "m,host=a v=1 1\nm,host=b v=2 2\n";
    for _ in 0..2 {
        let outcome = read(&with(ColumnType::Text), text);
        assert_eq!(outcome.lines_ok, 2);
        assert!(outcome.tables[0].new_tags().is_empty());
        // The tag is a number in this table.
        let outcome = read(&with(ColumnType::BigInt), text);
        assert_eq!(outcome.lines_failed, 2);
        assert_eq!(
            outcome.errors[1].message,
            "tag \"host\" of table \"m\": the column is of type bigint, and tags are text; write a field instead, with an integer, 1i"
        );
        // Without the table, new fields are new again.
        for kind in ["1", "t", "2i"] {
            let text = format!("m,host=a,rack=1 w={kind} 1\nm,host=b v={kind} 2\n");
            let outcome = read(&Catalog::default(), &text);
            assert_eq!((outcome.lines_ok, outcome.lines_failed), (2, 0));
            assert_eq!(outcome.tables[0].new_tags(), ["host", "rack"]);
            assert_eq!(outcome.tables[0].new_fields().len(), 2);
        }
    }
}

#[test]
fn a_tag_outside_of_the_key_is_refused_where_rows_replace_each_other() {
    let columns = [
        ("time", NS),
        ("host", ColumnType::Text),
        ("rack", ColumnType::Text),
        ("v", ColumnType::Double),
    ];
    let mut last = table("m", &columns, &["host", "time"]);
    last.collision = Collision::Last;
    let catalog = Catalog::with([last]);
    let outcome =
        read(&catalog, "m,host=a v=1 1\nm,host=a,rack=r v=2 1\nm,host=b rack=\"r\",v=3 1\n");
    assert_eq!((outcome.lines_ok, outcome.lines_failed), (2, 1));
    assert_eq!(outcome.errors[0].line, 2);
    assert!(outcome.errors[0].message.contains("not part of the key"), "{}", outcome.errors[0]);
}

#[test]
fn rows_know_whether_they_have_times_of_their_own() {
    let catalog = Catalog::default();
    let dated = |text: &str| -> Vec<bool> {
        read(&catalog, text).tables.iter().map(|rows| rows.is_dated()).collect()
    };
    assert_eq!(dated("cpu usage=1 7\ncpu usage=2 8"), [true]);
    assert_eq!(dated("cpu usage=1\ncpu usage=2"), [false]);
    assert_eq!(dated("cpu usage=1\ncpu usage=2\ncpu usage=3\n"), [false]);
    assert_eq!(dated("cpu usage=1\ncpu usage=2\ncpu usage=3 7\n"), [true]);
    assert_eq!(dated("cpu usage=1\nmem free=1 7\ncpu usage=2 8\nmem free=2"), [true, true]);
    assert_eq!(dated("cpu usage=1\nmem free=1 7\ncpu usage=2"), [false, true]);
}
