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

#[test]
fn groups_begin_at_round_times() {
    let scale = TickScale::starting_at(1_500_000_000_900_000_000, "100ms".parse().unwrap());
    let groups = Grouping::new(&scale, "1s".parse().unwrap());
    assert_eq!([-10, -9, 0, 1, 10, 11].map(|tick| groups.group_of(tick)), [-1, 0, 0, 1, 1, 2]);
    assert_eq!((groups.start(0), groups.start(1)), (-9, 1));
    let native = Grouping::new(&scale, scale.granularity());
    for tick in [i64::MIN, -1, 0, 7, i64::MAX] {
        assert_eq!(native.group_of(tick), tick);
        assert_eq!(native.start(i128::from(tick)), i128::from(tick));
    }
}

proptest! {
    #[test]
    fn a_group_is_the_tick_of_a_coarser_scale(time in any::<i64>(), base in -1_000_000_000_000_000_000i64..4_000_000_000_000_000_000, units in (0usize..7, 0usize..7), times in 1i64..1_000, tick in any::<i64>()) {
        let (coarse, fine) = (UNITS[units.0.min(units.1)].1, UNITS[units.0.max(units.1)].1);
        let fine = Granularity::from_ns(fine).unwrap();
        let coarse = Granularity::from_ns((coarse * times).min(Granularity::DAY_NS)).unwrap();
        let scale = TickScale::starting_at(base, fine);
        let groups = Grouping::new(&scale, coarse);
        if let Ok(tick) = scale.tick_of(time) {
            let coarse = TickScale::starting_at(base, coarse);
            prop_assert_eq!(groups.group_of(tick.0), coarse.tick_of(time).unwrap().0);
        }
        let group = i128::from(groups.group_of(tick));
        prop_assert!(groups.start(group) <= i128::from(tick));
        prop_assert!(i128::from(tick) < groups.start(group + 1));
    }

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
