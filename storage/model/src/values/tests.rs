use std::sync::Arc;

use arrow::array::{
    BooleanArray, Float32Array, Float64Array, Int32Array, StringViewArray, TimestampSecondArray,
};

use super::*;

fn array(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

fn summary(array: ArrayRef) -> ValueSummary {
    ValueSummary::of(&array)
}

fn float(value: f64) -> Option<OrderedValue> {
    OrderedValue::float(value)
}

fn text(value: &str) -> OrderedValue {
    OrderedValue::Bytes(Bytes::copy_from_slice(value.as_bytes()))
}

#[test]
fn a_part_without_the_wanted_values_is_passed_over() {
    let part = summary(array(Int32Array::from(vec![Some(3), None, Some(7)])));
    assert_eq!((part.rows, part.nulls), (3, 1));
    let between = |low: Option<i128>, high: Option<i128>| {
        ValuePredicate::Between(low.map(OrderedValue::Whole), high.map(OrderedValue::Whole))
            .may_be_in(&part)
    };
    assert!(between(Some(7), None) && between(None, Some(3)) && between(Some(4), Some(5)));
    assert!(!between(Some(8), None) && !between(None, Some(2)) && between(None, None));
    assert!(ValuePredicate::Null.may_be_in(&part));
}

#[test]
fn nulls_are_no_values() {
    let part = summary(array(Float64Array::from(vec![None, None])));
    assert!(!ValuePredicate::Between(None, None).may_be_in(&part));
    assert!(!ValuePredicate::Between(float(0.0), None).may_be_in(&part));
    assert!(ValuePredicate::Null.may_be_in(&part));
    let part = summary(array(BooleanArray::from(vec![true, true])));
    assert!(!ValuePredicate::Null.may_be_in(&part));
    assert!(!ValuePredicate::Between(None, Some(OrderedValue::Whole(0))).may_be_in(&part));
}

#[test]
fn nan_says_nothing_of_the_others() {
    for nan in [f64::NAN, -f64::NAN] {
        let part = summary(array(Float64Array::from(vec![1.0, nan, 2.0])));
        assert_eq!(part.hull, None);
        assert!(ValuePredicate::Between(float(5.0), None).may_be_in(&part));
    }
    assert_eq!(float(f64::NAN), None);
}

#[test]
fn the_zeros_are_equal() {
    let part = summary(array(Float32Array::from(vec![-0.0, -1.0])));
    assert!(ValuePredicate::Between(float(0.0), None).may_be_in(&part));
    let part = summary(array(Float64Array::from(vec![0.0, 1.0])));
    assert!(ValuePredicate::Between(None, float(-0.0)).may_be_in(&part));
}

#[test]
fn whole_numbers_and_floats_compare() {
    let part = summary(array(TimestampSecondArray::from(vec![i64::MAX - 1, i64::MAX])));
    // As floats, both values are 2^63.
    assert!(ValuePredicate::Between(float(9_223_372_036_854_775_808.0), None).may_be_in(&part));
    assert!(!ValuePredicate::Between(None, float(1e18)).may_be_in(&part));
    // Values without an order exclude nothing.
    assert!(ValuePredicate::Between(Some(text("a")), None).may_be_in(&part));
}

#[test]
fn long_texts_are_cut_without_losing_any() {
    let long = "é".repeat(40);
    let part = summary(array(StringViewArray::from(vec!["b", long.as_str()])));
    let Some((OrderedValue::Bytes(low), OrderedValue::Bytes(high))) = part.hull.clone() else {
        panic!("texts have a hull")
    };
    assert_eq!((low.as_ref(), high.len()), (b"b".as_slice(), BYTES_MAX));
    assert!(ValuePredicate::Between(Some(text(&long)), Some(text(&long))).may_be_in(&part));
    assert!(!ValuePredicate::Between(None, Some(text("a"))).may_be_in(&part));
    assert!(!ValuePredicate::Between(Some(text("ü")), None).may_be_in(&part));
    assert_eq!(above(&[u8::MAX; 40]), None);
    assert_eq!(above(&[[1].as_slice(), &[u8::MAX; 40]].concat()).unwrap().as_ref(), &[2]);
}

#[test]
fn either_of_two_wants_what_lies_around_both() {
    let ints =
        |values: &[i32]| ValuePredicate::among(&array(Int32Array::from(values.to_vec()))).unwrap();
    let both = ints(&[5]).or(ints(&[9, 1])).unwrap();
    assert_eq!(
        both,
        ValuePredicate::Between(Some(OrderedValue::Whole(1)), Some(OrderedValue::Whole(9)))
    );
    assert_eq!(ints(&[5]).or(ValuePredicate::Null), None);
    let open = ints(&[5]).or(ValuePredicate::Between(None, Some(OrderedValue::Whole(2)))).unwrap();
    assert_eq!(open, ValuePredicate::Between(None, Some(OrderedValue::Whole(5))));
    let whole = ValuePredicate::Between(None, Some(OrderedValue::Whole((1 << 53) + 1)));
    let either = whole.or(ValuePredicate::Between(None, float(9_007_199_254_740_992.0))).unwrap();
    assert_eq!(either, ValuePredicate::Between(None, None));
    assert_eq!(ValuePredicate::among(&array(Int32Array::from(vec![None::<i32>]))), None);
}
