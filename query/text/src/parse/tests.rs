use stratalog_model::{ColumnType, ErrorKind};

use crate::{DateOrder, TextStyle, TimeZone, parse_value, write_value};

/// Parses a text as a value of a type, and writes the value as text. For an error, returns
/// `SQLSTATE message`.
fn through(text: &str, column_type: &ColumnType, style: &TextStyle) -> String {
    match parse_value(Some(text), column_type, style) {
        Ok(array) => {
            let field = column_type.arrow_field("x", true);
            write_value(array.as_ref(), 0, &field, style).unwrap().unwrap()
        }
        Err(error) => format!("{} {}", error.kind().sqlstate(), error.message()),
    }
}

fn check(column_type: &ColumnType, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(through(text, column_type, &TextStyle::default()), *expected, "{text:?}");
    }
}

// The expected texts and messages are the results of PostgreSQL 15.

#[test]
fn booleans() {
    check(
        &ColumnType::Boolean,
        &[
            ("tru", "t"),
            (" YES ", "t"),
            ("on", "t"),
            ("1", "t"),
            ("of", "f"),
            ("n", "f"),
            ("0", "f"),
            ("o", "22P02 invalid input syntax for type boolean: \"o\""),
            ("", "22P02 invalid input syntax for type boolean: \"\""),
        ],
    );
}

#[test]
fn integers() {
    check(
        &ColumnType::SmallInt,
        &[
            (" +12 ", "12"),
            ("-32768", "-32768"),
            ("32768", "22003 value \"32768\" is out of range for type smallint"),
        ],
    );
    check(
        &ColumnType::Integer,
        &[
            ("x", "22P02 invalid input syntax for type integer: \"x\""),
            ("1.5", "22P02 invalid input syntax for type integer: \"1.5\""),
            (
                "99999999999999999999999",
                "22003 value \"99999999999999999999999\" is out of range for type integer",
            ),
        ],
    );
    check(
        &ColumnType::BigInt,
        &[
            ("-9223372036854775808", "-9223372036854775808"),
            (
                "9223372036854775808",
                "22003 value \"9223372036854775808\" is out of range for type bigint",
            ),
            ("", "22P02 invalid input syntax for type bigint: \"\""),
        ],
    );
}

#[test]
fn floats() {
    check(
        &ColumnType::Double,
        &[
            (" 1e20 ", "1e+20"),
            (".5", "0.5"),
            ("5.", "5"),
            ("-inf", "-Infinity"),
            ("nan", "NaN"),
            ("0e999", "0"),
            ("1e400", "22003 \"1e400\" is out of range for type double precision"),
            ("1e-400", "22003 \"1e-400\" is out of range for type double precision"),
            ("1e", "22P02 invalid input syntax for type double precision: \"1e\""),
        ],
    );
    check(&ColumnType::Real, &[("1e39", "22003 \"1e39\" is out of range for type real")]);
}

#[test]
fn numerics_round_half_away_from_zero() {
    let numeric = ColumnType::Numeric { precision: 10, scale: 2 };
    check(
        &numeric,
        &[
            ("1.005", "1.01"),
            ("1.004999", "1.00"),
            ("-1.005", "-1.01"),
            ("1e3", "1000.00"),
            ("99999999.994", "99999999.99"),
            ("1e-20", "0.00"),
            ("00012.300", "12.30"),
            ("-0", "0.00"),
            ("99999999.995", "22003 numeric field overflow"),
            ("1e400", "22003 numeric field overflow"),
            ("1e99999999999999999999", "22003 numeric field overflow"),
            ("1.2.3", "22P02 invalid input syntax for type numeric: \"1.2.3\""),
            ("NaN", "0A000 numeric cannot hold \"NaN\""),
        ],
    );
    let error = parse_value(Some("1e9"), &numeric, &TextStyle::default()).unwrap_err();
    assert_eq!(
        error.detail(),
        Some("A field with precision 10, scale 2 must round to an absolute value less than 10^8.")
    );
    let widest = ColumnType::Numeric { precision: 38, scale: 0 };
    let nines = "9".repeat(38);
    check(&widest, &[(&nines, &nines)]);
}

