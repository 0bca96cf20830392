use super::*;

fn range(start: u64, end: u64) -> GsnRange {
    GsnRange::new(Gsn(start), Gsn(end))
}

#[test]
fn ranges_are_half_open() {
    assert!(range(3, 5).contains(Gsn(3)) && !range(3, 5).contains(Gsn(5)));
    assert_eq!(GsnRange::between(Gsn(3), Gsn(4)), range(3, 5));
    assert_eq!(GsnRange::at(Gsn(7)), range(7, 8));
    assert!(range(5, 5).is_empty() && range(6, 5).is_empty() && GsnRange::EMPTY.is_empty());
    assert!(GsnRange::ALL.is_all() && GsnRange::ALL.contains(Gsn(u64::MAX - 1)));
}

#[test]
fn an_empty_range_adds_and_overlaps_nothing() {
    let empty = range(9, 9);
    assert_eq!(empty.hull(&range(1, 2)), range(1, 2));
    assert_eq!(range(1, 2).hull(&empty), range(1, 2));
    assert_eq!(range(1, 2).hull(&range(5, 6)), range(1, 6));
    assert!(range(1, 2).covers(&empty) && !range(1, 20).overlaps(&empty));
    assert!(range(1, 6).overlaps(&range(5, 9)) && !range(1, 5).overlaps(&range(5, 9)));
    assert_eq!(range(1, 6).to_string(), "gsn [1, 6)");
    assert_eq!(range(1, u64::MAX).to_string(), "gsn [1, )");
}
