use super::*;

const SECOND: i64 = 1_000_000_000;

fn horizon() -> Horizon {
    Horizon { first: Tick(0), opened: Tick(0), widest_ns: [0; 2], period_began_ns: 0 }
}

fn window(now_ns: i64, back_ns: i64) -> Window {
    Window { now_ns, back_ns: back_ns as u64, from: Tick::MIN, until: Tick::MAX }
}

#[test]
fn a_wide_window_counts_for_a_while_and_then_no_more() {
    let mut horizon = horizon();
    horizon.note(&window(SECOND, 5 * SECOND));
    horizon.note(&window(2 * SECOND, SECOND));
    let widest = |horizon: &Horizon| horizon.widest_ns.into_iter().max().unwrap();
    for (now_ns, expected) in [
        (3 * SECOND, 5 * SECOND),
        (REMEMBERED_NS + SECOND, 5 * SECOND),
        // The result does not depend on the time of the previous call.
        (2 * REMEMBERED_NS - 1, 5 * SECOND),
        (2 * REMEMBERED_NS, 0),
    ] {
        horizon.age(now_ns);
        assert_eq!(widest(&horizon), expected as u64, "{now_ns}");
    }
    horizon.note(&window(2 * REMEMBERED_NS + 3 * SECOND, SECOND));
    assert_eq!(widest(&horizon), SECOND as u64);
    horizon.age(1_000 * SECOND);
    assert_eq!(widest(&horizon), 0);
    // A period keeps its length, even if no call comes at its end.
    horizon.note(&window(34 * REMEMBERED_NS + SECOND, 5 * SECOND));
    horizon.age(36 * REMEMBERED_NS - SECOND);
    assert_eq!(widest(&horizon), 5 * SECOND as u64);
    horizon.age(36 * REMEMBERED_NS);
    assert_eq!(widest(&horizon), 0);
}