#[test]
fn timestamps() {
    check(
        &ColumnType::Timestamp { precision: 6 },
        &[
            ("2020-01-02 03:04:05", "2020-01-02 03:04:05"),
            ("2020-01-02T03:04:05.1234567", "2020-01-02 03:04:05.123457"),
            ("2020-01-02", "2020-01-02 00:00:00"),
            ("20200102T030405", "2020-01-02 03:04:05"),
            ("Thu Jan 02 03:04:05 2020", "2020-01-02 03:04:05"),
            ("January 2, 2020 3:04 PM", "2020-01-02 15:04:00"),
            ("2-Jan-2020", "2020-01-02 00:00:00"),
            ("Jan-2-2020", "2020-01-02 00:00:00"),
            ("2020-01-02 24:00:00", "2020-01-03 00:00:00"),
            ("2020-01-02 03:04:60", "2020-01-02 03:05:00"),
            ("0044-03-15 BC", "0044-03-15 00:00:00 BC"),
            ("10000-01-01", "10000-01-01 00:00:00"),
            ("epoch", "1970-01-01 00:00:00"),
            ("J2451545", "2000-01-01 00:00:00"),
            ("69-01-02", "22008 date/time field value out of range: \"69-01-02\""),
            ("1/2/69", "2069-01-02 00:00:00"),
            ("2020-01-02 03:04:05+05", "2020-01-02 03:04:05"),
            ("2020-02-30", "22008 date/time field value out of range: \"2020-02-30\""),
            ("2020-01-02 25:00", "22008 date/time field value out of range: \"2020-01-02 25:00\""),
            ("0000-01-01", "22008 date/time field value out of range: \"0000-01-01\""),
            ("294277-01-01", "22008 timestamp out of range: \"294277-01-01\""),
            ("", "22007 invalid input syntax for type timestamp: \"\""),
            (
                "2020-01-02 junk",
                "22007 invalid input syntax for type timestamp: \"2020-01-02 junk\"",
            ),
            ("infinity", "0A000 timestamp cannot hold \"infinity\""),
            ("-infinity", "0A000 timestamp cannot hold \"-infinity\""),
            (" -Infinity ", "0A000 timestamp cannot hold \" -Infinity \""),
            ("+infinity", "22007 invalid input syntax for type timestamp: \"+infinity\""),
            ("-inf", "22007 invalid input syntax for type timestamp: \"-inf\""),
            ("inf", "22007 invalid input syntax for type timestamp: \"inf\""),
            ("now", "0A000 \"now\" is not accepted here"),
        ],
    );
}

#[test]
fn timestamps_round_to_the_columns_precision() {
    let at = |precision, text: &str| {
        through(text, &ColumnType::Timestamp { precision }, &TextStyle::default())
    };
    assert_eq!(at(9, "2020-01-01 00:00:00.1234567895"), "2020-01-01 00:00:00.12345679");
    assert_eq!(at(3, "2020-01-01 00:00:00.0005"), "2020-01-01 00:00:00.001");
    // Halves round away from the year 2000; halves of a microsecond round to even.
    assert_eq!(at(0, "1969-12-31 23:59:59.5"), "1969-12-31 23:59:59");
    assert_eq!(at(0, "1999-12-31 23:59:59.5"), "1999-12-31 23:59:59");
    assert_eq!(at(0, "1999-12-31 23:59:59.500001"), "2000-01-01 00:00:00");
    assert_eq!(at(0, "2000-01-01 00:00:00.5"), "2000-01-01 00:00:01");
    assert_eq!(at(3, "1900-01-01 00:00:00.0005"), "1900-01-01 00:00:00");
    assert_eq!(at(6, "2020-01-01 00:00:00.0000005"), "2020-01-01 00:00:00");
    assert_eq!(at(6, "2020-01-01 00:00:00.0000015"), "2020-01-01 00:00:00.000002");
    assert_eq!(at(6, "2020-01-01 00:00:00.00000251"), "2020-01-01 00:00:00.000003");
    assert_eq!(at(6, "2020-01-01 00:00:59.9999996"), "2020-01-01 00:01:00");
    assert_eq!(
        at(9, "2262-04-12 00:00:00"),
        "22008 timestamp out of range: \"2262-04-12 00:00:00\""
    );
    assert_eq!(at(9, "1677-09-21 00:12:43.145224193"), "1677-09-21 00:12:43.145224193");
    assert_eq!(at(6, "2262-04-12 00:00:00"), "2262-04-12 00:00:00");
}

