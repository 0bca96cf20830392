use super::*;

fn range(first: u64, last: u64) -> GsnRange {
    GsnRange::between(Gsn(first), Gsn(last))
}

#[test]
fn ranges_are_joined_where_they_meet() {
    let lost = LostPositions::default().with(range(5, 9)).with(range(20, 30)).with(range(10, 12));
    assert_eq!(lost.0, [(Gsn(5), Gsn(12)), (Gsn(20), Gsn(30))]);
    assert_eq!(lost.with(GsnRange::EMPTY), lost);
    assert_eq!(lost.within(GsnRange::ALL).count(), 2);
    assert_eq!(lost.within(range(13, 19)).count(), 0);
    assert_eq!(lost.within(range(12, 12)).next(), Some(range(5, 12)));
    assert_eq!(lost.with(range(1, 40)).0, [(Gsn(1), Gsn(40))]);
}

#[test]
fn there_are_never_many() {
    let mut lost = LostPositions::default();
    for at in 0..1_000_u64 {
        lost = lost.with(range(at * 10, at * 10 + at % 7));
    }
    assert_eq!(lost.0.len(), RANGES_MAX);
    for at in 0..1_000_u64 {
        assert!(lost.within(range(at * 10, at * 10)).next().is_some(), "{at} is forgotten");
    }
}
