use std::sync::Arc;

use arrow::array::{Float32Array, Float64Array, Int16Array, Int64Array};

use super::*;

fn column(array: &ArrayRef) -> Column<'_> {
    Column::of(array)
}

#[test]
fn numbers_of_whole_columns_and_of_parts() {
    let many: Vec<f64> = (0..1000).map(|n| f64::from(n) * 0.1).collect();
    let array: ArrayRef = Arc::new(Float64Array::from(many));
    let all = column(&array);
    assert_eq!(all.count(0..1000), 1000);
    let Some(Total::Float(sum)) = all.sum(0..1000).unwrap() else { panic!("no sum") };
    assert!((sum - 49950.0).abs() < 1e-9);
    assert_eq!(all.sum(3..5).unwrap(), Some(Total::Float(0.1 * 3.0 + 0.4)));
    assert_eq!(all.extreme(10..20, false), Some(Number::Float(1.0)));
    assert_eq!(all.extreme(10..20, true), Some(Number::Float(1.9000000000000001)));
    assert_eq!((all.sum(7..7).unwrap(), all.extreme(7..7, true)), (None, None));
}

#[test]
fn nulls_are_left_out() {
    let array: ArrayRef = Arc::new(Float64Array::from(vec![None, Some(2.0), None, Some(-1.5)]));
    let some = column(&array);
    assert_eq!((some.count(0..4), some.count(2..3)), (2, 0));
    assert_eq!((some.sum(0..4).unwrap(), some.sum(2..3).unwrap()), (Some(Total::Float(0.5)), None));
    assert_eq!(some.extreme(0..4, false), Some(Number::Float(-1.5)));
    assert_eq!(some.extreme(0..2, true), Some(Number::Float(2.0)));
    assert_eq!(some.extreme(0..1, true), None);
    let array: ArrayRef = Arc::new(Int16Array::from(vec![Some(3), None, Some(i16::MIN)]));
    assert_eq!(column(&array).extreme(0..3, false), Some(Number::Integer(-32768)));
    let array: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX]));
    assert_eq!(column(&array).extreme(0..2, true), Some(Number::Integer(i64::MAX)));
}

#[test]
fn nan_is_above_all_numbers() {
    let of = |values: Vec<f64>, greatest| {
        let array: ArrayRef = Arc::new(Float64Array::from(values));
        match column(&array).extreme(0..array.len(), greatest) {
            Some(Number::Float(found)) => found,
            other => panic!("{other:?}"),
        }
    };
    for at in 0..9 {
        let mut values: Vec<f64> = (0..9).map(f64::from).collect();
        values[at] = f64::NAN;
        assert!(of(values.clone(), true).is_nan());
        assert_eq!(of(values, false), if at == 0 { 1.0 } else { 0.0 });
    }
    assert!(of(vec![f64::NAN; 5], false).is_nan());
    assert_eq!(of(vec![f64::NAN, f64::INFINITY], false), f64::INFINITY);
    assert_eq!(of(vec![1.0, f64::NEG_INFINITY], false), f64::NEG_INFINITY);
    let array: ArrayRef = Arc::new(Float32Array::from(vec![1.5, f32::NAN]));
    assert_eq!(column(&array).extreme(0..2, false), Some(Number::Float(1.5)));
}

#[test]
fn sums_of_whole_numbers_are_exact() {
    let of = |array: ArrayRef| column(&array).sum(0..array.len()).unwrap();
    let edges = [i64::MIN, i64::MAX, -1, 0, 1, i64::MAX / 128, -(i64::MAX / 128), i64::MAX / 127];
    for some in 1..400_usize {
        let values: Vec<i64> = (0..some).map(|at| edges[at * at % edges.len()]).collect();
        let sum = values.iter().map(|value| i128::from(*value)).sum();
        assert_eq!(of(Arc::new(Int64Array::from(values))), Some(Total::Whole(sum)));
        let values = vec![i64::MAX; some];
        let sum = i128::from(i64::MAX) * some as i128;
        assert_eq!(of(Arc::new(Int64Array::from(values))), Some(Total::Whole(sum)));
    }
    let narrow: Vec<i16> = vec![i16::MIN; 1000];
    assert_eq!(of(Arc::new(Int16Array::from(narrow))), Some(Total::Whole(-32_768_000)));
    let some = Int64Array::from(vec![None, Some(5), None, Some(-7)]);
    assert_eq!(of(Arc::new(some)), Some(Total::Whole(-2)));
    assert_eq!(of(Arc::new(Int64Array::from(vec![None, None]))), None);
    let text: ArrayRef = Arc::new(arrow::array::StringViewArray::from_iter_values(["a"]));
    assert!(column(&text).sum(0..1).is_err());
}