#[test]
fn timestamps_with_time_zone() {
    let zoned = ColumnType::TimestampTz { precision: 6 };
    check(
        &zoned,
        &[
            ("2020-01-02 03:04:05", "2020-01-02 03:04:05+00"),
            ("2020-01-02 03:04:05+05:30", "2020-01-01 21:34:05+00"),
            ("2020-01-02 03:04:05-0330", "2020-01-02 06:34:05+00"),
            ("2020-01-02T03:04:05.5Z", "2020-01-02 03:04:05.5+00"),
            ("2020-07-02 03:04:05 Europe/Berlin", "2020-07-02 01:04:05+00"),
            ("2020-07-02 03:04:05 europe/berlin", "2020-07-02 01:04:05+00"),
            ("2020-01-02 03:04:05 PST", "2020-01-02 11:04:05+00"),
            ("2020-01-02 03:04:05 Etc/GMT+5", "2020-01-02 08:04:05+00"),
            ("1999-01-08 00:00 GMT+8", "1999-01-08 08:00:00+00"),
            ("1999-01-08 00:00 UTC-3", "1999-01-07 21:00:00+00"),
            ("1999-01-08 00:00 GMT+8:30", "1999-01-08 08:30:00+00"),
            ("1999-01-08 GMT+8", "1999-01-08 08:00:00+00"),
            ("2020-01-02 03:04:05 Foo/Bar", "22023 time zone \"foo/bar\" not recognized"),
            (
                "2020-01-02 03:04:05+16",
                "22009 time zone displacement out of range: \"2020-01-02 03:04:05+16\"",
            ),
        ],
    );
    let time_zone = TimeZone::named("Europe/Berlin").unwrap();
    let berlin = TextStyle { time_zone, ..TextStyle::default() };
    let read = |text: &str| through(text, &zoned, &berlin);
    assert_eq!(read("2020-07-02 12:00:00"), "2020-07-02 12:00:00+02");
    // The local times lie in hours that the clocks skip or repeat.
    assert_eq!(read("2020-03-29 02:30:00"), "2020-03-29 03:30:00+02");
    assert_eq!(read("2020-10-25 02:30:00"), "2020-10-25 02:30:00+01");
    assert_eq!(read("1800-01-01 00:00:00"), "1800-01-01 00:00:00+00:53:28");
}

#[test]
fn relative_times_need_a_clock() {
    let style = TextStyle { now_ns: Some(1_577_934_245_000_000_001), ..TextStyle::default() };
    let read = |text: &str, column_type: &ColumnType| through(text, column_type, &style);
    let zoned = ColumnType::TimestampTz { precision: 9 };
    assert_eq!(read("now", &zoned), "2020-01-02 03:04:05.000000001+00");
    assert_eq!(read("today", &zoned), "2020-01-02 00:00:00+00");
    assert_eq!(read("yesterday", &ColumnType::Date), "2020-01-01");
    assert_eq!(read("tomorrow 12:30", &zoned), "2020-01-03 12:30:00+00");
}

#[test]
fn dates_and_times() {
    check(
        &ColumnType::Date,
        &[
            ("2020-1-2", "2020-01-02"),
            ("2020-01-02 10:00", "2020-01-02"),
            ("1999.008", "1999-01-08"),
            ("1999-366", "2000-01-01"),
            ("2000/366", "2000-12-31"),
            ("1999.08", "22007 invalid input syntax for type date: \"1999.08\""),
            ("1999-367", "22007 invalid input syntax for type date: \"1999-367\""),
            ("5874897-12-31", "5874897-12-31"),
            ("0044-03-15 BC", "0044-03-15 BC"),
            ("5874898-01-01", "22008 date out of range: \"5874898-01-01\""),
            ("04:05:06", "22007 invalid input syntax for type date: \"04:05:06\""),
        ],
    );
    check(
        &ColumnType::Time,
        &[
            ("03:04", "03:04:00"),
            ("030405", "03:04:05"),
            ("12:30 am", "00:30:00"),
            ("1 PM", "22007 invalid input syntax for type time: \"1 PM\""),
            ("23:59:59.9999999", "24:00:00"),
            ("24:00:01", "22008 date/time field value out of range: \"24:00:01\""),
        ],
    );
    let style = TextStyle { date_order: DateOrder::Dmy, ..TextStyle::default() };
    assert_eq!(through("1/2/2020", &ColumnType::Date, &style), "2020-02-01");
    assert_eq!(through("1/2/2020", &ColumnType::Date, &TextStyle::default()), "2020-01-02");
    let error = parse_value(Some("13/13/2020"), &ColumnType::Date, &style).unwrap_err();
    assert_eq!(error.hint(), Some("Perhaps you need a different \"DateStyle\" setting."));
}

