use std::sync::Arc;

use arrow::{array::Int64Array, datatypes::DataType};
use stratalog_model::{ColumnId, SchemaVersion};

use super::*;
use crate::events::{
    batch::Run,
    budget::Budget,
    shape::{KeyColumns, Shape},
};

fn batch(ticks: &[i64]) -> MemoryBatch {
    let shape = Arc::new(Shape {
        version: SchemaVersion(1),
        columns: vec![ColumnId(1)],
        schema: crate::events::encode::schema_of(&[DataType::Int64]),
        tick_at: 0,
        tick_unit_ns: 1,
        keys: KeyColumns::default(),
    });
    let column = Column::Plain(Arc::new(Int64Array::from(ticks.to_vec())));
    let runs = vec![Run { row: 0, seq: 1, gsn: 1 }];
    MemoryBatch::new(
        shape,
        vec![column],
        ticks.to_vec().into(),
        runs,
        Budget::new(1).claim_anyway(0),
    )
}

fn ranges(ranges: &[(i64, i64)]) -> TickRanges {
    TickRanges::from_ranges(ranges.iter().map(|(a, b)| TickRange::new(Tick(*a), Tick(*b))))
}

fn criteria(ticks: &TickRanges, visible: u64, ordered: bool) -> Criteria<'_> {
    let gsns = GsnRange::ALL;
    Criteria { ticks, gsns, keys: vec![], fences: &[], visible: Gsn(visible), ordered }
}

#[test]
fn sorted_batches_are_cut_into_slices() {
    let batch = batch(&[1, 2, 2, 5, 9]);
    let wanted = ranges(&[(0, 2), (2, 3), (9, 20)]);
    let found = select(&batch, &criteria(&wanted, 99, true)).unwrap();
    assert_eq!(found, Selection::Slices(vec![0..3, 4..5]));
    let found = select(&batch, &criteria(&wanted, 4, true)).unwrap();
    assert_eq!(found, one_slice(3));
    assert_eq!(select(&batch, &criteria(&TickRanges::all(), 2, true)).unwrap().len(), 2);
}

#[test]
fn unsorted_batches_are_looked_through() {
    let batch = batch(&[5, 1, 9, 2]);
    let wanted = ranges(&[(0, 3), (5, 6)]);
    let found = select(&batch, &criteria(&wanted, 99, false)).unwrap();
    assert_eq!(found, Selection::Rows(vec![0, 1, 3]));
    let found = select(&batch, &criteria(&wanted, 99, true)).unwrap();
    assert_eq!(found, Selection::Rows(vec![1, 3, 0]));
    let found = select(&batch, &criteria(&TickRanges::all(), 99, false)).unwrap();
    assert_eq!(found, one_slice(4));
    let found = select(&batch, &criteria(&TickRanges::all(), 3, true)).unwrap();
    assert_eq!(found, Selection::Rows(vec![1, 0, 2]));
}

#[test]
fn marks_and_fences_hide_rows() {
    let batch = batch(&[1, 2, 3, 4]);
    batch.supersede(1, 10);
    let all = TickRanges::all();
    let before = select(&batch, &criteria(&all, 9, true)).unwrap();
    assert_eq!(before, one_slice(4));
    let after = select(&batch, &criteria(&all, 10, true)).unwrap();
    assert_eq!(after, Selection::Rows(vec![0, 2, 3]));
    // The fence was raised after two committed rows.
    let fences = [Fence { ticks: TickRange::new(Tick(0), Tick(4)), gsn: Gsn(2), raised: None }];
    let fenced = Criteria { fences: &fences, ..criteria(&all, 9, true) };
    assert_eq!(select(&batch, &fenced).unwrap(), Selection::Rows(vec![2, 3]));
}

#[test]
fn gsns_cut_what_is_seen() {
    let sorted = batch(&[1, 2, 2, 5, 9]);
    let mixed = batch(&[5, 1, 9, 2, 2]);
    let all = TickRanges::all();
    let cut = |gsns, ordered| Criteria { gsns, ..criteria(&all, 99, ordered) };
    let middle = GsnRange::new(Gsn(2), Gsn(4));
    let slice = Selection::Slices(std::iter::once(1..3).collect());
    assert_eq!(select(&sorted, &cut(middle, true)).unwrap(), slice);
    assert_eq!(select(&mixed, &cut(middle, false)).unwrap(), slice);
    assert_eq!(select(&mixed, &cut(middle, true)).unwrap(), Selection::Rows(vec![1, 2]));
    assert_eq!(select(&sorted, &cut(GsnRange::new(Gsn(7), Gsn(9)), true)).unwrap().len(), 0);
    let seen = Criteria { gsns: middle, ..criteria(&all, 2, true) };
    assert_eq!(select(&sorted, &seen).unwrap().len(), 1);
}

fn one_slice(end: usize) -> Selection {
    Selection::Slices(std::iter::once(0..end).collect())
}
