use std::ops::Range;

use arrow::{
    array::{ArrayRef, AsArray, StringViewArray},
    datatypes::Int64Type,
};

use super::*;

fn rows(gsns: Range<i64>) -> (RecordBatch, Int64Array) {
    let gsns = Int64Array::from_iter_values(gsns);
    let column: ArrayRef = Arc::new(gsns.clone());
    (RecordBatch::try_from_iter([("gsn", column)]).unwrap(), gsns)
}

fn range(start: u64, end: u64) -> GsnRange {
    GsnRange::new(Gsn(start), Gsn(end))
}

/// The gsn's 1 to 8 in two batches; gsn 7 is damaged.
fn window() -> HistoryWindow {
    let damaged = Gap { gsns: range(7, 8), cause: GapCause::Damaged("torn".to_string()) };
    HistoryWindow {
        rows: vec![rows(1..6), rows(6..9)],
        damaged: vec![damaged],
        end: Gsn(9),
        ended: false,
    }
}

fn begin() -> Position {
    Position { next: Gsn(1), deleted: Gsn(0) }
}

/// The delivered updates as text: number of rows and first gsn of events, or the gap.
fn texts_of(pending_updates: &mut PendingUpdates) -> Vec<String> {
    std::iter::from_fn(|| pending_updates.next())
        .map(|update| match update {
            Update::Gap(gap) => gap.to_string(),
            Update::Events(rows) => {
                let first = rows.column(0).as_primitive::<Int64Type>().value(0);
                format!("{} from {first}", rows.num_rows())
            }
        })
        .collect()
}

#[test]
fn events_and_gaps_are_told_in_order_as_long_as_there_is_room() {
    let memory = Budget::new(1 << 20);
    let lost = vec![range(3, 5), range(9, 12)];
    let mut read = FollowerRead::new(window(), lost, begin(), 2, &memory);
    assert!(read.whole);
    assert_eq!((read.position.next, read.position.deleted), (Gsn(9), Gsn(11)));
    let used = memory.used();
    assert!(used >= 8 * 8, "{used}");
    assert!(matches!(read.pending_updates.next(), Some(Update::Events(_))));
    assert_eq!(memory.used(), used, "the buffers are still there");
    let rest = [
        "gsn [3, 5) deleted",
        "2 from 3",
        "1 from 5",
        "1 from 6",
        "gsn [7, 8) damaged: torn",
        "2 from 7",
        "gsn [9, 12) deleted",
    ];
    assert_eq!(texts_of(&mut read.pending_updates), rest);
    assert_eq!(memory.used(), 0);
}

#[test]
fn without_room_what_comes_first_is_kept_and_the_rest_is_read_again() {
    let memory = Budget::new(0);
    for (lost, kept, next, deleted) in [
        (vec![], vec!["2 from 1"], 3, 0),
        (vec![range(6, 7)], vec!["2 from 1"], 3, 0),
        (vec![range(3, 5)], vec!["2 from 1", "gsn [3, 5) deleted"], 3, 4),
        (vec![range(1, 5), range(6, 7)], vec!["gsn [1, 5) deleted", "2 from 1"], 3, 4),
    ] {
        let mut read = FollowerRead::new(window(), lost, begin(), 2, &memory);
        assert!(!read.whole);
        assert_eq!((read.position.next, read.position.deleted), (Gsn(next), Gsn(deleted)));
        assert!(memory.used() > 0, "it is counted all the same");
        assert_eq!(texts_of(&mut read.pending_updates), kept);
        assert_eq!(memory.used(), 0);
    }
    // The first batch with events is always kept, and also all gaps before the next batch.
    let mut read = FollowerRead::new(window(), vec![range(1, 5)], begin(), 100, &memory);
    assert_eq!((read.whole, read.position.next), (false, Gsn(6)));
    let begun = Position { next: Gsn(6), deleted: Gsn(4) };
    assert_eq!(texts_of(&mut read.pending_updates).len(), 2);
    let one = HistoryWindow { rows: vec![rows(6..9)], damaged: Vec::new(), ..window() };
    let mut read = FollowerRead::new(one, vec![range(1, 5)], begun, 100, &memory);
    assert_eq!((read.whole, read.position.next, read.position.deleted), (true, Gsn(9), Gsn(4)));
    assert_eq!(texts_of(&mut read.pending_updates), ["3 from 6"]);
}

#[test]
fn damage_is_told_as_far_as_is_told_of_events() {
    let memory = Budget::new(0);
    let damaged = Gap { gsns: range(4, 20), cause: GapCause::Damaged("torn".to_string()) };
    let rows = vec![rows(1..3), rows(6..9)];
    let window = HistoryWindow { rows, damaged: vec![damaged], end: Gsn(30), ended: true };
    let mut read = FollowerRead::new(window, Vec::new(), begin(), 10, &memory);
    assert_eq!((read.whole, read.position.next), (false, Gsn(6)));
    assert_eq!(texts_of(&mut read.pending_updates), ["2 from 1", "gsn [4, 6) damaged: torn"]);
}

#[test]
fn a_buffer_counts_once() {
    let text = "longer than a view holds by itself".repeat(1_000);
    let column: ArrayRef =
        Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(text, 10)));
    let rows = RecordBatch::try_from_iter([("text", column)]).unwrap();
    let slices = [rows.slice(0, 5), rows.slice(5, 5)];
    let bytes = bytes_of(slices.iter());
    assert_eq!(bytes, bytes_of([rows].iter()));
    assert!((340_000..2_000_000).contains(&bytes), "{bytes}");
}
