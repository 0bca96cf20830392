use super::*;

fn interval(months: i32, days: i32, nanoseconds: i64) -> IntervalMonthDayNano {
    IntervalMonthDayNano { months, days, nanoseconds }
}

#[test]
fn whole_factors_are_exact() {
    assert_eq!(times(interval(1, -2, 3), 4), Some(interval(4, -8, 12)));
    assert_eq!(times(interval(i32::MAX, 0, 0), 2), None);
    assert_eq!(times(interval(0, 0, i64::MAX), 2), None);
}

#[test]
fn fractions_move_down() {
    assert_eq!(multiplied(interval(1, 0, 0), 0.5), Some(interval(0, 15, 0)));
    assert_eq!(multiplied(interval(0, 1, 0), 0.25), Some(interval(0, 0, 21_600_000_000_000)));
    assert_eq!(multiplied(interval(1, 0, 0), 0.1), Some(interval(0, 3, 0)));
    assert_eq!(divided(interval(0, 0, 3), 3.0), Some(interval(0, 0, 1)));
    assert_eq!(divided(interval(0, 0, 1_000_000_000), 3.0), Some(interval(0, 0, 333_333_000)));
    assert_eq!(multiplied(interval(0, 1, 0), f64::INFINITY), None);
    // select interval '1 mon 1 day' / 7, interval '40 days' / 3
    assert_eq!(divided(interval(1, 1, 0), 7.0), Some(interval(0, 4, 37_028_546_743_000)));
    assert_eq!(divided(interval(0, 40, 0), 3.0), Some(interval(0, 13, 28_800_000_000_000)));
}
