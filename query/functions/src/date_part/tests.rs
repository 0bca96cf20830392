use arrow::datatypes::IntervalMonthDayNano;
use stratalog_text::{
    TimeZone,
    calendar::{Civil, days_of},
};

use super::part::{DAY_NS, Instant, Kind, Part, SECOND_NS};

fn moment(year: i64, month: u32, day: u32) -> Instant {
    Instant::Moment(days_of(Civil { year, month, day }), 0)
}

fn part_of(name: &str, instant: Instant, kind: Kind) -> i128 {
    Part::named(name, kind).unwrap().of(instant, kind, &TimeZone::UTC)
}

#[test]
fn years_and_their_multiples_count_as_in_postgresql() {
    for (name, year, wanted) in [
        ("century", 2000, 20),
        ("century", 2001, 21),
        ("century", 1, 1),
        ("century", 0, -1),
        ("CENTURY", -43, -1),
        ("decade", 2024, 202),
        ("decade", -10, -1),
        ("decade", -11, -2),
        ("millennium", 2000, 2),
        ("millennium", 2001, 3),
        ("year", -43, -44),
        ("year", 0, -1),
    ] {
        assert_eq!(part_of(name, moment(year, 12, 31), Kind::Timestamp), wanted, "{name} {year}");
    }
}

#[test]
fn weeks_belong_to_the_year_of_their_thursday() {
    for (year, month, day, iso, week, weekday) in [
        (2006, 1, 1, 2005, 52, 7),
        (2021, 1, 1, 2020, 53, 5),
        (2024, 12, 30, 2025, 1, 1),
        (1970, 1, 1, 1970, 1, 4),
    ] {
        let day = moment(year, month, day);
        assert_eq!(part_of("isoyear", day, Kind::Date), iso);
        assert_eq!(part_of("week", day, Kind::Date), week);
        assert_eq!(part_of("isodow", day, Kind::Date), weekday);
        assert_eq!(part_of("dow", day, Kind::Date), weekday % 7);
    }
}

#[test]
fn intervals_have_the_signs_of_their_fields() {
    let months = |months| Instant::Length(IntervalMonthDayNano::new(months, 0, 0));
    assert_eq!(part_of("year", months(-14), Kind::Interval), -1);
    assert_eq!(part_of("month", months(-14), Kind::Interval), -2);
    assert_eq!(part_of("quarter", months(14), Kind::Interval), 1);
    assert_eq!(part_of("epoch", months(12), Kind::Interval), 31_557_600_000_000);
    let mixed = IntervalMonthDayNano::new(-11, 1, 500_000_000);
    assert_eq!(part_of("epoch", Instant::Length(mixed), Kind::Interval), -28_425_599_500_000);
    let time = Instant::Length(IntervalMonthDayNano::new(0, 0, -90_001_500_000_000));
    assert_eq!(part_of("hour", time, Kind::Interval), -25);
    assert_eq!(part_of("second", time, Kind::Interval), -1_500_000);
}

#[test]
fn seconds_keep_six_digits() {
    let time = Instant::Moment(-1, DAY_NS - SECOND_NS / 2);
    assert_eq!(part_of("second", time, Kind::Timestamp), 59_500_000);
    assert_eq!(part_of("milliseconds", time, Kind::Timestamp), 59_500_000);
    assert_eq!(part_of("nanoseconds", time, Kind::Timestamp), 59_500_000_000);
    assert_eq!(part_of("epoch", time, Kind::Timestamp), -500_000);
    assert_eq!(part_of("epoch", moment(2024, 1, 1), Kind::Date), 1_704_067_200);
    let noon = Instant::Moment(0, DAY_NS / 2);
    assert_eq!(part_of("julian", noon, Kind::Timestamp), 244_058_850_000_000_000_000_000_000);
    assert_eq!(part_of("julian", moment(1970, 1, 1), Kind::Date), 2_440_588);
}

#[test]
fn parts_that_a_type_lacks_are_refused() {
    for (name, kind, message) in [
        ("hour", Kind::Date, "unit \"hour\" not supported for type date"),
        ("week", Kind::Interval, "unit \"week\" not supported for type interval"),
        ("day", Kind::Time, "unit \"day\" not supported for type time without time zone"),
        (
            "timezone",
            Kind::Timestamp,
            "unit \"timezone\" not supported for type timestamp without time zone",
        ),
        (
            "foo",
            Kind::Timestamp,
            "unit \"foo\" not recognized for type timestamp without time zone",
        ),
    ] {
        let error = Part::named(name, kind).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}
