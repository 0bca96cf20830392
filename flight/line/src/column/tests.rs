use arrow::array::{Array, AsArray};
use proptest::prelude::*;
use stratalog_model::ColumnType;

use super::{Column, Refusal};
use crate::FieldValue;

fn column(column_type: ColumnType) -> Column {
    Column::new("c", b"c=", column_type, false)
}

#[test]
fn refused_values_leave_the_rows_before_them() {
    let mut small = column(ColumnType::SmallInt);
    assert_eq!(small.push(2, FieldValue::Integer(7)), Ok(()));
    assert_eq!(small.push(2, FieldValue::Integer(8)), Err(Refusal::Twice));
    assert_eq!(small.push(5, FieldValue::Unsigned(40_000)), Err(Refusal::Range));
    assert_eq!(small.push(5, FieldValue::Unsigned(u64::MAX)), Err(Refusal::Range));
    assert_eq!(small.push(5, FieldValue::Float(1.0)), Err(Refusal::Kind));
    small.truncate(5);
    assert_eq!(small.push(6, FieldValue::Unsigned(9)), Ok(()));
    let array = small.into_array(8, &ColumnType::SmallInt).unwrap();
    let values: Vec<_> = array.as_primitive::<arrow::datatypes::Int16Type>().iter().collect();
    assert_eq!(values, [None, None, Some(7), None, None, None, Some(9), None]);
}

#[test]
fn real_takes_what_it_can_hold() {
    let mut real = column(ColumnType::Real);
    for (row, value) in [0.0, -0.0, 0.1, f64::NAN, f64::INFINITY, 3.4e38].into_iter().enumerate() {
        assert_eq!(real.push(row, FieldValue::Float(value)), Ok(()), "{value}");
    }
    for value in [1e39, -1e39, 1e-50] {
        assert_eq!(real.push(6, FieldValue::Float(value)), Err(Refusal::Range), "{value}");
    }
}

#[test]
fn no_room_is_kept_that_is_not_used() {
    let mut large = column(ColumnType::BigInt);
    for row in 0..1_000 {
        large.push(row, FieldValue::Integer(1)).unwrap();
    }
    assert_eq!(large.take().len(), 1_000);
    large.start_batch();
    large.push(0, FieldValue::Integer(1)).unwrap();
    let array = large.take().into_array(1, &ColumnType::BigInt).unwrap();
    assert!(array.get_buffer_memory_size() <= 64);
}

proptest! {
    /// Writes rows with and without a value; removes some rows and writes them again.
    #[test]
    fn columns_are_what_was_pushed(
        rows in prop::collection::vec((prop::option::of("[a-zé]{0,15}"), any::<bool>()), 0..50)
    ) {
        let mut text = column(ColumnType::Text);
        let mut boolean = column(ColumnType::Boolean);
        for (row, (value, taken_back)) in rows.iter().enumerate() {
            if *taken_back {
                text.push(row, FieldValue::Text("taken back")).unwrap();
                boolean.push(row, FieldValue::Boolean(true)).unwrap();
                text.truncate(row);
                boolean.truncate(row);
            }
            if let Some(value) = value {
                text.push(row, FieldValue::Text(value)).unwrap();
                boolean.push(row, FieldValue::Boolean(value.len() > 3)).unwrap();
            }
        }
        let text = text.into_array(rows.len(), &ColumnType::Text).unwrap();
        let boolean = boolean.into_array(rows.len(), &ColumnType::Boolean).unwrap();
        let expected: Vec<_> = rows.iter().map(|(value, _)| value.as_deref()).collect();
        prop_assert_eq!(text.as_string_view().iter().collect::<Vec<_>>(), expected.clone());
        let long: Vec<_> =
            expected.iter().map(|value| value.map(|value| value.len() > 3)).collect();
        prop_assert_eq!(boolean.as_boolean().iter().collect::<Vec<_>>(), long);
    }
}
