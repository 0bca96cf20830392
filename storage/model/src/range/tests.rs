use super::*;
use proptest::prelude::*;

fn ranges() -> impl Strategy<Value = TickRanges> {
    prop::collection::vec((-20i64..20, 0i64..8), 0..6).prop_map(|parts| {
        TickRanges::from_ranges(
            parts.into_iter().map(|(start, len)| TickRange::new(Tick(start), Tick(start + len))),
        )
    })
}

proptest! {
    /// The reference is a plain set of ticks.
    #[test]
    fn set_operations_agree_with_sets(a in ranges(), b in ranges()) {
        for tick in (-25..30).map(Tick) {
            prop_assert_eq!(a.union(&b).contains(tick), a.contains(tick) || b.contains(tick));
            prop_assert_eq!(a.intersect(&b).contains(tick), a.contains(tick) && b.contains(tick));
            prop_assert_eq!(a.difference(&b).contains(tick), a.contains(tick) && !b.contains(tick));
            prop_assert_eq!(a.complement().contains(tick), !a.contains(tick));
        }
        let union = a.union(&b);
        for pair in union.as_slice().windows(2) {
            prop_assert!(pair[0].end < pair[1].start, "disjoint and not adjacent");
        }
        prop_assert_eq!(a.complement().complement(), a);
    }
}

#[test]
fn the_whole_axis_has_an_empty_complement() {
    assert!(TickRanges::all().complement().is_empty());
    assert!(TickRanges::none().complement().is_all());
    assert_eq!(TickRanges::all().to_string(), "[-inf, +inf)");
}
