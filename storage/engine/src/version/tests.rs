use arrow::{array::Int64Array, datatypes::DataType};
use stratalog_model::{ColumnId, SchemaVersion};

use super::*;
use stratalog_model::GsnRange;

use crate::events::{
    batch::Run,
    budget::Budget,
    column::Column,
    shape::{KeyColumns, Shape},
};

fn batch(ticks: &[i64], gsn: u64) -> Arc<MemoryBatch> {
    let shape = Arc::new(Shape {
        version: SchemaVersion(1),
        columns: vec![ColumnId(1)],
        schema: crate::events::encode::schema_of(&[DataType::Int64]),
        tick_at: 0,
        tick_unit_ns: 1,
        keys: KeyColumns::default(),
    });
    let column = Column::Plain(Arc::new(Int64Array::from(ticks.to_vec())));
    let claim = Budget::new(1).claim_anyway(100);
    let runs = vec![Run { row: 0, seq: gsn, gsn }];
    Arc::new(MemoryBatch::new(shape, vec![column], ticks.to_vec().into(), runs, claim))
}

fn range(start: i64, end: i64) -> TickRange {
    TickRange::new(Tick(start), Tick(end))
}

#[test]
fn a_gsn_is_found_in_sealed_and_tail() {
    let mut version = Version::default();
    for n in 0..1000_u64 {
        version = version.with_batch(batch(&[n as i64; 3], 1 + n * 5), 2048);
    }
    assert!(version.tail().len() <= TAIL_BATCHES_MAX);
    assert_eq!(version.batches().count(), 1000);
    for n in 0..1000_u64 {
        assert_eq!(version.batch_of(3 + n * 5).unwrap().first_gsn(), 1 + n * 5);
        assert!(version.batch_of(4 + n * 5).is_none());
    }
    assert!(version.batch_of(0).is_none());
}

#[test]
fn extents_are_exact() {
    let batches = [batch(&[1, 2, 3], 1), batch(&[10, -5, 2], 4)];
    batches[0].supersede(1, 6);
    let version = batches.iter().fold(Version::default(), |v, b| v.with_batch(Arc::clone(b), 9));
    let rows = |ranges: TickRange, gsn| {
        let extent = version.extent(&ranges.into(), Gsn(gsn));
        (extent.rows, extent.ticks)
    };
    assert_eq!(rows(TickRange::ALL, 0).0, 0);
    assert_eq!(rows(TickRange::ALL, 3), (3, range(1, 4)));
    assert_eq!(rows(TickRange::ALL, 5), (5, range(-5, 11)));
    assert_eq!(rows(TickRange::ALL, 6), (5, range(-5, 11)));
    assert_eq!(rows(range(2, 11), 6), (3, range(2, 11)));

    let fenced = version.with_fence(
        Fence { ticks: range(i64::MIN, 3), gsn: Gsn(6), raised: None },
        GsnRange::EMPTY,
        0,
    );
    assert_eq!(fenced.extent(&TickRanges::all(), Gsn(6)).rows, 2);
    assert_eq!(fenced.extent(&TickRanges::all(), Gsn(6)).ticks, range(3, 11));
    assert_eq!(fenced.epoch(), 1);
    // The version before is untouched.
    assert_eq!(rows(TickRange::ALL, 6).0, 5);
    // Events committed after the fence count.
    let later = fenced.with_batch(batch(&[1], 7), 9);
    assert_eq!(later.extent(&TickRanges::all(), Gsn(7)).ticks, range(1, 11));
}

#[test]
fn a_delete_of_everything_leaves_nothing() {
    let version = Version::default().with_batch(batch(&[1, 2], 1), 9).with_batch(batch(&[3], 3), 9);
    let empty = version.with_fence(
        Fence { ticks: TickRange::ALL, gsn: Gsn(3), raised: None },
        GsnRange::EMPTY,
        0,
    );
    assert_eq!(empty.batches().count(), 0);
    assert!(empty.fences().is_empty());
}

