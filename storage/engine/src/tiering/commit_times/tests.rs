use super::*;

#[test]
fn an_event_counts_as_committed_at_the_first_look_that_found_it() {
    let times = CommitTimes::default();
    assert_eq!((times.of(1, 77), times.until(i64::MAX)), (77, Gsn(0)));
    times.note(Gsn(90), || 1_000);
    times.note(Gsn(90), || panic!("nothing is new"));
    times.note(Gsn(140), || 2_000);
    times.note(Gsn(200), || 3_000);
    for (gsn, at_ns) in
        [(1, 1_000), (90, 1_000), (91, 2_000), (140, 2_000), (200, 3_000), (201, 9_999)]
    {
        assert_eq!(times.of(gsn, 9_999), at_ns, "{gsn}");
    }
    for (at_ns, gsn) in [(999, 0), (1_000, 90), (1_999, 90), (2_000, 140), (9_999, 200)] {
        assert_eq!(times.until(at_ns), Gsn(gsn), "{at_ns}");
    }
}

#[test]
fn samples_are_bounded_and_never_make_an_event_older() {
    let times = CommitTimes::default();
    for at in 1..=100_000_u64 {
        times.note(Gsn(at), || at as i64);
    }
    assert!(times.samples.lock().len() <= SAMPLES_MAX);
    for gsn in (1..=100_000_u64).step_by(997) {
        assert!(times.of(gsn, i64::MAX) >= gsn as i64, "{gsn}");
    }
    // The youngest events have exact samples.
    assert_eq!(times.of(99_990, i64::MAX), 99_990);
}
