//! Lines: their errors, their numbers, their pieces.

use std::sync::Arc;

use stratalog_line::{LineLimits, LineParser, LineRequest, Precision, RowLimits, Tables};
use stratalog_model::{ChronicleDefinition, ColumnType, ErrorKind};

use crate::fixture::{Catalog, NS, REQUEST, read, read_pieces, table};

/// The error messages of a request, with their lines.
fn errors(text: &str) -> Vec<String> {
    read(&Catalog::default(), text).errors.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_wrong_is_said() {
    for (line, message) in [
        (
            ",a=b v=1",
            "the line has no measurement before the comma; write the name of the measurement at the beginning of the line",
        ),
        (
            "m",
            "the line of measurement \"m\" has no fields; write a space and a field behind the tags, value=1",
        ),
        (
            "m,a=b ",
            "the line of measurement \"m\" has no fields; write a space and a field behind the tags, value=1",
        ),
        (
            "m,a v=1",
            "tag \"a\" at byte 3 has no value; write tags as name=value, and a backslash before each comma, space and = within",
        ),
        (
            "m,a,b=1 v=1",
            "tag \"a\" at byte 3 has no value; write tags as name=value, and a backslash before each comma, space and = within",
        ),
        (
            "m, v=1",
            "a tag is missing at byte 3; write tags as name=value, and a backslash before each comma, space and = within",
        ),
        ("m,a= v=1", "tag \"a\" has no value; omit a tag without a value"),
        (
            "m,a=b\\\\ v=1",
            "the value of tag \"b\\\" ends with a backslash; use another last character: a backslash escapes the next character",
        ),
        ("m,a=1,a=2 v=1", "tag \"a\" is given twice; remove one of the two"),
        ("m,a=1 a=1", "\"a\" is both a tag and a field of table \"m\"; rename one of the two"),
        (
            "m,a=1\tv=1",
            "a tab at byte 6 is out of place; to make the character part of the name, write a backslash before the character",
        ),
        (
            "m v",
            "field \"v\" at byte 3 has no value; write fields as name=value, and a backslash before each comma, space and = in a name",
        ),
        (
            "m v=1,",
            "a field is missing at byte 7; write fields as name=value, and a backslash before each comma, space and = in a name",
        ),
        ("m v=", "field \"v\" has no value; values are written as 1.5, 1i, 1u, true or \"text\""),
        (
            "m v=1.2.3,w=1",
            "field \"v\": 1.2.3 at byte 5 is not a value; values are written as 1.5, 1i, 1u, true or \"text\"",
        ),
        (
            "m v=NaN",
            "field \"v\": NaN at byte 5 is not a value; values are written as 1.5, 1i, 1u, true or \"text\"",
        ),
        (
            "m v=-1u",
            "field \"v\": -1u at byte 5 is not a value; values are written as 1.5, 1i, 1u, true or \"text\"",
        ),
        (
            "m v=truely",
            "field \"v\": truely at byte 5 is not a value; values are written as 1.5, 1i, 1u, true or \"text\"",
        ),
        (
            "m v=\"a\"b",
            "\"b\" at byte 8 follows a value; write a comma and the next field, or a space and the timestamp",
        ),
        (
            "m v=9223372036854775808i",
            "field \"v\": 9223372036854775808i is out of range; integers have 64 bits, and floats are finite",
        ),
        (
            "m v=1e999",
            "field \"v\": 1e999 is out of range; integers have 64 bits, and floats are finite",
        ),
        (
            "m v=1,v=2",
            "field \"v\" of table \"m\" has two values in the line; remove one of the two",
        ),
        (
            "m v=1 soon",
            "\"soon\" at byte 7 is not a timestamp; write a whole number or no timestamp, and a backslash before each space in a name or tag",
        ),
        (
            "m v=1 1.5",
            "\"1.5\" at byte 7 is not a timestamp; write a whole number or no timestamp, and a backslash before each space in a name or tag",
        ),
        (
            "m v=1 9223372036854775808",
            "timestamp 9223372036854775808 in nanoseconds is out of range; timestamps must be from 1677 to 2262; give the unit as the precision of the request",
        ),
        (
            "m v=\"a",
            "the string of field \"v\" has no closing quote; close the string; write a quote within a string as \\\"",
        ),
        ("m time=1", "field \"time\" has the name of the column of timestamps; use another name"),
        ("m,time=1 v=1", "tag \"time\" has the name of the column of timestamps; use another name"),
        ("m _tick=1", "field \"_tick\" conflicts with a system column name; use another name"),
        ("m\\\nx v=1", "measurement \"m\\\nx\" contains a newline; only strings can have newlines"),
        (
            "m v=\"a\0b\"",
            "the string of field \"a\0b\" has a character of code 0, which text cannot contain; remove the character",
        ),
        (
            "m,a=\0 v=1",
            "the value of tag \"\0\" has a character of code 0, which text cannot contain; remove the character",
        ),
    ] {
        assert_eq!(errors(line), [format!("line 1: {message}")], "{line:?}");
    }
    let long = "n".repeat(64);
    for (line, what) in [
        (format!("{long} v=1"), "measurement"),
        (format!("m,{long}=1 v=1"), "tag"),
        (format!("m {long}=1"), "field"),
    ] {
        let message = format!(
            "line 1: the name of {what} \"{long}\" has 64 bytes; the maximum is 63; use a shorter name"
        );
        assert_eq!(errors(&line), [message]);
    }
}

#[test]
fn lines_are_numbered_as_an_editor_numbers_them() {
    let text = "# comment\n\nm v=\"a\nb\" 1\r\n  \t\nm v=x\n m v=\"\n\n\",w=?\nm v=x";
    let found: Vec<_> =
        read(&Catalog::default(), text).errors.iter().map(|error| error.line).collect();
    assert_eq!(found, [6, 7, 10]);
    let open = errors("m v=1 1\nm v=\"a\nm v=2 2\nm v=3 3\n");
    assert_eq!(
        open,
        [
            "line 2: the string of field \"v\" has no closing quote, and continues over the next 2 lines; close the string; write a quote within a string as \\\""
        ]
    );
}

#[test]
fn only_the_lines_that_are_not_utf8_are_refused() {
    let text = b"m,a=\xff v=1\nm v=\"\xc3\"\nm v=\"\xc3\xa9\"\n# \xff\nm,a=\xc3\xa9 v=\"\"\n\xff\n";
    let outcome = read_pieces(&Catalog::default(), text, 1, LineLimits::default());
    assert_eq!(outcome.lines_ok, 2);
    let found: Vec<_> = outcome.errors.iter().map(|error| (error.line, error.kind)).collect();
    assert_eq!(found, [1, 2, 6].map(|line| (line, ErrorKind::InvalidEncoding)));
    assert_eq!(
        outcome.errors[1].message,
        "byte 6 of the line, 0xc3, is not valid UTF-8; send text as UTF-8"
    );
}

#[test]
fn timestamps_in_the_unit_of_the_request() {
    let catalog = Catalog::default();
    let mut parser = LineParser::new(LineLimits::default());
    parser.begin(LineRequest { precision: Precision::Second, now_ns: i64::MAX });
    parser.push(b"m v=1 1700000000\nm v=1\nm v=1\nm v=1 9223372037\n", &catalog).unwrap();
    let outcome = parser.finish(&catalog).unwrap();
    assert_eq!(outcome.tables[0].ticks_ns(), [1_700_000_000_000_000_000, i64::MAX]);
    assert_eq!(
        outcome.errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "line 3: timestamp of the request in nanoseconds is out of range; timestamps must be from 1677 to 2262; give the unit as the precision of the request",
            "line 4: timestamp 9223372037 in seconds is out of range; timestamps must be from 1677 to 2262; give the unit as the precision of the request",
        ]
    );
}

