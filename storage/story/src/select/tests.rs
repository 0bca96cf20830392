use super::*;

#[test]
fn ranges_are_intersected() {
    let all = Selection::all(100);
    assert!(all.is_all() && all.to_parquet().is_none());
    let some = all.within([0..10, 10..20, 50..60, 90..100]);
    assert_eq!(some.ranges(), [0..20, 50..60, 90..100]);
    assert_eq!(some.rows(), 40);
    let fewer = some.within([5..6, 15..55, 58..95]);
    assert_eq!(fewer.ranges(), [5..6, 15..20, 50..55, 58..60, 90..95]);
    assert_eq!(fewer.to_parquet().unwrap().row_count(), fewer.rows());
    assert_eq!(fewer.within([]).rows(), 0);
    assert_eq!(Selection::all(0).rows(), 0);
}
