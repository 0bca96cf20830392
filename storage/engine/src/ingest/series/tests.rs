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
    for (tick, free) in [(0, 0), (1, 5), (3, 5), (4, 5), (5, 5), (7, 9), (8, 9), (9, 9)] {
        assert_eq!(table.next_free(id, tick), Some(free), "{tick}");
    }
    table.insert(id, Tick::MAX.0, 99);
    assert_eq!(table.next_free(id, Tick::MAX.0), None);
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
                let free = table.next_free(id, tick);
                let expected = (tick..).find(|tick| !model.contains_key(tick));
                assert_eq!(free, expected);
                if seq % 3 == 0 {
                    table.insert(id, free.unwrap(), seq);
                    model.insert(free.unwrap(), seq);
                }
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
        let occupied_ticks = &table.series(id).unwrap().occupied_ticks;
        assert_eq!(table.runs, occupied_ticks.len());
        assert!(occupied_ticks.iter().all(|(start, end)| start < end));
    }
    let entries: Vec<_> = table.series(id).unwrap().ascending(&TickRange::ALL).collect();
    assert_eq!(entries, model.into_iter().collect::<Vec<_>>());
}

#[test]
fn a_search_for_a_free_tick_does_not_walk_the_same_way_twice() {
    let mut table = SeriesTable::default();
    let id = table.intern(b"");
    table.insert(id, 1_000_000, 0);
    // Only the last tick is in order: all ticks of this loop are late.
    for seq in 1..200_000 {
        let free = table.next_free(id, 0).unwrap();
        assert_eq!(free, seq as i64 - 1);
        table.insert(id, free, seq);
    }
    assert_eq!(table.series(id).unwrap().occupied_ticks.len(), 1);
}

#[test]
fn series_without_events_are_given_back() {
    let mut table = SeriesTable::default();
    for number in 0..100_u64 {
        let id = table.intern(&number.to_le_bytes());
        table.insert(id, number as i64, number);
    }
    let full = table.bytes();
    table.trim(&range(0, 60), |_| false);
    table.drop_empty(|_| false);
    assert_eq!(table.len(), 40);
    assert_eq!(table.find(&1_u64.to_le_bytes()), None);
    for number in 60..100_u64 {
        let id = table.find(&number.to_le_bytes()).unwrap();
        assert_eq!(table.series(id).unwrap().find(number as i64), Some(number));
    }
    // The table reuses the freed series.
    for number in 0..60_u64 {
        let id = table.intern(&number.to_le_bytes());
        assert!(table.series(id).unwrap().is_empty());
        table.insert(id, number as i64, number);
    }
    assert_eq!(table.bytes(), full);
    table.trim(&TickRange::ALL, |_| false);
    table.drop_empty(|_| false);
    assert_eq!(table.bytes(), 0);
}
