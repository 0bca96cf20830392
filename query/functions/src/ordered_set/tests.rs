use arrow::array::StringViewArray;

use super::*;

fn counts(takes: OrderedSetResult, descending: bool) -> Counts {
    let options = SortOptions { descending, nulls_first: false };
    Counts::new(takes, DataType::Utf8View, options).unwrap()
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringViewArray::from(values.to_vec()))
}

fn fractions(fraction: f64, rows: usize) -> ArrayRef {
    Arc::new(arrow::array::Float64Array::from(vec![fraction; rows]))
}

fn text(value: Option<&str>) -> ScalarValue {
    ScalarValue::Utf8View(value.map(str::to_string))
}

#[test]
fn the_mode_is_the_most_frequent_and_then_the_first() {
    for (descending, wanted) in [(false, "b"), (true, "c")] {
        let mut mode = counts(OrderedSetResult::Mode, descending);
        let values = [Some("c"), Some("a"), Some("b"), None, None, None, Some("c"), Some("b")];
        mode.update_batch(&[texts(&values)]).unwrap();
        assert_eq!(mode.evaluate().unwrap(), text(Some(wanted)));
    }
    let mut empty = counts(OrderedSetResult::Mode, false);
    empty.update_batch(&[texts(&[None])]).unwrap();
    assert_eq!(empty.evaluate().unwrap(), text(None));
}

#[test]
fn a_percentile_is_one_of_the_values() {
    let values = [Some("d"), Some("a"), None, Some("c"), Some("b")];
    for (fraction, up, down) in
        [(0.0, "a", "d"), (0.25, "a", "d"), (0.26, "b", "c"), (0.5, "b", "c"), (1.0, "d", "a")]
    {
        for (descending, wanted) in [(false, up), (true, down)] {
            let mut percentile = counts(OrderedSetResult::Percentile, descending);
            percentile.update_batch(&[texts(&values), fractions(fraction, 5)]).unwrap();
            assert_eq!(percentile.evaluate().unwrap(), text(Some(wanted)), "{fraction}");
        }
    }
    let mut beyond = counts(OrderedSetResult::Percentile, false);
    let error = beyond.update_batch(&[texts(&values), fractions(1.5, 5)]).unwrap_err();
    assert!(error.to_string().contains("percentile value 1.5 is not between 0 and 1"), "{error}");
}

#[test]
fn parts_are_put_together() {
    let mut whole = counts(OrderedSetResult::Percentile, false);
    for part in [&[Some("c"), Some("a")][..], &[None], &[Some("a"), Some("b"), Some("a")]] {
        let mut partial = counts(OrderedSetResult::Percentile, false);
        partial.update_batch(&[texts(part), fractions(0.6, part.len())]).unwrap();
        let state: Vec<ArrayRef> =
            partial.state().unwrap().iter().map(|value| value.to_array().unwrap()).collect();
        whole.merge_batch(&state).unwrap();
    }
    assert_eq!(whole.total, 5);
    assert_eq!(whole.evaluate().unwrap(), text(Some("a")));
    assert!(whole.size() > whole.bytes && whole.bytes > 3 * ENTRY_BYTES);
}
