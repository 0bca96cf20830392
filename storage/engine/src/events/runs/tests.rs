use std::sync::Arc;

use arrow::array::{Int32Array, StringViewArray};

use super::*;

fn text(values: &[&str]) -> Column {
    Column::Plain(Arc::new(StringViewArray::from_iter_values(values)))
}

#[test]
fn series_are_runs_of_equal_keys() {
    let hosts = text(&["a", "a", "b", "b", "b", "d"]);
    let units = Column::Plain(Arc::new(Int32Array::from(vec![-1, 7, 7, 7, 9, -3])));
    let runs = Runs::of(&[hosts, units], &KeyColumns::fixed(vec![0, 1]), 6).unwrap();
    let rows: Vec<_> = (0..runs.len()).map(|at| runs.rows(at)).collect();
    assert_eq!(rows, [0..1, 1..2, 2..4, 4..5, 5..6]);
    let key = |host: &str, unit: i32| {
        let mut key = KeyBytes::new(2);
        let host: ArrayRef = Arc::new(StringViewArray::from_iter_values([host]));
        let unit: ArrayRef = Arc::new(Int32Array::from(vec![unit]));
        key.push(&host, 0).unwrap();
        key.push(&unit, 0).unwrap();
        key.finish()
    };
    assert_eq!(runs.find(&key("b", 7)), Some(2));
    assert_eq!((runs.find(&key("b", 8)), runs.find(&key("c", 7))), (None, None));
    let units = &runs.series().values()[1];
    assert_eq!(units.as_ref(), &Int32Array::from(vec![-1, 7, 7, 9, -3]));
    assert!(runs.series().values().len() == 2 && runs.series().len() == 5 && runs.bytes() > 0);
}

#[test]
fn without_key_columns_there_is_one_series() {
    let runs = Runs::of(&[], &KeyColumns::default(), 5).unwrap();
    assert_eq!((runs.len(), runs.rows(0), runs.rows(1)), (1, 0..5, 0..0));
    assert_eq!(runs.find(&[]), Some(0));
    assert_eq!(Runs::of(&[], &KeyColumns::default(), 0).unwrap().len(), 0);
}

#[test]
fn rows_out_of_order_are_an_error() {
    let hosts = text(&["a", "b", "a"]);
    assert!(Runs::of(&[hosts], &KeyColumns::fixed(vec![0]), 3).is_err());
}
