use std::sync::Arc;

use arrow::array::{Int64Array, StringViewArray};

use super::*;

#[test]
fn the_first_row_out_of_order_is_found() {
    let keys: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "a", "b", "b", "c"]));
    let find = |ticks: [i64; 5]| {
        let ticks: ArrayRef = Arc::new(Int64Array::from(ticks.to_vec()));
        first_out_of_order(&[&keys, &ticks]).unwrap()
    };
    assert_eq!(find([5, 6, -3, -3, -9]), None);
    assert_eq!(find([5, 6, 7, 6, -9]), Some(3));
    assert_eq!(first_out_of_order(&[]).unwrap(), None);
}
