use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, Date64Array, Decimal256Array, DictionaryArray, DurationMillisecondArray,
        FixedSizeBinaryArray, Float32Array, Float64Array, Int32Array, Int64Array, LargeListArray,
        LargeStringArray, ListArray, RunArray, StringArray, Time32MillisecondArray,
        TimestampNanosecondArray, UInt64Array,
    },
    buffer::OffsetBuffer,
    datatypes::{DataType, Field, Int8Type, Int32Type, i256},
};
use stratalog_model::ColumnType;

use super::{
    interval::{Interval, write_interval},
    write_value,
};
use crate::{ByteaOutput, IntervalStyle, TextStyle, TimeZone};

fn text_of(array: impl Into<ArrayRef>, row: usize) -> Option<String> {
    let array = array.into();
    let field = Field::new("x", array.data_type().clone(), true);
    write_value(array.as_ref(), row, &field, &TextStyle::default()).unwrap()
}

fn arc(array: impl arrow::array::Array + 'static) -> ArrayRef {
    Arc::new(array)
}

fn double(value: f64) -> String {
    text_of(arc(Float64Array::from(vec![value])), 0).unwrap()
}

fn real(value: f32) -> String {
    text_of(arc(Float32Array::from(vec![value])), 0).unwrap()
}

#[test]
fn doubles_as_postgresql_lays_them_out() {
    for (value, text) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (1e14, "100000000000000"),
        (1e15, "1e+15"),
        (1e20, "1e+20"),
        (123_456_789_012_345.0, "123456789012345"),
        (1_234_567_890_123_456.0, "1.234567890123456e+15"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-1.5e-300, "-1.5e-300"),
        (5e-324, "5e-324"),
        (f64::INFINITY, "Infinity"),
        (f64::NEG_INFINITY, "-Infinity"),
        (f64::NAN, "NaN"),
    ] {
        assert_eq!(double(value), text);
    }
}

/// The standard library's text has the same number of digits, and no exponent. If two texts are
/// equally near, the standard library may choose the other.
#[test]
fn doubles_are_as_short_as_can_be() {
    let mut state = 7_u64;
    for round in 0..200_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round | 1);
        let parts = (state >> (11 + state % 40)) as f64;
        for value in [parts, parts / 10.0, parts / 1e3, parts / 1e4, parts / 1e5, -parts / 7.0] {
            if (1e-4..1e15).contains(&value.abs()) {
                for value in [value, value.next_up()] {
                    let text = double(value);
                    assert_eq!(text.parse::<f64>(), Ok(value));
                    assert_eq!(text.len(), value.to_string().len(), "{text}");
                }
            }
        }
    }
}

#[test]
fn reals_as_postgresql_lays_them_out() {
    for (value, text) in [
        (1e6, "1e+06"),
        (123_456.0, "123456"),
        (1_234_567.0, "1.234567e+06"),
        (0.3, "0.3"),
        (3.402_823_5e38, "3.4028235e+38"),
        // The shortest text lies midway between two floats, so PostgreSQL writes one more digit.
        (82_749_456.0, "8.2749456e+07"),
        (756_227_968.0, "7.5622797e+08"),
    ] {
        assert_eq!(real(value), text);
    }
}

#[test]
fn fewer_float_digits_round() {
    let style = TextStyle { extra_float_digits: 0, ..TextStyle::default() };
    let array = Float64Array::from(vec![0.1 + 0.2, 1.0 / 3.0, 1e20, 1e15]);
    let field = Field::new("x", DataType::Float64, true);
    let text = |row| write_value(&array, row, &field, &style).unwrap().unwrap();
    assert_eq!(text(0), "0.3");
    assert_eq!(text(1), "0.333333333333333");
    assert_eq!(text(2), "1e+20");
    assert_eq!(text(3), "1e+15");
}

