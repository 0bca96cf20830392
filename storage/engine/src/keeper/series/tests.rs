use std::collections::BTreeMap;

use stratalog_model::Tick;

use super::*;

fn range(start: i64, end: i64) -> TickRange {
    TickRange::new(Tick(start), Tick(end))
}

#[test]
fn late_and_ordered_entries_are_one_sequence() {
    let mut table = SeriesTable::default();
    let id = table.intern(b"a");
    assert_eq!(table.intern(b"a"), id);
    assert_ne!(table.intern(b"b"), id);
    for (seq, tick) in [10, 20, 5, 30, -7, 15].into_iter().enumerate() {
        table.insert(id, tick, seq as u64);
    }
    let series = table.series(id).unwrap();
    let up: Vec<_> = series.ascending(&range(-7, 30)).map(|entry| entry.0).collect();
    assert_eq!(up, [-7, 5, 10, 15, 20]);
    let down: Vec<_> = series.descending(&TickRange::ALL).map(|entry| entry.0).collect();
    assert_eq!(down, [30, 20, 15, 10, 5, -7]);
    assert_eq!((series.find(5), series.find(20), series.find(6)), (Some(2), Some(1), None));
    assert_eq!(table.len(), 1);
}

#[test]
fn next_free_skips_what_is_taken() {
    let mut table = SeriesTable::default();
    let id = table.intern(b"");
    for (seq, tick) in [1, 2, 3, 7, 4, 8].into_iter().enumerate() {
        table.insert(id, tick, seq as u64);
    }
    let series = table.series(id).unwrap();
    for (tick, free) in [(0, 0), (1, 5), (3, 5), (4, 5), (5, 5), (7, 9), (8, 9), (9, 9)] {
        assert_eq!(series.next_free(tick), Some(free), "{tick}");
    }
    table.insert(id, Tick::MAX.0, 99);
    assert_eq!(table.series(id).unwrap().next_free(Tick::MAX.0), None);
}

#[test]
fn random_operations_agree_with_a_map() {
    let mut state = 42_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut table = SeriesTable::default();
    let id = table.intern(b"x");
    let mut model: BTreeMap<i64, u64> = BTreeMap::new();
    for seq in 0..20_000_u64 {
        let tick = random(300) as i64 - 150;
        match random(10) {
            0 => {
                let (start, end) = (seq.saturating_sub(20), seq.saturating_sub(5));
                table.remove_from(id, tick, start, end);
                model.retain(|t, s| *t < tick || !(start..end).contains(s));
            }
            1 => {
                let gone = range(-150, tick.min(-100));
                table.trim(&gone, |seq| seq.is_multiple_of(2));
                model.retain(|t, s| !gone.contains(Tick(*t)) || s.is_multiple_of(2));
            }
            2 => {
                let free = table.series(id).unwrap().next_free(tick);
                let expected = (tick..).find(|tick| !model.contains_key(tick));
                assert_eq!(free, expected);
            }
            _ => match model.get(&tick).copied() {
                Some(old) => {
                    assert_eq!(table.series(id).unwrap().find(tick), Some(old));
                    table.replace(id, tick, old, seq, Some(seq));
                    model.insert(tick, seq);
                }
                None => {
                    assert_eq!(table.series(id).unwrap().find(tick), None);
                    table.insert(id, tick, seq);
                    model.insert(tick, seq);
                }
            },
        }
        assert_eq!(table.entries, model.len());
    }
    let entries: Vec<_> = table.series(id).unwrap().ascending(&TickRange::ALL).collect();
    assert_eq!(entries, model.into_iter().collect::<Vec<_>>());
}
