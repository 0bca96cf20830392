use super::*;

fn of(months: i32, days: i32, nanoseconds: i64) -> IntervalMonthDayNano {
    IntervalMonthDayNano { months, days, nanoseconds }
}

fn ns(text: &str) -> i128 {
    let time = text.parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    i128::from(time.timestamp()) * i128::from(SECOND_NS)
}

#[test]
fn ages_as_postgresql_tells_them() {
    // select age('2001-04-10', '1957-06-13') → 43 years 9 mons 27 days
    assert_eq!(
        age_of(ns("2001-04-10T00:00:00Z"), ns("1957-06-13T00:00:00Z")),
        Some(of(43 * 12 + 9, 27, 0))
    );
    assert_eq!(
        age_of(ns("1957-06-13T00:00:00Z"), ns("2001-04-10T00:00:00Z")),
        Some(of(-(43 * 12 + 9), -27, 0))
    );
    // select age('2024-03-01 00:00', '2024-01-31 12:00') → 1 mon 12:00:00
    assert_eq!(
        age_of(ns("2024-03-01T00:00:00Z"), ns("2024-01-31T12:00:00Z")),
        Some(of(1, 0, DAY_NS / 2))
    );
    // select age('9999-01-01', '0001-01-01') → 9998 years
    assert_eq!(
        age_of(ns("9999-01-01T00:00:00Z"), ns("0001-01-01T00:00:00Z")),
        Some(of(9_998 * 12, 0, 0))
    );
}

#[test]
fn justified_intervals() {
    assert_eq!(justify_days(of(0, 35, 0)), Some(of(1, 5, 0)));
    assert_eq!(justify_hours(of(0, 0, 50 * DAY_NS / 24)), Some(of(0, 2, 2 * DAY_NS / 24)));
    // select justify_interval('1 mon -1 hour') → 29 days 23:00:00
    assert_eq!(justify_interval(of(1, 0, -DAY_NS / 24)), Some(of(0, 29, 23 * DAY_NS / 24)));
    assert_eq!(justify_days(of(i32::MAX, 60, 0)), None);
}