#[test]
fn dictionaries_and_runs_show_their_values() {
    let dictionary: DictionaryArray<Int8Type> =
        vec![Some("a"), None, Some("a")].into_iter().collect();
    assert_eq!(text_of(arc(dictionary.clone()), 1), None);
    assert_eq!(text_of(arc(dictionary), 2), Some("a".into()));
    let runs = RunArray::<Int32Type>::try_new(
        &Int32Array::from(vec![2, 3]),
        &StringArray::from(vec![Some("x"), None]),
    )
    .unwrap();
    assert_eq!(text_of(arc(runs.clone()), 1), Some("x".into()));
    assert_eq!(text_of(arc(runs), 2), None);
}

#[test]
fn other_widths() {
    assert_eq!(text_of(arc(UInt64Array::from(vec![u64::MAX])), 0).unwrap(), "18446744073709551615");
    assert_eq!(text_of(arc(LargeStringArray::from(vec!["é"])), 0).unwrap(), "é");
    assert_eq!(text_of(arc(Date64Array::from(vec![-1])), 0).unwrap(), "1969-12-31");
    assert_eq!(
        text_of(arc(Time32MillisecondArray::from(vec![3_723_004])), 0).unwrap(),
        "01:02:03.004"
    );
    assert_eq!(
        text_of(arc(DurationMillisecondArray::from(vec![-90_500])), 0).unwrap(),
        "-00:01:30.5"
    );
    let decimal =
        Decimal256Array::from(vec![i256::from_i128(-5)]).with_precision_and_scale(40, 3).unwrap();
    assert_eq!(text_of(arc(decimal), 0).unwrap(), "-0.005");
}

