use super::*;

#[test]
fn a_number_is_new_once() {
    let mut seqs = Seqs::default();
    for number in [0, 1, 63, 64, 65_535, 65_536, 1 << 40, u64::MAX] {
        assert!(!seqs.insert(number), "{number}");
        assert!(seqs.insert(number), "{number}");
    }
    assert!(seqs.is_whole());
}

#[test]
fn memory_is_bounded_and_what_has_no_room_is_said() {
    let mut seqs = Seqs::default();
    for page in 0..=PAGES_MAX as u64 {
        assert!(!seqs.insert(page * PAGE));
    }
    assert!(!seqs.is_whole());
    // The set still has the numbers that found room; a number without room does not count as a
    // duplicate.
    assert!(seqs.insert(0));
    assert!(!seqs.insert(PAGES_MAX as u64 * PAGE));
}

#[test]
fn neighbours_are_one_range() {
    let mut ranges = Ranges::default();
    for (first, count) in [(5, 2), (7, 1), (10, 0), (10, 3), (2, 1)] {
        ranges.push(first, count);
    }
    assert_eq!(ranges.0.len(), 3);
    assert_eq!(ranges.numbers().collect::<Vec<_>>(), [5, 6, 7, 10, 11, 12, 2]);
}
