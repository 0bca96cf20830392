use super::Precision;

#[test]
fn names_of_all_versions() {
    for (names, precision) in [
        (&["n", "ns", "nanosecond"][..], Precision::Nanosecond),
        (&["u", "us", "µs", "microsecond"], Precision::Microsecond),
        (&["ms", "millisecond"], Precision::Millisecond),
        (&["s", "second"], Precision::Second),
        (&["m", "minute"], Precision::Minute),
        (&["h", "hour"], Precision::Hour),
        (&["auto"], Precision::Auto),
    ] {
        for name in names {
            assert_eq!(name.parse::<Precision>().unwrap(), precision, "{name}");
        }
    }
    let error = "fortnight".parse::<Precision>().unwrap_err();
    assert_eq!(error.message(), "precision \"fortnight\" does not exist");
    assert!(error.hint().unwrap().contains("ms"));
}

#[test]
fn nanoseconds_of_each_unit() {
    for (precision, timestamp, ns) in [
        (Precision::Nanosecond, -7, Some(-7)),
        (Precision::Microsecond, 7, Some(7_000)),
        (Precision::Millisecond, 7, Some(7_000_000)),
        (Precision::Second, -7, Some(-7_000_000_000)),
        (Precision::Minute, 2, Some(120_000_000_000)),
        (Precision::Hour, 1, Some(3_600_000_000_000)),
        (Precision::Second, 9_223_372_037, None),
        (Precision::Hour, i64::MIN, None),
        (Precision::Nanosecond, i64::MIN, Some(i64::MIN)),
    ] {
        assert_eq!(precision.to_ns(timestamp), ns, "{precision:?} {timestamp}");
    }
}

#[test]
fn auto_goes_by_magnitude() {
    let now_s = 1_700_000_000_i64;
    for factor in [1, 1_000, 1_000_000, 1_000_000_000] {
        let ns = Some(now_s * 1_000_000_000);
        assert_eq!(Precision::Auto.to_ns(now_s * factor), ns);
        assert_eq!(Precision::Auto.to_ns(-now_s * factor), ns.map(|ns| -ns));
    }
    assert_eq!(Precision::Auto.to_ns(i64::MIN), Some(i64::MIN));
}
