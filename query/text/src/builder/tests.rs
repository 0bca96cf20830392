use arrow::array::{Array, AsArray};
use stratalog_model::ColumnType;

use super::{ColumnBuilder, parse_value};
use crate::TextStyle;

fn every_type() -> Vec<ColumnType> {
    let mut types = vec![
        ColumnType::Boolean,
        ColumnType::SmallInt,
        ColumnType::Integer,
        ColumnType::BigInt,
        ColumnType::Real,
        ColumnType::Double,
        ColumnType::Numeric { precision: 12, scale: 3 },
        ColumnType::Text,
        ColumnType::Bytea,
        ColumnType::Date,
        ColumnType::Time,
        ColumnType::Interval,
        ColumnType::Uuid,
        ColumnType::Jsonb,
    ];
    for precision in [0, 3, 6, 9] {
        types.push(ColumnType::Timestamp { precision });
        types.push(ColumnType::TimestampTz { precision });
    }
    let arrays: Vec<_> =
        types.iter().map(|item| ColumnType::Array(Box::new(item.clone()))).collect();
    types.extend(arrays);
    types
}

#[test]
fn arrays_have_exactly_the_columns_arrow_type() {
    for column_type in every_type() {
        let mut builder = ColumnBuilder::new(&column_type, 4);
        builder.append_null();
        assert_eq!(builder.len(), 1);
        let array = builder.finish();
        assert_eq!(*array.data_type(), column_type.arrow_type(), "{column_type}");
        assert_eq!(array.null_count(), 1);
        assert!(builder.is_empty(), "{column_type}");
        assert_eq!(builder.finish().len(), 0);
    }
}

#[test]
fn a_builder_starts_anew_after_finish() {
    let column_type = ColumnType::Array(Box::new(ColumnType::Integer));
    let mut builder = ColumnBuilder::new(&column_type, 4);
    let style = TextStyle::default();
    builder.append_text("{1,2}", &style).unwrap();
    builder.append_text("{}", &style).unwrap();
    let first = builder.finish();
    builder.append_text("{3}", &style).unwrap();
    let second = builder.finish();
    assert_eq!(first.as_list::<i32>().value_offsets(), [0, 2, 2]);
    assert_eq!(second.as_list::<i32>().value_offsets(), [0, 1]);
}

#[test]
fn null_is_null() {
    let array = parse_value(None, &ColumnType::Text, &TextStyle::default()).unwrap();
    assert!(array.is_null(0));
}
