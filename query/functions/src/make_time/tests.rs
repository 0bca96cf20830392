use super::*;

fn micros(date: [i64; 3], time: [i64; 2], seconds: f64) -> Result<i64, String> {
    let ([year, month, day], [hour, minute]) = (date, time);
    let parts = TimeParts { year, month, day, hour, minute, seconds };
    parts.micros().map_err(|error| error.message().to_string())
}

#[test]
fn parts_make_a_time() {
    assert_eq!(micros([1970, 1, 1], [0, 0], 0.0), Ok(0));
    assert_eq!(micros([1970, 1, 2], [1, 2], 3.5), Ok(DAY_US + 3_723_500_000));
    assert_eq!(micros([1970, 1, 1], [24, 0], 0.0), Ok(DAY_US));
    assert_eq!(micros([1970, 1, 1], [0, 0], 59.999_999_9), Ok(60 * SECOND_US));
    assert_eq!(micros([-1, 12, 31], [24, 0], 0.0), micros([1, 1, 1], [0, 0], 0.0));
}

#[test]
fn parts_out_of_range_are_told() {
    for (date, time, seconds, message) in [
        ([2023, 2, 29], [0, 0], 0.0, "date field value out of range: 2023-02-29"),
        ([0, 2, 2], [0, 0], 0.0, "date field value out of range: 0-02-02"),
        ([2023, -1, 2], [0, 0], 0.0, "date field value out of range: 2023--1-02"),
        ([2023, 2, 2], [25, 0], 0.0, "time field value out of range: 25:00:00"),
        ([2023, 2, 2], [5, 60], 1.0, "time field value out of range: 5:60:01"),
        ([2023, 2, 2], [24, 0], 1.0, "time field value out of range: 24:00:01"),
        ([2023, 2, 2], [5, 0], 61.5, "time field value out of range: 5:00:61.5"),
        ([2023, 2, 2], [5, 0], f64::NAN, "time field value out of range: 5:00:NaN"),
        ([999_999, 2, 2], [5, 0], 1.0, "timestamp out of range: 999999-02-02 5:00:01"),
        ([5_874_898, 2, 2], [5, 0], 1.0, "date out of range: 5874898-02-02"),
        ([i64::MIN, 2, 2], [5, 0], 1.0, "date out of range: -9223372036854775808-02-02"),
    ] {
        assert_eq!(micros(date, time, seconds), Err(message.to_string()));
    }
}

#[test]
fn an_offset_with_a_sign_lies_east() {
    for (name, east) in
        [("+02", 7_200), ("-05:30", -19_800), ("+0530", 19_800), ("+5:30:15", 19_815), ("UTC", 0)]
    {
        assert_eq!(zone_argument(name).unwrap().offset_of_local(0), east, "{name}");
    }
    for name in ["05", "+99", "+1x", "+", "Nowhere"] {
        assert!(zone_argument(name).is_err(), "{name}");
    }
}