#[test]
fn arrays_quote_what_needs_it() {
    let words = StringArray::from(vec![
        Some("a"),
        Some("b c"),
        None,
        Some("null"),
        Some(""),
        Some("q\"\\"),
        Some("{,}"),
    ]);
    let field = Arc::new(Field::new("item", DataType::Utf8, true));
    let list = ListArray::new(field, OffsetBuffer::from_lengths([7, 0]), arc(words), None);
    assert_eq!(text_of(arc(list.clone()), 0).unwrap(), r#"{a,"b c",NULL,"null","","q\"\\","{,}"}"#);
    assert_eq!(text_of(arc(list), 1).unwrap(), "{}");
    let field = Arc::new(Field::new("item", DataType::Int64, true));
    let numbers = arc(Int64Array::from(vec![1, 2, 3]));
    let inner = LargeListArray::new(field, OffsetBuffer::from_lengths([2, 1]), numbers, None);
    let field = Arc::new(Field::new("item", inner.data_type().clone(), true));
    use arrow::array::Array as _;
    let nested = ListArray::new(field, OffsetBuffer::from_lengths([2]), arc(inner), None);
    assert_eq!(text_of(arc(nested), 0).unwrap(), "{{1,2},{3}}");
}

#[test]
fn timestamps_in_the_sessions_zone() {
    let array =
        TimestampNanosecondArray::from(vec![1_593_658_245_123_456_789, -1]).with_timezone("UTC");
    use arrow::array::Array as _;
    let field = Field::new("x", array.data_type().clone(), true);
    let text = |row, zone: &str| {
        let time_zone = TimeZone::parse_setting(zone).unwrap();
        let style = TextStyle { time_zone, ..TextStyle::default() };
        write_value(&array, row, &field, &style).unwrap().unwrap()
    };
    assert_eq!(text(0, "UTC"), "2020-07-02 02:50:45.123456789+00");
    assert_eq!(text(0, "europe/berlin"), "2020-07-02 04:50:45.123456789+02");
    assert_eq!(text(0, "America/St_Johns"), "2020-07-02 00:20:45.123456789-02:30");
    assert_eq!(text(1, "UTC"), "1969-12-31 23:59:59.999999999+00");
    assert_eq!(text(1, "5.5"), "1970-01-01 05:29:59.999999999+05:30");
}

#[test]
fn summer_time_goes_on_after_the_zone_database_ends() {
    let zone = TimeZone::named("Europe/Berlin").unwrap();
    // 9918-07-01, in summer, and 9918-01-01, in winter.
    assert_eq!(zone.offset_at(250_834_665_600), 7_200);
    assert_eq!(zone.offset_at(250_819_027_200), 3_600);
    assert_eq!(TimeZone::named("America/Sao_Paulo").unwrap().offset_at(250_834_665_600), -10_800);
}

#[test]
fn zones_of_the_setting() {
    for (text, shown, arrow) in [
        ("utc", "UTC", "UTC"),
        ("america/new_york", "America/New_York", "America/New_York"),
        ("-8", "<-08>+08", "-08:00"),
        ("<+03>-03", "<+03>-03", "+03:00"),
        ("5.5", "<+05:30>-05:30", "+05:30"),
    ] {
        let zone = TimeZone::parse_setting(text).unwrap();
        assert_eq!((zone.to_string().as_str(), zone.arrow_name().as_str()), (shown, arrow));
        assert_eq!(TimeZone::of_arrow(arrow), Some(zone));
    }
    assert!(TimeZone::parse_setting("Mars/Olympus").is_err());
    assert!(TimeZone::parse_setting("99").is_err());
    assert!(TimeZone::parse_setting("").is_err());
}

#[test]
fn intervals_in_all_styles() {
    let hour = 3_600_000_000_000;
    let mixed = Interval { months: -14, days: 3, nanos: hour + 1_500_000_000 };
    let plain = Interval { months: 0, days: 1, nanos: 2 * hour };
    let negative = Interval { months: 0, days: 0, nanos: -hour / 2 };
    let zero = Interval::default();
    let text = |interval, style| {
        let mut out = Vec::new();
        write_interval(interval, style, &mut out);
        String::from_utf8(out).unwrap()
    };
    use IntervalStyle::{Iso8601, Postgres, PostgresVerbose, SqlStandard};
    // The expected values are the results of PostgreSQL 15.
    assert_eq!(text(mixed, Postgres), "-1 years -2 mons +3 days 01:00:01.5");
    assert_eq!(text(mixed, PostgresVerbose), "@ 1 year 2 mons -3 days -1 hours -1.5 secs ago");
    assert_eq!(text(mixed, SqlStandard), "-1-2 +3 +1:00:01.5");
    assert_eq!(text(mixed, Iso8601), "P-1Y-2M3DT1H1.5S");
    assert_eq!(text(plain, Postgres), "1 day 02:00:00");
    assert_eq!(text(plain, PostgresVerbose), "@ 1 day 2 hours");
    assert_eq!(text(plain, SqlStandard), "1 2:00:00");
    assert_eq!(text(plain, Iso8601), "P1DT2H");
    assert_eq!(text(negative, Postgres), "-00:30:00");
    assert_eq!(text(negative, PostgresVerbose), "@ 30 mins ago");
    assert_eq!(text(negative, SqlStandard), "-0:30:00");
    assert_eq!(text(negative, Iso8601), "PT-30M");
    assert_eq!(text(zero, Postgres), "00:00:00");
    assert_eq!(text(zero, PostgresVerbose), "@ 0");
    assert_eq!(text(zero, SqlStandard), "0");
    assert_eq!(text(zero, Iso8601), "PT0S");
}

#[test]
fn bytes_in_both_forms() {
    let array =
        FixedSizeBinaryArray::try_from_iter([vec![0_u8, b'a', b'\\', 255]].into_iter()).unwrap();
    use arrow::array::Array as _;
    let field = Field::new("x", array.data_type().clone(), true);
    let text = |bytea_output| {
        let style = TextStyle { bytea_output, ..TextStyle::default() };
        write_value(&array, 0, &field, &style).unwrap().unwrap()
    };
    assert_eq!(text(ByteaOutput::Hex), "\\x00615cff");
    assert_eq!(text(ByteaOutput::Escape), "\\000a\\\\\\377");
}

#[test]
fn what_has_no_text_form_is_refused() {
    let array = arrow::array::StructArray::from(vec![(
        Arc::new(Field::new("a", DataType::Int32, true)),
        arc(Int32Array::from(vec![1])),
    )]);
    use arrow::array::Array as _;
    let field = Field::new("s", array.data_type().clone(), true);
    let error = write_value(&array, 0, &field, &TextStyle::default()).unwrap_err();
    assert_eq!(error.kind().sqlstate(), "0A000");
    assert!(ColumnType::from_arrow_field(&field).is_none());
}
