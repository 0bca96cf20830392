use stratalog_model::Granularity;

use super::*;

fn scale(base: i64, granularity: i64) -> TickScale {
    TickScale::starting_at(base, Granularity::from_ns(granularity).unwrap())
}

#[test]
fn values_and_ticks_before_the_base() {
    let second = scale(10_000_000_000, 1_000_000_000);
    let ticks = assign(&[9_999_999, 10_000_000, 10_999_999, 0, -1], 1000, &second).unwrap();
    assert_eq!(ticks, [-1, 0, 0, -10, -11]);
    let starts = starts(&ticks, 1000, &second).unwrap();
    assert_eq!(starts, [9_000_000, 10_000_000, 10_000_000, 0, -1_000_000]);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let nanoseconds = scale(0, 1);
    for (value, unit) in [(i64::MAX, 1), (i64::MAX, 1000), (i64::MIN, 1_000_000_000)] {
        let error = assign(&[value], unit, &nanoseconds).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DatetimeOverflow);
    }
    assert_eq!(assign(&[i64::MIN], 1, &nanoseconds).unwrap(), [i64::MIN]);
    // Base far ahead: the value fits, but the distance does not fit.
    let ahead = scale(1 << 62, 1);
    assert!(assign(&[i64::MIN], 1, &ahead).is_err());
    assert!(starts(&[i64::MAX - 1], 1, &ahead).is_err());
}

#[test]
fn units_coarser_than_ticks_show_the_floor() {
    let odd = scale(0, 1_500_000_000);
    let ticks = assign(&[0, 1, 2, 3], 1_000_000_000, &odd).unwrap();
    assert_eq!(ticks, [0, 0, 1, 2]);
    assert_eq!(starts(&ticks, 1_000_000_000, &odd).unwrap(), [0, 0, 1, 3]);
}
