use super::*;
use crate::Granularity;

const MS: i64 = 1_000_000;

fn at(now_ns: i64) -> ClockReading {
    ClockReading { now_ns, uncertainty_ns: 3, ..ClockReading::default() }
}

#[test]
fn the_window_is_twice_the_latency_and_at_least_the_floor_and_what_is_uncertain() {
    let scale = TickScale::starting_at(0, Granularity::NANOSECOND);
    let now = at(100_000 * MS);
    for (floor_ms, round_trip_ms, back_ns) in [
        (1_000, 0, 1_000 * MS + 3),
        (20_u64, 0, 20 * MS + 3),
        (20_u64, 19, 20 * MS + 3),
        (50_u64, 350, 350 * MS),
        // A client may state any latency: the table's floor limits it, and a minute limits all.
        (20_u64, 350, 200 * MS),
        (20_u64, 3_600_000, 200 * MS),
        (1_000, 3_600_000, 10_000 * MS),
        (30_000, 3_600_000, 60_000 * MS),
    ] {
        let floor_ns = floor_ms * 1_000_000;
        let session =
            Acceptance { round_trip_ns: round_trip_ms * 1_000_000, since_ns: 0, restores: false };
        let window = Window::of(&scale, floor_ns, &session, &now);
        assert_eq!(window.back_ns, back_ns as u64);
        assert_eq!(window.from, Tick(now.now_ns - back_ns));
        assert_eq!(window.until, Tick(now.now_ns + floor_ns as i64 + 3));
    }
}

#[test]
fn nothing_is_accepted_from_before_the_session() {
    let scale = TickScale::starting_at(0, "1s".parse().unwrap());
    let since = |since_ns| {
        let session = Acceptance { since_ns, round_trip_ns: 0, restores: false };
        Window::of(&scale, 1_000 * MS as u64, &session, &at(10_500 * MS)).from
    };
    assert_eq!(since(i64::MIN), Tick(9));
    // A tick is accepted completely if the session begins in the middle of the tick.
    assert_eq!(since(10_200 * MS), Tick(10));
}

#[test]
fn times_without_a_tick_are_those_at_the_ends() {
    let scale = TickScale::starting_at(i64::MAX - 5, Granularity::NANOSECOND);
    assert_eq!(tick_at(&scale, i64::MAX), Tick(5));
    assert_eq!(tick_at(&scale, i64::MIN), Tick::MIN);
    let scale = TickScale::starting_at(i64::MIN + 5, Granularity::NANOSECOND);
    assert_eq!(tick_at(&scale, i64::MAX), Tick::MAX);
}
