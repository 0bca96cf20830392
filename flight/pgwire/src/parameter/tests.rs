use bytes::Bytes;
use datafusion::common::ScalarValue;
use proptest::prelude::*;
use stratalog_model::{ColumnType, ErrorKind};
use stratalog_text::TextStyle;

use super::decode;
use crate::types::oid;

fn read(bytes: &[u8], wire: u32, target: &ColumnType) -> Result<ScalarValue, ErrorKind> {
    let bytes = Bytes::copy_from_slice(bytes);
    decode(Some(&bytes), 1, wire, target, &TextStyle::default()).map_err(|error| error.kind())
}

#[test]
fn null_has_the_types_arrow_type() {
    for target in [ColumnType::Uuid, ColumnType::Array(Box::new(ColumnType::Uuid))] {
        let value = decode(None, 0, 0, &target, &TextStyle::default()).unwrap();
        assert!(value.is_null());
        assert_eq!(value.data_type(), target.arrow_type());
    }
}

#[test]
fn a_declared_type_is_brought_to_the_statements() {
    assert_eq!(
        read(&7_i16.to_be_bytes(), oid::INT2, &ColumnType::BigInt),
        Ok(ScalarValue::Int64(Some(7)))
    );
    assert_eq!(
        read(&7_i32.to_be_bytes(), oid::INT4, &ColumnType::Text),
        Ok(ScalarValue::Utf8View(Some("7".into())))
    );
    assert_eq!(
        read(&70_000_i32.to_be_bytes(), oid::INT4, &ColumnType::SmallInt),
        Err(ErrorKind::NumericOutOfRange)
    );
    // The number 1.5 as a binary numeric.
    let numeric = [0, 2, 0, 0, 0, 0, 0, 1, 0, 1, 0x13, 0x88];
    assert_eq!(
        read(&numeric, oid::NUMERIC, &ColumnType::Double),
        Ok(ScalarValue::Float64(Some(1.5)))
    );
}

#[test]
fn wrong_lengths_and_values_are_refused() {
    let binary = ErrorKind::InvalidBinaryRepresentation;
    for (bytes, wire, target, kind) in [
        (&[1, 2, 3][..], oid::INT4, ColumnType::Integer, binary),
        (&[][..], oid::BOOL, ColumnType::Boolean, binary),
        (&[0; 15][..], oid::UUID, ColumnType::Uuid, binary),
        (&[2, b'1'][..], oid::JSONB, ColumnType::Jsonb, binary),
        (b"\x01{", oid::JSONB, ColumnType::Jsonb, ErrorKind::InvalidTextRepresentation),
        (&[0xff], oid::TEXT, ColumnType::Text, ErrorKind::InvalidEncoding),
        (&[0], oid::TEXT, ColumnType::Text, ErrorKind::InvalidEncoding),
        (
            &i64::MAX.to_be_bytes(),
            oid::TIMESTAMPTZ,
            ColumnType::TimestampTz { precision: 9 },
            ErrorKind::FeatureNotSupported,
        ),
        (
            &(i64::MAX - 1).to_be_bytes(),
            oid::TIMESTAMPTZ,
            ColumnType::TimestampTz { precision: 9 },
            ErrorKind::DatetimeOverflow,
        ),
        (&(-1_i64).to_be_bytes(), oid::TIME, ColumnType::Time, ErrorKind::DatetimeOverflow),
        (&[0, 1, 0, 0, 0, 0, 0, 0], oid::NUMERIC, ColumnType::Double, binary),
        (&[0, 0, 0, 0, 0x12, 0x34, 0, 0], oid::NUMERIC, ColumnType::Double, binary),
    ] {
        assert_eq!(read(bytes, wire, &target), Err(kind), "{bytes:?} as {target}");
    }
    let list = ColumnType::Array(Box::new(ColumnType::Integer));
    // The array claims two billion elements; then the data ends in the middle of the header.
    let lying = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1];
    assert_eq!(read(&lying, 1007, &list), Err(binary));
    assert_eq!(read(&lying[..13], 1007, &list), Err(binary));
    let other = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25];
    assert_eq!(read(&other, 1007, &list), Err(ErrorKind::DatatypeMismatch));
    let style = TextStyle::default();
    let error =
        decode(Some(&Bytes::new()), 2, oid::INT4, &ColumnType::Integer, &style).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParameterValue);
}

proptest! {
    #[test]
    fn any_bytes_are_a_value_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        wire in prop::sample::select(vec![
            16_u32, 17, 20, 21, 23, 25, 26, 114, 700, 701, 1082, 1083, 1114, 1184, 1186, 1700, 2950,
            3802, 1007, 1009, 1185, 1231, 2951, 3807, 600,
        ]),
        target in prop::sample::select(vec![
            ColumnType::Integer,
            ColumnType::Text,
            ColumnType::TimestampTz { precision: 9 },
            ColumnType::Numeric { precision: 10, scale: 2 },
            ColumnType::Array(Box::new(ColumnType::Integer)),
        ]),
    ) {
        let _ = read(&bytes, wire, &target);
    }
}