#[test]
fn a_line_that_is_too_long_is_one_error() {
    let limits = LineLimits { line_bytes_max: 50, ..LineLimits::default() };
    let long = format!("m v=\"{}\n{}\" 1", "x".repeat(2_000), "y".repeat(2_000));
    let text = format!("m v=1 1\n{long}\nm v=2 2\n# {long}\n  {long}");
    for piece in [1, 7, 49, 1_000, 10_000] {
        let outcome = read_pieces(&Catalog::default(), text.as_bytes(), piece, limits);
        assert_eq!((outcome.lines_ok, outcome.lines_failed), (2, 3), "{piece}");
        let found: Vec<_> = outcome.errors.iter().map(|error| error.line).collect();
        assert_eq!(found, [2, 6, 7], "the rest of the comment is a line of its own");
        assert_eq!(
            outcome.errors[0].message,
            "the line is longer than 50 bytes; an unclosed quote makes all following text part of the line"
        );
        assert_eq!(outcome.errors[0].original, long[..256]);
        assert_eq!(outcome.tables[0].ticks_ns(), [1, 2]);
    }
}

#[test]
fn what_is_kept_is_bounded() {
    let rows = RowLimits {
        tables_max: 2,
        columns_max: 4,
        columns_total_max: 6,
        series_max: 2,
        series_bytes_max: 1_000,
        ..RowLimits::default()
    };
    let limits = LineLimits { rows, errors_max: 3, request_lines_max: 20, ..LineLimits::default() };
    let read = |text: &str| read_pieces(&Catalog::default(), text.as_bytes(), 64, limits);
    let messages = |text: &str| {
        let errors = read(text).errors;
        errors.into_iter().map(|error| error.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        messages("a v=1\nb v=1\nc v=1\na v=2\n"),
        [
            "line 3: measurement \"c\" exceeds the limit of 2 measurements with rows in one request; send fewer measurements in one request"
        ]
    );
    assert_eq!(
        messages("a,t=1,u=1 v=1\na w=1\n"),
        [
            "line 2: table \"a\" would have more than 4 columns; write data that differs from line to line as values, not as names"
        ]
    );
    assert_eq!(
        messages("a,t=1,u=1 v=1\nb,t=1,u=1 v=1\nb w=1\na,x=1 v=1"),
        [
            "line 3: table \"b\" would have more than 4 columns; write data that differs from line to line as values, not as names",
            "line 4: table \"a\" would have more than 4 columns; write data that differs from line to line as values, not as names"
        ]
    );
    // Refused lines do not count for the limits of tables and tags.
    let refused: Vec<_> = messages("a,t=1 v=?\nb,u=1 v=?\nc,w=1 v=1\nd v=1\ne v=1\n");
    assert_eq!(refused.len(), 3);
    assert!(refused[2].starts_with("line 5: measurement \"e\" exceeds the limit of 2"));
    // Series are cached and evicted.
    let many: String = (0..18).map(|series| format!("a,t={} v={series}\n", series % 6)).collect();
    let outcome = read(&many);
    assert_eq!(outcome.lines_ok, 18);
    // Errors beyond the first are counted.
    let outcome = read(&"m v=?\n".repeat(20));
    assert_eq!((outcome.errors.len(), outcome.lines_failed), (3, 20));

    let mut parser = LineParser::new(limits);
    parser.begin(REQUEST);
    let error = parser.push("m v=1\n".repeat(21).as_bytes(), &Catalog::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert_eq!(error.message(), "the request has more than 20 lines");
    // After too many tables, or too many columns of refused lines, the cache is emptied.
    let catalog = Catalog::default();
    for round in 0..10 {
        parser.begin(REQUEST);
        let text = format!("m{round},a{round}=1,b{round}=1 v=1,c{round}=?\nm{round} v=1\n");
        parser.push(text.as_bytes(), &catalog).unwrap();
        let outcome = parser.finish(&catalog).unwrap();
        assert_eq!((outcome.lines_ok, outcome.lines_failed), (1, 1), "{round}");
    }
}

#[test]
fn rows_can_be_taken_at_any_time() {
    let columns = [("time", NS), ("host", ColumnType::Text), ("v", ColumnType::BigInt)];
    let catalog = Catalog::with([table("m", &columns, &["host", "time"])]);
    let mut parser = LineParser::new(LineLimits::default());
    parser.begin(REQUEST);
    let (mut taken, mut rows_most) = (Vec::new(), 0);
    for row in 0..1_000 {
        let line = format!("m,host=h{} v={row}i {row}\n", row % 7);
        for piece in line.as_bytes().chunks(10) {
            parser.push(piece, &catalog).unwrap();
        }
        rows_most = rows_most.max(parser.rows());
        assert_eq!(parser.rows() > 0, parser.bytes() > 0);
        if parser.rows() >= 64 {
            taken.extend(parser.take());
            assert_eq!((parser.rows(), parser.bytes()), (0, 0));
        }
    }
    assert_eq!(rows_most, 64);
    let outcome = parser.finish(&catalog).unwrap();
    taken.extend(outcome.tables);
    assert_eq!(outcome.lines_ok, 1_000);
    let mut next = 0;
    for rows in taken {
        assert_eq!(rows.first_line(), next + 1);
        let definition = rows.definition().unwrap().clone();
        let batch = rows.into_batch(&definition).unwrap();
        for row in 0..batch.num_rows() {
            use arrow::{array::AsArray, datatypes::Int64Type};
            let host = batch.column(1).as_string_view().value(row);
            let v = batch.column(2).as_primitive::<Int64Type>().value(row);
            assert_eq!(
                (host, v),
                (format!("h{}", next % 7).as_str(), i64::try_from(next).unwrap())
            );
            next += 1;
        }
    }
    assert_eq!(next, 1_000);
}

#[test]
fn a_parser_goes_from_one_thread_to_another() {
    fn sent<T: Send + 'static>() {}
    sent::<LineParser>();
    sent::<stratalog_line::Outcome>();
}

#[test]
fn a_stream_goes_on_with_another_time_and_the_line_that_has_begun() {
    let catalog = Catalog::default();
    let mut parser = LineParser::new(LineLimits::default());
    parser.begin(REQUEST);
    parser.push(b"m v=1i\nm v=2", &catalog).unwrap();
    let first = parser.take();
    assert_eq!(first[0].ticks_ns(), [REQUEST.now_ns]);
    parser.refresh();
    parser.continue_stream(REQUEST.now_ns + 5_000);
    parser.push(b"i\nm v=3i\nm v=x\n", &catalog).unwrap();
    let outcome = parser.finish(&catalog).unwrap();
    let now = REQUEST.now_ns + 5_000;
    assert_eq!(outcome.tables[0].ticks_ns(), [now, now + 1]);
    assert_eq!(outcome.errors[0].line, 3, "lines are counted from where the stream went on");
}

#[test]
fn half_a_line_of_a_stream_can_be_dropped() {
    let catalog = Catalog::default();
    let mut parser = LineParser::new(LineLimits::default());
    parser.begin(REQUEST);
    parser.push(b"m v=1i 1\nm v=2", &catalog).unwrap();
    assert!(parser.drop_incomplete_line());
    assert!(!parser.drop_incomplete_line());
    let outcome = parser.finish(&catalog).unwrap();
    assert_eq!((outcome.tables[0].rows(), outcome.lines_failed), (1, 0));
}

/// A catalog whose tables refuse tags without a column.
struct Closed(Catalog);

impl Tables for Closed {
    fn table(&self, measurement: &str) -> Option<Arc<ChronicleDefinition>> {
        self.0.table(measurement)
    }

    fn takes_new_tags(&self, _: &ChronicleDefinition) -> bool {
        false
    }
}

#[test]
fn a_tag_that_the_key_lacks_refuses_its_line_alone() {
    let columns = [("host", ColumnType::Text), ("time", NS), ("v", ColumnType::BigInt)];
    let known = Arc::new(table("m", &columns, &["host", "time"]));
    let closed = Closed(Catalog([("m".to_string(), known)].into()));
    let mut parser = LineParser::new(LineLimits::default());
    for _ in 0..2 {
        parser.begin(REQUEST);
        let lines = b"m,host=a v=1i 1\nm,host=a,rack=r v=2i 2\nm v=3i 3\nnew,any=t v=1i 1\n";
        parser.push(lines, &closed).unwrap();
        let outcome = parser.finish(&closed).unwrap();
        let rows: Vec<usize> = outcome.tables.iter().map(|rows| rows.rows()).collect();
        assert_eq!(rows, [2, 1]);
        assert_eq!(
            outcome.errors[0].to_string(),
            "line 2: tag \"rack\" has no column in table \"m\", and the table has no primary key for a new tag column; send the value as a field, or write to another measurement"
        );
    }
}

/// Reads text with a limit for rows; takes the rows each time the limit is reached.
fn in_batches(text: &str, rows_bytes_max: usize, piece: usize) -> (Vec<usize>, u64) {
    let catalog = Catalog::default();
    let mut parser = LineParser::new(LineLimits::default());
    parser.begin(REQUEST);
    let mut batches = Vec::new();
    for mut rest in text.as_bytes().chunks(piece) {
        while !rest.is_empty() {
            let taken = parser.push_within(rest, rows_bytes_max, &catalog).unwrap();
            rest = &rest[taken..];
            if parser.bytes() >= rows_bytes_max {
                // At most one row more than the limit, NULLs included.
                assert!(parser.bytes() < rows_bytes_max + 64 * 1024, "{}", parser.bytes());
                batches.push(parser.take().iter().map(|rows| rows.rows()).sum());
            }
        }
    }
    let outcome = parser.finish(&catalog).unwrap();
    batches.push(outcome.tables.iter().map(|rows| rows.rows()).sum());
    (batches, outcome.lines_ok)
}

#[test]
fn rows_are_bounded_with_the_room_of_all_their_columns() {
    let sparse: String = (0..3_000).map(|n| format!("m f{}=1\n", n % 500)).collect();
    for piece in [7, 1_000, sparse.len()] {
        let (batches, lines) = in_batches(&sparse, 1 << 20, piece);
        assert_eq!((batches.iter().sum::<usize>(), lines), (3_000, 3_000));
        // 3,000 rows of 500 columns are 12 MB.
        assert!((10..14).contains(&batches.len()), "{batches:?}");
    }
    let dense: String = (0..3_000).map(|n| format!("m f=1 {n}\n")).collect();
    assert_eq!(in_batches(&dense, 1 << 20, 1_000).0, [3_000]);
}

#[test]
fn a_column_that_takes_too_much_room_in_the_rows_before_is_refused() {
    let rows = RowLimits { table_bytes_max: 1 << 20, ..RowLimits::default() };
    let limits = LineLimits { rows, ..LineLimits::default() };
    for (what, line) in [("field", "m f{}=1\n"), ("tag", "m,t{}=x v=1\n")] {
        let text: String =
            (0..20_000).map(|n| line.replace("{}", &(n / 100).to_string())).collect();
        let catalog = Catalog::default();
        let mut parser = LineParser::new(limits);
        parser.begin(REQUEST);
        parser.push(text.as_bytes(), &catalog).unwrap();
        assert!(parser.bytes() < 3 << 20, "{}", parser.bytes());
        let outcome = parser.finish(&catalog).unwrap();
        let error = &outcome.errors[0];
        assert!(error.line > 1_000 && error.kind == ErrorKind::LimitExceeded, "{what}: {error}");
        assert!(error.message.contains("takes space in") && outcome.lines_failed > 1_000);
    }
}

#[test]
fn nothing_behind_a_refused_line_is_taken_when_a_stream_stops_there() {
    let text = "m v=1i 1\nm v=2i 2\nm v=oops 3\nm v=4i 4\nn v=5i 5\n";
    for piece in 1..=text.len() {
        let catalog = Catalog::default();
        let mut parser = LineParser::new(LineLimits::default());
        parser.begin(REQUEST);
        parser.stop_at_error();
        for piece in text.as_bytes().chunks(piece) {
            assert_eq!(parser.push_within(piece, usize::MAX, &catalog).unwrap(), piece.len());
        }
        parser.drop_incomplete_line();
        let outcome = parser.finish(&catalog).unwrap();
        assert_eq!((outcome.lines_ok, outcome.lines_failed, outcome.tables.len()), (2, 1, 1));
        assert_eq!((outcome.tables[0].rows(), outcome.errors[0].line), (2, 3));
        // The next request starts anew.
        parser.begin(REQUEST);
        parser.push(text.as_bytes(), &catalog).unwrap();
        assert_eq!(parser.finish(&catalog).unwrap().lines_ok, 4);
    }
}

#[test]
fn values_of_questdbs_own_are_refused_with_a_way_out() {
    let told = errors("m t=1704067200000000t 1\nm t=1704067200000000000n 1\nm v==\u{10}x 1\n");
    assert!(told[0].contains("fields of type timestamp are not offered"), "{told:?}");
    assert!(told[1].contains("fields of type timestamp are not offered"), "{told:?}");
    assert!(told[2].contains("protocol_version=1"), "{told:?}");
    // A double, 0.1, and the begin of an array: neither is UTF-8.
    for value in [&b"\x10\x9a\x99\x99\x99\x99\x99\xb9\x3f"[..], b"\x0e\x0a\x01\xff\0\0\0"] {
        let lines = [&b"m,a=b v=1,w=="[..], value, b" 1\nm v=1 1\n"].concat();
        let outcome = read_pieces(&Catalog::default(), &lines, usize::MAX, LineLimits::default());
        assert_eq!(outcome.lines_ok, 1);
        let told = outcome.errors[0].to_string();
        assert!(told.starts_with("line 1: field \"w\": =") && told.contains("byte 13"), "{told}");
        assert!(told.contains("protocol_version=1"), "{told}");
    }
    let catalog = Catalog::default();
    let outcome = read_pieces(&catalog, b"m v=\xff 1", usize::MAX, LineLimits::default());
    assert!(outcome.errors[0].message.contains("byte 5 of the line, 0xff, is not valid UTF-8"));
}
