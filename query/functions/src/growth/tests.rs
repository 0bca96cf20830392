use std::sync::Arc;

use arrow::array::{Int64Array, ListBuilder, StringViewArray, StringViewBuilder};

use super::*;

fn text(text: &str) -> ColumnarValue {
    ColumnarValue::Scalar(ScalarValue::Utf8View(Some(text.to_string())))
}

fn number(number: i64) -> ColumnarValue {
    ColumnarValue::Scalar(ScalarValue::Int64(Some(number)))
}

fn growth(name: &str, arguments: &[ColumnarValue], rows: usize) -> (usize, usize) {
    let growth = predict(name, arguments, rows).unwrap().unwrap();
    (growth.total, growth.largest)
}

#[test]
fn a_constant_counts_in_every_row() {
    assert_eq!(growth("repeat", &[text("abc"), number(1000)], 1), (3000, 3000));
    assert_eq!(growth("repeat", &[text("abc"), number(1000)], 8), (24_000, 3000));
    assert_eq!(growth("repeat", &[text("abc"), number(-1)], 8), (0, 0));
    assert_eq!(growth("repeat", &[text("abc"), number(i64::MAX)], 2).0, usize::MAX);
}

#[test]
fn rows_differ() {
    let counts = ColumnarValue::Array(Arc::new(Int64Array::from(vec![Some(1), None, Some(7)])));
    assert_eq!(growth("repeat", &[text("ab"), counts], 3), (16, 14));
    let texts = StringViewArray::from(vec![Some("x"), None, Some("some longer text here")]);
    let texts = ColumnarValue::Array(Arc::new(texts));
    assert!(growth("concat", &[texts, text("!!")], 3).0 >= 28, "an upper bound where it is short");
    let long = "x".repeat(1 << 20);
    assert_eq!(growth("text_concat", &[text(&long), text("!!")], 2).1, (1 << 20) + 2);
}

#[test]
fn replacements_count_occurrences() {
    let long = "a-".repeat(50_000);
    let by = "b".repeat(1000);
    assert_eq!(growth("replace", &[text(&long), text("a"), text(&by)], 1).0, 50_050_000);
    assert_eq!(growth("replace", &[text(&long), text("z"), text(&by)], 1).0, 100_000);
    assert_eq!(growth("replace", &[text(&long), text("a"), text("")], 1).0, 100_000);
    assert_eq!(growth("replace", &[text("aXa"), text(""), text("b")], 1).0, 3);
}

#[test]
fn padding_counts_wide_characters() {
    assert_eq!(growth("lpad", &[text("x"), number(100_000), text("é")], 1).0, 400_000);
    assert_eq!(growth("rpad", &[text("x"), number(100_000)], 1).0, 100_000);
}

#[test]
fn padding_without_a_fill_adds_nothing() {
    assert_eq!(growth("lpad", &[text("abc"), number(i64::MAX), text("")], 2), (6, 3));
    let null = || ColumnarValue::Scalar(ScalarValue::Utf8View(None));
    assert_eq!(growth("lpad", &[text("abc"), number(i64::MAX), null()], 2).0, 0);
    assert_eq!(growth("rpad", &[null(), number(i64::MAX)], 2).0, 0);
    let fills = StringViewArray::from(vec![Some("-"), Some(""), None]);
    let fills = ColumnarValue::Array(Arc::new(fills));
    let lengths = |length| padded_lengths(&[text("abc"), number(length), fills.clone()], 3);
    assert_eq!(lengths(70).unwrap(), Int64Array::from(vec![70, 3, 0]));
    assert_eq!(lengths(-5).unwrap(), Int64Array::from(vec![0, 0, 0]));
}

#[test]
fn separators_count_between_elements() {
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    lists.append_value([Some("a"), Some("b"), None]);
    let list = ColumnarValue::Array(Arc::new(lists.finish()));
    let between = "-".repeat(1000);
    assert!(growth("array_to_string", &[list, text(&between)], 1).0 >= 3000);
    assert!(growth("concat_ws", &[text(&between), text("a"), text("b"), text("c")], 1).0 >= 2003);
}

#[test]
fn other_functions_have_no_prediction() {
    assert_eq!(predict("substr", &[text("a"), number(1)], 8).unwrap(), None);
}
