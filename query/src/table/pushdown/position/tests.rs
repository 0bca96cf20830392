use datafusion::prelude::{col, lit};

use super::*;

fn range(start: u64, end: u64) -> GsnRange {
    GsnRange::new(Gsn(start), Gsn(end))
}

#[test]
fn comparisons_become_ranges() {
    let gsn = || col("_gsn");
    assert_eq!(gsns(&gsn().eq(lit(7_i64))), range(7, 8));
    assert_eq!(gsns(&gsn().gt(lit(7_i64)).and(gsn().lt_eq(lit(9_i64)))), range(8, 10));
    assert_eq!(gsns(&lit(7_i64).lt_eq(gsn())), range(7, u64::MAX));
    assert_eq!(gsns(&gsn().between(lit(3_i64), lit(5_i32))), range(3, 6));
    assert_eq!(gsns(&gsn().in_list(vec![lit(9_i64), lit(4_i64)], false)), range(4, 10));
    assert_eq!(gsns(&gsn().lt(lit(3_i64)).or(gsn().eq(lit(8_i64)))), range(0, 9));
    assert!(gsns(&gsn().lt(lit(-5_i64))).is_empty());
}

#[test]
fn the_order_at_the_only_site_is_the_order_of_commits() {
    assert_eq!(gsns(&col("_toid").eq(lit(7_i64))), range(7, 8));
    assert_eq!(gsns(&lit(7_i64).lt(col("_toid")).and(col("_gsn").lt(lit(9_i64)))), range(8, 9));
}

#[test]
fn what_is_not_known_is_everything() {
    let gsn = || col("_gsn");
    assert!(gsns(&gsn().not_eq(lit(7_i64))).is_all());
    assert!(gsns(&gsn().eq(col("other"))).is_all());
    assert!(gsns(&gsn().eq(lit(7_i64)).or(col("other").eq(lit(1_i64)))).is_all());
    assert!(gsns(&gsn().in_list(vec![lit(9_i64)], true)).is_all());
    assert!(gsns(&gsn().in_list(vec![lit(9_i64), col("other")], false)).is_all());
}
