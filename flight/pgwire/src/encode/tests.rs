use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Decimal256Array, DictionaryArray, RecordBatch, UInt32Array, UInt64Array},
    datatypes::{Field, Int8Type, Schema, i256},
};
use bytes::Bytes;
use proptest::prelude::*;
use stratalog_model::{ColumnType, ErrorKind};
use stratalog_text::{TextStyle, parse_value, write_value};

use super::{BinaryWriter, RowWriter, format_of};
use crate::{outbound::OutboundBuffer, parameter::decode, types::wire_type};

fn binary(text: &str, column_type: &ColumnType) -> Vec<u8> {
    let array = parse_value(Some(text), column_type, &TextStyle::default()).unwrap();
    let field = column_type.arrow_field("x", true);
    let writer = BinaryWriter::new(&array, &field, wire_type(column_type).oid).unwrap();
    let mut out = Vec::new();
    assert!(writer.write(0, &mut out).unwrap());
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn binary_forms_are_those_of_postgresql() {
    // Expected values: the result of encode(<type>send(value), 'hex') in PostgreSQL 15.
    let numeric = ColumnType::Numeric { precision: 20, scale: 6 };
    let timestamp = ColumnType::TimestampTz { precision: 9 };
    let list = |item: ColumnType| ColumnType::Array(Box::new(item));
    for (text, column_type, expected) in [
        ("t", ColumnType::Boolean, "01"),
        ("-2", ColumnType::SmallInt, "fffe"),
        ("1", ColumnType::Integer, "00000001"),
        ("-1", ColumnType::BigInt, "ffffffffffffffff"),
        ("1.5", ColumnType::Real, "3fc00000"),
        ("-2.25", ColumnType::Double, "c002000000000000"),
        ("12345.678901", numeric.clone(), "0004000100000006000109291a850064"),
        ("0", numeric.clone(), "0000000000000006"),
        ("-0.0001", numeric, "0001ffff400000060001"),
        ("é", ColumnType::Text, "c3a9"),
        ("\\x00ff", ColumnType::Bytea, "00ff"),
        ("2000-01-01 00:00:01+00", timestamp.clone(), "00000000000f4240"),
        ("1999-12-31 23:59:59.999999999+00", timestamp, "ffffffffffffffff"),
        ("1999-12-31", ColumnType::Date, "ffffffff"),
        ("00:00:00.000001", ColumnType::Time, "0000000000000001"),
        ("1 mon -2 days 00:00:01", ColumnType::Interval, "00000000000f4240fffffffe00000001"),
        ("{\"a\":1}", ColumnType::Jsonb, "017b2261223a20317d"),
        (
            "{1,NULL}",
            list(ColumnType::Integer),
            "00000001000000010000001700000002000000010000000400000001ffffffff",
        ),
        ("{}", list(ColumnType::Text), "000000000000000000000019"),
    ] {
        let bytes = hex(&binary(text, &column_type));
        assert_eq!(bytes, expected, "{text} {column_type}");
    }
}

#[test]
fn other_arrow_types_become_their_sql_type() {
    let written = |array: ArrayRef| {
        let field = Field::new("x", array.data_type().clone(), true);
        let oid = crate::types::field_type(&field).oid;
        let writer = BinaryWriter::new(&array, &field, oid).unwrap();
        let mut out = Vec::new();
        writer.write(0, &mut out).unwrap().then_some(hex(&out))
    };
    let dictionary: DictionaryArray<Int8Type> = vec![Some("ab")].into_iter().collect();
    assert_eq!(written(Arc::new(dictionary)).unwrap(), "6162");
    let nothing: DictionaryArray<Int8Type> = vec![None::<&str>].into_iter().collect();
    assert_eq!(written(Arc::new(nothing)), None);
    assert_eq!(written(Arc::new(UInt32Array::from(vec![u32::MAX]))).unwrap(), "00000000ffffffff");
    assert_eq!(
        written(Arc::new(UInt64Array::from(vec![u64::MAX]))).unwrap(),
        "000500040000000007341a5802e103bb064f"
    );
    let wide =
        Decimal256Array::from(vec![i256::from_i128(-5)]).with_precision_and_scale(50, 1).unwrap();
    assert_eq!(written(Arc::new(wide)).unwrap(), "0001ffff400000011388");
}

#[test]
fn rows_have_lengths_and_nulls() {
    let schema = Arc::new(Schema::new(vec![
        ColumnType::Integer.arrow_field("a", true),
        ColumnType::Text.arrow_field("b", true),
    ]));
    let style = TextStyle::default();
    let columns = vec![
        parse_value(Some("7"), &ColumnType::Integer, &style).unwrap(),
        parse_value(None, &ColumnType::Text, &style).unwrap(),
    ];
    let batch = RecordBatch::try_new(schema, columns).unwrap();
    let row = |formats: &[i16]| {
        let mut out = OutboundBuffer::default();
        RowWriter::new(&batch, formats, &style).unwrap().write(0, &mut out).unwrap();
        out.bytes
    };
    assert_eq!(row(&[]), b"D\0\0\0\x0f\0\x02\0\0\0\x017\xff\xff\xff\xff");
    assert_eq!(row(&[1, 0]), b"D\0\0\0\x12\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff");
}

#[test]
fn a_copy_refuses_digits_beyond_microseconds() {
    let style = TextStyle::default();
    let checked = |text: Option<&str>, column_type: &ColumnType| {
        let schema = Arc::new(Schema::new(vec![column_type.arrow_field("x", true)]));
        let column = parse_value(text, column_type, &style).unwrap();
        let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
        let writer = RowWriter::new(&batch, &[1], &style).unwrap();
        writer.check_digits(batch.schema_ref())
    };
    let time = ColumnType::TimestampTz { precision: 9 };
    let list = |item: &ColumnType| ColumnType::Array(Box::new(item.clone()));
    for (column_type, whole, cut) in [
        (time.clone(), "2024-01-01 00:00:00.000001+00", "2024-01-01 00:00:00.000000001+00"),
        (time.clone(), "1960-01-01 00:00:00.000001+00", "1960-01-01 00:00:00.000000999+00"),
        (ColumnType::Timestamp { precision: 9 }, "2024-01-01", "2024-01-01 00:00:00.1234567"),
        (ColumnType::Interval, "1 mon -1 us", "-1 ns"),
        (list(&time), "{NULL,2024-01-01}", r#"{2024-01-01,"2024-01-01 00:00:00.000000001"}"#),
        (list(&ColumnType::Interval), r#"{"1 day"}"#, r#"{"1 day","1 ns"}"#),
    ] {
        assert!(checked(Some(whole), &column_type).is_ok(), "{whole}");
        assert!(checked(None, &column_type).is_ok(), "{column_type}");
        let error = checked(Some(cut), &column_type).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FeatureNotSupported, "{cut}");
        let message = "column \"x\" has a value with nanoseconds, \
                       and the binary format of COPY has microseconds";
        assert_eq!(error.message(), message, "{cut}");
    }
    let micros = ColumnType::TimestampTz { precision: 6 };
    assert!(checked(Some("2024-01-01 00:00:00.000001+00"), &micros).is_ok());
    assert!(checked(Some("{1}"), &list(&ColumnType::Integer)).is_ok());
}

/// Elements of the child array outside of the list's rows have no effect.
#[test]
fn a_copy_ignores_the_hidden_elements_of_lists() {
    let style = TextStyle::default();
    let column_type = ColumnType::Array(Box::new(ColumnType::Interval));
    let rows: Vec<ArrayRef> = [r#"{"1 ns"}"#, r#"{"1 us"}"#]
        .iter()
        .map(|text| parse_value(Some(text), &column_type, &style).unwrap())
        .collect();
    let both = arrow::compute::concat(&[rows[0].as_ref(), rows[1].as_ref()]).unwrap();
    let field = column_type.arrow_field("x", true);
    let cuts = |array: &ArrayRef| {
        BinaryWriter::new(array, &field, wire_type(&column_type).oid).unwrap().cuts_digits()
    };
    assert!(cuts(&both) && cuts(&both.slice(0, 1)));
    assert!(!cuts(&both.slice(1, 1)));
}

#[test]
fn formats_are_none_one_or_each() {
    assert_eq!(format_of(&[], 3), 0);
    assert_eq!(format_of(&[1], 3), 1);
    assert_eq!(format_of(&[0, 1], 1), 1);
}

/// Random values as text, with their types. The binary format can express each value without loss:
/// times have at most microseconds.
fn value() -> impl Strategy<Value = (ColumnType, String)> {
    let number = any::<i64>();
    prop_oneof![
        any::<bool>().prop_map(|v| (ColumnType::Boolean, v.to_string())),
        any::<i16>().prop_map(|v| (ColumnType::SmallInt, v.to_string())),
        any::<i32>().prop_map(|v| (ColumnType::Integer, v.to_string())),
        number.prop_map(|v| (ColumnType::BigInt, v.to_string())),
        any::<f64>().prop_map(|v| (ColumnType::Double, format!("{v:e}"))),
        any::<f32>().prop_map(|v| (ColumnType::Real, format!("{v:e}"))),
        (0_u8..=18, any::<i64>()).prop_map(|(scale, v)| {
            (ColumnType::Numeric { precision: 38, scale }, format!("{v}e-{scale}"))
        }),
        "[^\0]{0,20}".prop_map(|v| (ColumnType::Text, v)),
        any::<[u8; 16]>().prop_map(|v| (ColumnType::Uuid, hex(&v))),
        prop::collection::vec(any::<u8>(), 0..9)
            .prop_map(|v| (ColumnType::Bytea, format!("\\x{}", hex(&v)))),
        (1_i64..250_000_000_000, 0_u32..1_000_000, prop::sample::select(vec![6_u8, 9])).prop_map(
            |(seconds, micros, precision)| {
                let mut out = Vec::new();
                // Times in nanoseconds end in the year 2262, so their seconds are limited.
                let seconds = if precision == 9 { seconds % 9_000_000_000 } else { seconds };
                stratalog_text::write::datetime::write_timestamp(
                    seconds,
                    micros * 1_000,
                    Some(0),
                    &mut out,
                );
                (ColumnType::TimestampTz { precision }, String::from_utf8(out).unwrap())
            }
        ),
        (any::<i16>(), any::<i16>(), any::<i32>()).prop_map(|(months, days, micros)| {
            (ColumnType::Interval, format!("{months} mons {days} days {micros} us"))
        }),
        (-100_000_i32..1_000_000).prop_map(|days| {
            let mut out = Vec::new();
            stratalog_text::write::datetime::write_date(i64::from(days), &mut out);
            (ColumnType::Date, String::from_utf8(out).unwrap())
        }),
        (0_i64..86_400_000_000).prop_map(|micros| {
            let mut out = Vec::new();
            let nanos = u32::try_from(micros % 1_000_000).unwrap() * 1_000;
            stratalog_text::write::datetime::write_time(micros / 1_000_000, nanos, &mut out);
            (ColumnType::Time, String::from_utf8(out).unwrap())
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn binary_results_read_back_as_parameters((column_type, text) in value(), list in any::<bool>()) {
        let style = TextStyle::default();
        let (column_type, text) = if list {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            (ColumnType::Array(Box::new(column_type)), format!("{{\"{quoted}\",NULL}}"))
        } else {
            (column_type, text)
        };
        let expected = parse_value(Some(&text), &column_type, &style).unwrap();
        let bytes = Bytes::from(binary(&text, &column_type));
        let wire = wire_type(&column_type).oid;
        let scalar = decode(Some(&bytes), 1, wire, &column_type, &style).unwrap();
        let array = scalar.to_array().unwrap();
        prop_assert_eq!(array.data_type(), &column_type.arrow_type());
        let field = column_type.arrow_field("x", true);
        let shown = |array: &ArrayRef| write_value(array.as_ref(), 0, &field, &style).unwrap();
        prop_assert_eq!(shown(&array), shown(&expected));
        // A parameter in text format has the same value.
        let scalar = decode(Some(&Bytes::from(text)), 0, wire, &column_type, &style).unwrap();
        prop_assert_eq!(shown(&scalar.to_array().unwrap()), shown(&expected));
    }
}