/// The fence stays for batches that are moving into pieces: without the fence, these pieces would
/// show deleted events.
#[test]
fn batches_that_are_leaving_keep_the_fence_that_hides_them() {
    let version = Version::default().with_batch(batch(&[1, 2], 1), 9).with_batch(batch(&[3], 3), 9);
    let hidden = version.with_fence(
        Fence { ticks: TickRange::ALL, gsn: Gsn(3), raised: None },
        GsnRange::EMPTY,
        2,
    );
    assert_eq!((hidden.batches().count(), hidden.fences().len()), (1, 1));
    assert_eq!(hidden.extent(&TickRanges::all(), Gsn(3)).rows, 0);
    let gone = version.with_fence(
        Fence { ticks: TickRange::ALL, gsn: Gsn(3), raised: None },
        GsnRange::EMPTY,
        0,
    );
    assert_eq!((gone.batches().count(), gone.fences().len()), (0, 0));
}

#[test]
fn a_later_delete_takes_the_place_of_those_it_covers() {
    let version = Version::default().with_batch(batch(&[1, 5, 9, 900], 1), 9);
    let prefix = |version: &Version, end, gsn| {
        version.with_fence(
            Fence { ticks: range(i64::MIN, end), gsn: Gsn(gsn), raised: None },
            GsnRange::EMPTY,
            0,
        )
    };
    let many = (2..800).fold(version, |version, end| prefix(&version, end, 4 + end as u64));
    assert_eq!(many.fences().len(), 1);
    assert_eq!(many.extent(&TickRanges::all(), Gsn(2000)).rows, 1);
    // A smaller fence hides later events.
    let later = prefix(&many.with_batch(batch(&[2], 2000), 9), 3, 2000);
    assert_eq!(later.fences().len(), 2);
    assert_eq!(later.extent(&TickRanges::all(), Gsn(2000)).rows, 1);
}

#[test]
fn merging_replaces_neighbours_only() {
    let [a, b, c] = [batch(&[1], 1), batch(&[2], 2), batch(&[3], 3)];
    let version =
        [&a, &b, &c].iter().fold(Version::default(), |v, x| v.with_batch(Arc::clone(x), 9));
    let merged = batch(&[1, 2], 1);
    let next = version.with_merged(&[Arc::clone(&a), Arc::clone(&b)], Some(merged)).unwrap();
    assert_eq!(next.batches().count(), 2);
    assert!(version.with_merged(&[Arc::clone(&a), Arc::clone(&c)], None).is_none());
    assert!(next.with_merged(&[a], None).is_none());
}

#[test]
fn extents_agree_with_counting_one_by_one() {
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    for round in 0..300 {
        let mut ticks: Vec<i64> = (0..random(40) + 1).map(|_| random(50) as i64 - 25).collect();
        if round % 2 == 0 {
            ticks.sort_unstable();
        }
        let only = batch(&ticks, 1);
        let mut gone = Vec::new();
        for row in 0..ticks.len() {
            if random(5) == 0 {
                only.supersede(row, 50);
                gone.push(row);
            }
        }
        let mut version = Version::default().with_batch(Arc::clone(&only), 9);
        let fence = range(-30, random(50) as i64 - 30);
        if round % 3 == 0 {
            version = Version {
                fences: Arc::new(vec![Fence { ticks: fence, gsn: Gsn(9), raised: None }]),
                ..version
            };
        }
        let visible = [3, 10, 49, 60][random(4) as usize];
        let wanted = TickRanges::from_ranges((0..2).map(|_| {
            let start = random(50) as i64 - 25;
            range(start, start + random(12) as i64)
        }));
        let seen = |row: usize, tick: i64| {
            let gsn = 1 + row as u64;
            gsn <= visible
                && wanted.contains(Tick(tick))
                && !(round % 3 == 0 && gsn <= 9 && fence.contains(Tick(tick)))
        };
        let rows: Vec<usize> = (0..ticks.len()).filter(|row| seen(*row, ticks[*row])).collect();
        let replaced = rows.iter().filter(|row| visible >= 50 && gone.contains(row)).count();
        let extent = version.extent(&wanted, Gsn(visible));
        assert_eq!(extent.rows as usize, rows.len() - replaced, "{ticks:?} {wanted:?} {visible}");
        if rows.len() > replaced {
            let hull = crate::events::batch::hull_of(
                &rows.iter().map(|row| ticks[*row]).collect::<Vec<_>>(),
            );
            assert_eq!(extent.ticks, hull);
        }
    }
}