#[test]
fn intervals() {
    check(
        &ColumnType::Interval,
        &[
            ("1 mon 2 days 03:04:05", "1 mon 2 days 03:04:05"),
            ("1-2 3 4:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("P1Y2M3DT4H5M6.5S", "1 year 2 mons 3 days 04:05:06.5"),
            ("-3 days 04:05:06", "-3 days +04:05:06"),
            ("1.5 months", "1 mon 15 days"),
            ("1.5 days", "1 day 12:00:00"),
            ("0.1 years", "1 mon"),
            ("1 week", "7 days"),
            ("1h30m", "01:30:00"),
            ("1 day 2 hours ago", "-1 days -02:00:00"),
            ("10", "00:00:10"),
            ("100:00:00", "100:00:00"),
            ("1 ns", "00:00:00.000000001"),
            ("2024-01", "2024 years 1 mon"),
            ("1-2 3", "1 year 2 mons 00:00:03"),
            ("1 ago", "22007 invalid input syntax for type interval: \"1 ago\""),
            ("2024-01-01", "22007 invalid input syntax for type interval: \"2024-01-01\""),
            ("1 day 1 day", "22007 invalid input syntax for type interval: \"1 day 1 day\""),
            ("2147483648 days", "22015 interval field value out of range: \"2147483648 days\""),
            ("infinity", "0A000 interval cannot hold \"infinity\""),
            ("P", "22007 invalid input syntax for type interval: \"P\""),
        ],
    );
}

#[test]
fn uuids_and_bytes() {
    let id = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    check(
        &ColumnType::Uuid,
        &[
            ("{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}", id),
            ("a0eebc999c0b4ef8bb6d6bb9bd380a11", id),
            ("a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11", id),
            ("a0eebc99", "22P02 invalid input syntax for type uuid: \"a0eebc99\""),
        ],
    );
    check(
        &ColumnType::Bytea,
        &[
            ("\\xDEADbeef", "\\xdeadbeef"),
            ("a\\\\b", "\\x615c62"),
            ("\\001\\377", "\\x01ff"),
            ("\\x0", "22023 invalid hexadecimal data: odd number of digits"),
            ("\\xzz", "22023 invalid hexadecimal digit: \"z\""),
            ("\\400", "22P02 invalid input syntax for type bytea"),
        ],
    );
}

#[test]
fn arrays() {
    check(
        &ColumnType::Array(Box::new(ColumnType::Text)),
        &[
            ("{}", "{}"),
            (" { a , \"b c\" , NULL } ", "{a,\"b c\",NULL}"),
            ("{\"NULL\"}", "{\"NULL\"}"),
            ("{a b}", "{\"a b\"}"),
            ("{\"a\\\"b\"}", "{\"a\\\"b\"}"),
            ("{a\\,b}", "{\"a,b\"}"),
            ("{a", "22P02 malformed array literal: \"{a\""),
            ("{a,}", "22P02 malformed array literal: \"{a,}\""),
            ("a}", "22P02 malformed array literal: \"a}\""),
            ("{a}b", "22P02 malformed array literal: \"{a}b\""),
            ("{{a}}", "0A000 arrays of more than one dimension are not supported"),
        ],
    );
    check(
        &ColumnType::Array(Box::new(ColumnType::Integer)),
        &[
            ("{1,NULL,-3}", "{1,NULL,-3}"),
            ("{1.5}", "22P02 invalid input syntax for type integer: \"1.5\""),
        ],
    );
}

#[test]
fn messages_do_not_repeat_megabytes() {
    let long = "x".repeat(1 << 20);
    let error = parse_value(Some(&long), &ColumnType::Integer, &TextStyle::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidTextRepresentation);
    assert!(error.message().len() < 300);
}

#[test]
fn numerics_of_all_digits_have_a_type() {
    use super::number::exact_type;
    let numeric = |precision, scale| ColumnType::Numeric { precision, scale };
    let of = |text: &str| exact_type(text, &numeric(20, 10));
    for text in ["1.5", "-1234567890.0123456789", "0.00000000010", "0", "0e-99", "1e9", "x", "NaN"]
    {
        assert_eq!(of(text), None, "{text}");
    }
    assert_eq!(of("0.00000000005"), Some(numeric(21, 11)));
    assert_eq!(of("9E-11"), Some(numeric(21, 11)));
    assert_eq!(of("-1.5e-10"), Some(numeric(21, 11)));
    assert_eq!(of("12345678901"), Some(numeric(21, 10)));
    assert_eq!(of("1e30"), Some(numeric(31, 0)));
    assert_eq!(of("1e40"), None);
    assert_eq!(of("1e-40"), Some(numeric(20, 20)));
    assert_eq!(of(&format!("0.1{}1", "0".repeat(54))), Some(numeric(20, 20)));
    assert_eq!(of(&format!("-12.{}", "3".repeat(300))), Some(numeric(22, 20)));
    assert_eq!(of(&format!("{}.{}", "3".repeat(30), "3".repeat(30))), Some(numeric(38, 8)));
    assert_eq!(of("0.123456789012345678901234567890"), Some(numeric(38, 29)));
    let array = |element| ColumnType::Array(Box::new(element));
    assert_eq!(
        exact_type("{1,NULL,\"0.00000000005\",-12345678901}", &array(numeric(20, 10))),
        Some(array(numeric(22, 11)))
    );
    assert_eq!(exact_type("{1,2.5}", &array(numeric(20, 10))), None);
    assert_eq!(exact_type("0.00000000005", &ColumnType::Double), None);
}
