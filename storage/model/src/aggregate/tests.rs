use super::*;

#[test]
fn windows_begin_at_multiples_from_their_origin() {
    let windows = Windows { width: 10, origin: 3 };
    let starts = [-8, -7, 2, 3, 12, 13].map(|tick| windows.start(tick));
    assert_eq!(starts, [Some(-17), Some(-7), Some(-7), Some(3), Some(3), Some(13)]);
    let wide = Windows { width: i64::MAX, origin: 1 };
    assert_eq!((wide.start(0), wide.start(i64::MIN)), (Some(1 - i64::MAX), None));
    let far = Windows { width: 7, origin: i64::MAX };
    assert_eq!(far.start(i64::MAX), Some(i64::MAX));
    assert!(far.start(i64::MIN + 10).is_some_and(|start| start <= i64::MIN + 10));
}
