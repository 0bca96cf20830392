use arrow::datatypes::IntervalMonthDayNano;
use stratalog_model::ErrorKind;

use super::Windows;

const US: i64 = 1_000;
const SECOND: i64 = 1_000_000;
const HOUR_NS: i64 = 3_600_000_000_000;

fn us(text: &str) -> i64 {
    text.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_micros()
}

fn width(months: i32, days: i32, nanoseconds: i64) -> IntervalMonthDayNano {
    IntervalMonthDayNano { months, days, nanoseconds }
}

fn start(width: IntervalMonthDayNano, time: &str) -> String {
    let windows = Windows::new(width, US).unwrap();
    let start = windows.start(us(time)).unwrap();
    if let Some(fast) = windows.in_whole_units() {
        assert!(fast.covers(&[us(time)]));
        assert_eq!(fast.start(us(time)), start, "fast path at {time}");
    }
    chrono::DateTime::from_timestamp_micros(start).unwrap().to_rfc3339()
}

#[test]
fn windows_of_hours_days_and_weeks() {
    assert_eq!(
        start(width(0, 0, HOUR_NS), "2016-01-01T20:03:37.430883Z"),
        "2016-01-01T20:00:00+00:00"
    );
    assert_eq!(start(width(0, 1, 0), "2016-01-01T20:03:37Z"), "2016-01-01T00:00:00+00:00");
    // Weeks start on Monday.
    assert_eq!(start(width(0, 7, 0), "2026-11-21T03:00:00Z"), "2026-11-16T00:00:00+00:00");
    assert_eq!(start(width(0, 14, 0), "2000-01-16T23:59:59Z"), "2000-01-03T00:00:00+00:00");
}

#[test]
fn windows_before_the_origin_and_before_1970() {
    assert_eq!(
        start(width(0, 0, HOUR_NS), "1969-12-31T23:59:59.999999Z"),
        "1969-12-31T23:00:00+00:00"
    );
    assert_eq!(start(width(0, 7, 0), "1999-12-31T00:00:00Z"), "1999-12-27T00:00:00+00:00");
    assert_eq!(start(width(1, 0, 0), "1969-02-28T12:00:00Z"), "1969-02-01T00:00:00+00:00");
}

#[test]
fn windows_of_months() {
    assert_eq!(start(width(1, 0, 0), "2024-02-29T23:59:59.999999Z"), "2024-02-01T00:00:00+00:00");
    assert_eq!(start(width(3, 0, 0), "2024-06-30T00:00:00Z"), "2024-04-01T00:00:00+00:00");
    assert_eq!(start(width(60, 0, 0), "2024-06-30T00:00:00Z"), "2020-01-01T00:00:00+00:00");
}

#[test]
fn origin_and_offset_move_the_windows() {
    let windows = Windows::new(width(0, 0, HOUR_NS), US).unwrap();
    let moved = windows.with_origin(us("2020-01-01T00:10:00Z")).unwrap();
    assert_eq!(moved.start(us("2020-05-05T05:05:00Z")).unwrap(), us("2020-05-05T04:10:00Z"));
    let moved = windows.with_offset(width(0, 0, -HOUR_NS / 4)).unwrap();
    assert_eq!(moved.start(us("2020-05-05T05:50:00Z")).unwrap(), us("2020-05-05T05:45:00Z"));
    let months = Windows::new(width(1, 0, 0), US).unwrap().with_offset(width(0, 14, 0)).unwrap();
    assert_eq!(months.start(us("2020-05-05T00:00:00Z")).unwrap(), us("2020-04-15T00:00:00Z"));
    assert_eq!(months.end(us("2020-05-05T00:00:00Z")).unwrap(), us("2020-05-15T00:00:00Z"));
}

#[test]
fn ends_follow_starts() {
    let month = Windows::new(width(1, 0, 0), US).unwrap();
    assert_eq!(month.end(us("2023-12-31T00:00:00Z")), Some(us("2024-01-01T00:00:00Z")));
    let minute = Windows::new(width(0, 0, 60_000_000_000), US).unwrap();
    assert_eq!(minute.end(-1), Some(0));
    assert_eq!(minute.end(0), Some(60 * SECOND));
    assert_eq!(minute.end(i64::MAX), None);
}

#[test]
fn widths_finer_than_the_stored_unit() {
    let half = Windows::new(width(0, 0, 1_500), US).unwrap();
    assert!(half.in_whole_units().is_none());
    assert_eq!(half.start(4).unwrap(), 3);
    assert_eq!(half.start(5).unwrap(), 4);
}

#[test]
fn bad_widths_are_refused() {
    for bad in [width(0, 0, 0), width(0, -1, 0), width(-1, 0, 0), width(1, 1, 0)] {
        let error = Windows::new(bad, US).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidParameterValue);
    }
    assert!(Windows::of_integers(0, 0).is_err());
}

#[test]
fn the_ends_of_the_range_overflow_instead_of_wrapping() {
    let day = Windows::new(width(0, 1, 0), US).unwrap();
    assert!(!day.in_whole_units().unwrap().covers(&[i64::MIN]));
    assert_eq!(day.start(i64::MIN).unwrap_err().kind(), ErrorKind::DatetimeOverflow);
    assert!(day.start(i64::MAX).is_ok());
}
