use arrow::array::{Float64Array, Int64Array, StringArray, TimestampNanosecondArray};

use super::*;

fn convert(array: ArrayRef, column_type: ColumnType) -> Result<ArrayRef> {
    let field = Field::new("x", array.data_type().clone(), true);
    let style = TextStyle::default();
    Assignment { column_type: &column_type, name: "x", style: &style }.convert(&array, &field)
}

#[test]
fn decimals_round_half_away_from_zero() {
    for (text, wanted) in [
        ("1.5", "2"),
        ("-1.5", "-2"),
        ("2.4", "2"),
        ("0.4", "0"),
        ("-0.4", "0"),
        ("1e3", "1000"),
        ("1.25e1", "13"),
        ("9223372036854775807.4", "9223372036854775807"),
        ("1e-50", "0"),
        (".5", "1"),
    ] {
        assert_eq!(round_decimal(text).unwrap(), wanted, "{text}");
    }
    assert!(round_decimal("1e60").is_err());
}

#[test]
fn integers_never_wrap() {
    let array: ArrayRef = Arc::new(Int64Array::from(vec![Some(32_768), None]));
    let error = convert(array, ColumnType::SmallInt).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(error.message(), "smallint out of range");
    let array: ArrayRef = Arc::new(Float64Array::from(vec![2.5, 3.5, -2.5]));
    let whole = convert(array, ColumnType::Integer).unwrap();
    assert_eq!(whole.as_primitive::<arrow::datatypes::Int32Type>().values(), &[2, 4, -2]);
    for value in [9.3e18, f64::NAN, f64::INFINITY] {
        let array: ArrayRef = Arc::new(Float64Array::from(vec![value]));
        assert_eq!(
            convert(array, ColumnType::BigInt).unwrap_err().kind(),
            ErrorKind::NumericOutOfRange
        );
    }
}

#[test]
fn text_is_read_by_the_column() {
    let array: ArrayRef = Arc::new(StringArray::from(vec!["2020-01-01 00:00:00+00"]));
    assert!(convert(array, ColumnType::TimestampTz { precision: 9 }).is_ok());
    let array: ArrayRef = Arc::new(StringArray::from(vec!["abc"]));
    assert_eq!(
        convert(array, ColumnType::Integer).unwrap_err().kind(),
        ErrorKind::InvalidTextRepresentation
    );
}

#[test]
fn a_coarser_time_rounds_and_the_clock_does_not() {
    let array: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_600_000_000]));
    let column_type = ColumnType::Timestamp { precision: 0 };
    let rounded = convert(Arc::clone(&array), column_type.clone()).unwrap();
    assert_eq!(rounded.as_primitive::<arrow::datatypes::TimestampSecondType>().value(0), 2);
    let style = TextStyle::default();
    let assignment = Assignment { column_type: &column_type, name: "x", style: &style };
    let field = Field::new("x", array.data_type().clone(), true);
    let cut = assignment.truncate_time(&array, &field).unwrap();
    assert_eq!(cut.as_primitive::<arrow::datatypes::TimestampSecondType>().value(0), 1);
}

#[test]
fn what_has_no_assignment_cast_is_a_mismatch() {
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    for column_type in [ColumnType::Boolean, ColumnType::Date, ColumnType::Uuid, ColumnType::Jsonb]
    {
        assert_eq!(
            convert(Arc::clone(&array), column_type).unwrap_err().kind(),
            ErrorKind::DatatypeMismatch
        );
    }
}
