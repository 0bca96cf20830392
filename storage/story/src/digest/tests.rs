use std::sync::Arc;

use arrow::array::{
    BinaryArray, BooleanArray, Float64Array, Int32Array, ListArray, StringViewArray,
};

use super::*;

fn of(array: impl Array + 'static) -> u32 {
    let array: ArrayRef = Arc::new(array);
    add(7, &array).unwrap()
}

#[test]
fn equal_values_have_equal_digests_wherever_they_lie() {
    let long = Int32Array::from(vec![Some(9), Some(1), None, Some(3), Some(9)]);
    assert_eq!(of(long.slice(1, 3)), of(Int32Array::from(vec![Some(1), None, Some(3)])));
    // The value in the place of a NULL does not change the digest.
    let hidden = Int32Array::new(vec![1, 77, 3].into(), Some(vec![true, false, true].into()));
    assert_eq!(of(hidden), of(Int32Array::from(vec![Some(1), None, Some(3)])));
    let text = StringViewArray::from(vec!["x", "a string that is too long to lie inline", ""]);
    assert_eq!(
        of(text.slice(1, 2)),
        of(StringViewArray::from_iter_values(text.iter().flatten().skip(1)))
    );
    let lists = |values: &[Option<Vec<Option<i32>>>]| {
        ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>(values.to_vec())
    };
    let three = [Some(vec![Some(1)]), None, Some(vec![None, Some(2)])];
    assert_eq!(of(lists(&three).slice(1, 2)), of(lists(&three[1..])));
}

#[test]
fn other_values_have_other_digests() {
    assert_ne!(of(Float64Array::from(vec![0.0])), of(Float64Array::from(vec![-0.0])));
    assert_ne!(of(BooleanArray::from(vec![true])), of(BooleanArray::from(vec![false])));
    assert_ne!(of(Int32Array::from(vec![Some(0)])), of(Int32Array::from(vec![None])));
    assert_ne!(
        of(BinaryArray::from(vec![&b"ab"[..], b"c"])),
        of(BinaryArray::from(vec![&b"a"[..], b"bc"]))
    );
}

#[test]
fn where_rows_are_cut_does_not_matter() {
    let values: ArrayRef =
        Arc::new((0..20_000).map(|n| (n % 7 > 0).then_some(n)).collect::<Int32Array>());
    let rows = RecordBatch::try_from_iter([("n", values)]).unwrap();
    let mut whole = Digest { rows: 0, columns: vec![0] };
    let mut parts = whole.clone();
    whole.add(&rows).unwrap();
    for start in (0..20_000).step_by(CHUNK_ROWS) {
        parts.add(&rows.slice(start, CHUNK_ROWS.min(20_000 - start))).unwrap();
    }
    assert_eq!(whole, parts);
    assert_ne!(whole, Digest { rows: 0, columns: vec![0] });
}
