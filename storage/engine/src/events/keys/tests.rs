use std::sync::Arc;

use arrow::array::{BooleanArray, FixedSizeBinaryArray, Int32Array, Int64Array, StringViewArray};

use super::*;

fn text(rows: usize, value: impl Fn(usize) -> String) -> Column {
    let array: StringViewArray = (0..rows).map(|row| Some(value(row))).collect();
    Column::store(&(Arc::new(array) as ArrayRef)).unwrap()
}

/// Checks that rows share a group exactly when their values are equal.
fn check(columns: &[Column], rows: usize) -> Groups {
    let at = KeyColumns::fixed((0..columns.len()).collect());
    let groups = Groups::of(columns, &at, rows).unwrap();
    assert_eq!(groups.of_row.len(), rows);
    for row in 0..rows {
        let mut key = Vec::new();
        for column in columns {
            key_part(&column.slice(row, 1).unwrap(), 0, &mut key).unwrap();
        }
        assert_eq!(groups.keys[groups.group(row)].as_ref(), key.as_slice(), "row {row}");
    }
    let distinct: std::collections::HashSet<_> = groups.keys.iter().collect();
    assert_eq!(distinct.len(), groups.keys.len());
    groups
}

#[test]
fn every_kind_of_key() {
    let rows = 1000;
    let coded = text(rows, |row| format!("host_{}", row % 17));
    let plain = text(rows, |row| format!("a distinct and long name {}", row / 2));
    let small: Column = Column::Plain(Arc::new(Int32Array::from_iter_values(
        (0..rows).map(|row| row as i32 % 5 - 2),
    )));
    let large = Column::Plain(Arc::new(Int64Array::from_iter_values(
        (0..rows).map(|row| i64::MIN + row as i64 / 3),
    )));
    let flag =
        Column::Plain(Arc::new(BooleanArray::from_iter((0..rows).map(|row| Some(row % 3 == 0)))));
    let uuids = (0..rows).map(|row| ((row % 90) as u128).to_be_bytes());
    let uuid = Column::Plain(Arc::new(FixedSizeBinaryArray::try_from_iter(uuids).unwrap()));
    assert_eq!(check(std::slice::from_ref(&coded), rows).keys.len(), 17);
    assert_eq!(check(std::slice::from_ref(&plain), rows).keys.len(), 500);
    assert_eq!(check(&[small.clone(), flag.clone()], rows).keys.len(), 10);
    check(&[coded, plain, small, large, flag, uuid], rows);
}

#[test]
fn no_key_is_one_group() {
    let groups = Groups::of(&[], &KeyColumns::default(), 5).unwrap();
    assert_eq!((groups.keys.len(), groups.group(4)), (1, 0));
}

#[test]
fn entries_that_no_row_uses_have_no_group() {
    let column = text(100, |row| format!("v{}", row % 4));
    let mask = (0..100).map(|row| Some(row % 4 != 1)).collect::<BooleanArray>();
    let filtered = column.filter(&mask).unwrap();
    assert_eq!(check(&[filtered], 75).keys.len(), 3);
}

#[test]
fn texts_do_not_run_together() {
    let a = text(2, |row| ["ab", "a"][row].to_string());
    let b = text(2, |row| ["c", "bc"][row].to_string());
    assert_eq!(check(&[a, b], 2).keys.len(), 2);
}

#[test]
fn empty_values_of_columns_that_joined_are_no_part_of_a_key() {
    let host = text(4, |_| "h".to_string());
    let rack = text(4, |row| ["", "", "r", ""][row].to_string());
    let zone = text(4, |row| ["", "z", "", ""][row].to_string());
    let before = Groups::of(std::slice::from_ref(&host), &KeyColumns::fixed(vec![0]), 4).unwrap();
    let columns = [host, rack, zone];
    let one = Groups::of(&columns, &KeyColumns { at: vec![0, 1], fixed: 1 }, 4).unwrap();
    let both = Groups::of(&columns, &KeyColumns { at: vec![0, 1, 2], fixed: 1 }, 4).unwrap();
    let of = |groups: &Groups, row: usize| groups.keys[groups.group(row)].clone();
    // The key of a series does not change when columns are added to the key.
    assert_eq!(of(&one, 0), of(&before, 0));
    assert_eq!(of(&both, 0), of(&before, 0));
    assert_eq!(of(&both, 2), of(&one, 2));
    assert_eq!((one.keys.len(), both.keys.len()), (2, 3));
    // Keys have the order of their values: ('h', ''), ('h', '', 'z'), ('h', 'r').
    assert!(of(&both, 0) < of(&both, 1) && of(&both, 1) < of(&both, 2));
    // A column present from the beginning is always part of the key.
    let fixed = Groups::of(&columns, &KeyColumns::fixed(vec![0, 1]), 4).unwrap();
    assert_ne!(of(&fixed, 0), of(&before, 0));
}

#[test]
fn further_columns_split_the_rows_of_a_dictionary_with_idle_entries() {
    let column = text(400, |row| format!("v{}", row % 100));
    // After the filter, the dictionary has as many entries as rows; the rows use only 25 entries.
    let mask = (0..400).map(|row| Some(row % 100 < 25)).collect::<BooleanArray>();
    let filtered = column.filter(&mask).unwrap();
    let numbers = Column::Plain(Arc::new(Int64Array::from_iter_values(0..100)));
    assert_eq!(check(std::slice::from_ref(&filtered), 100).keys.len(), 25);
    assert_eq!(check(&[filtered, numbers], 100).keys.len(), 100);
}

#[test]
fn zeros_within_a_text_keep_keys_apart() {
    let column = text(64, |row| ["", "\0", "\0\0", "a\0b"][row % 4].to_string());
    assert_eq!(check(&[column.clone(), column], 64).keys.len(), 4);
}
