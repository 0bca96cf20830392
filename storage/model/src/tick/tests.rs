use super::*;
use proptest::prelude::*;

#[test]
fn coarse_ticks_start_at_round_times() {
    let scale = TickScale::starting_at(1_500_000_000_123_456_789, "1s".parse().unwrap());
    assert_eq!(scale.base_ns(), 1_500_000_000_000_000_000);
    assert_eq!(scale.tick_of(1_500_000_000_999_999_999).unwrap(), Tick(0));
    assert_eq!(scale.tick_of(1_499_999_999_999_999_999).unwrap(), Tick(-1));
}

#[test]
fn a_distance_beyond_i64_is_an_error() {
    let scale = TickScale::starting_at(1_800_000_000_000_000_000, Granularity::NANOSECOND);
    let error = scale.tick_of(i64::MIN).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DatetimeOverflow);
    assert_eq!(scale.bound_at_or_after(i128::from(i64::MIN)), Tick::MIN);
}

#[test]
fn granularity_reads_what_it_prints() {
    for text in ["1ns", "100us", "10ms", "1s", "5min", "1h", "1d"] {
        assert_eq!(text.parse::<Granularity>().unwrap().to_string(), text);
    }
    for text in ["", "0s", "2d", "1", "-1s", "1 fortnight", "99999999999999999999ns"] {
        assert!(text.parse::<Granularity>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn a_tick_contains_its_time(time in any::<i64>(), base in -1_000_000_000_000_000_000i64..4_000_000_000_000_000_000, unit in 0usize..7) {
        let scale = TickScale::starting_at(base, Granularity::from_ns(UNITS[unit].1).unwrap());
        if let Ok(tick) = scale.tick_of(time) {
            let start = i128::from(scale.base_ns()) + i128::from(tick.0) * i128::from(UNITS[unit].1);
            prop_assert!(start <= i128::from(time));
            prop_assert!(i128::from(time) < start + i128::from(UNITS[unit].1));
            prop_assert!(scale.bound_at_or_after(i128::from(time)) >= tick);
            prop_assert!(scale.bound_at_or_after(start) == tick);
        }
    }
}
