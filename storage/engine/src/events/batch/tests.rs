use arrow::{array::Int64Array, datatypes::DataType};
use stratalog_model::{ColumnId, SchemaVersion};

use super::*;
use crate::events::{budget::Budget, shape::KeyColumns};

fn batch(ticks: &[i64], runs: &[(u32, u64, u64)]) -> MemoryBatch {
    keyed(ticks, ticks, runs, KeyColumns::default(), &Budget::new(1))
}

/// A batch with a single column of `values`.
fn keyed(
    values: &[i64],
    ticks: &[i64],
    runs: &[(u32, u64, u64)],
    keys: KeyColumns,
    budget: &Arc<Budget>,
) -> MemoryBatch {
    let shape = Arc::new(Shape {
        version: SchemaVersion(1),
        columns: vec![ColumnId(1)],
        schema: crate::events::encode::schema_of(&[DataType::Int64]),
        tick_at: 0,
        tick_unit_ns: 1,
        keys,
    });
    let column = Column::Plain(Arc::new(Int64Array::from(values.to_vec())));
    let runs = runs.iter().map(|(row, seq, gsn)| Run { row: *row, seq: *seq, gsn: *gsn }).collect();
    let claim = budget.claim_anyway(0);
    MemoryBatch::new(shape, vec![column], ticks.to_vec().into(), runs, claim)
}

#[test]
fn numbers_of_rows() {
    let batch = batch(&[5, 6, 7, 1, 2], &[(0, 10, 100), (3, 4, 200)]);
    assert_eq!((batch.first_gsn(), batch.last_gsn()), (100, 201));
    assert_eq!(batch.seqs().collect::<Vec<_>>(), [10, 11, 12, 4, 5]);
    assert_eq!((0..5).map(|row| batch.gsn(row)).collect::<Vec<_>>(), [100, 101, 102, 200, 201]);
    assert_eq!(batch.seq(4), 5);
    for (gsn, row) in
        [(99, None), (100, Some(0)), (102, Some(2)), (103, None), (201, Some(4)), (202, None)]
    {
        assert_eq!(batch.row_of(gsn), row, "{gsn}");
    }
    for (gsn, rows) in [(0, 0), (99, 0), (100, 1), (102, 3), (150, 3), (200, 4), (201, 5), (999, 5)]
    {
        assert_eq!(batch.rows_through(gsn), rows, "{gsn}");
    }
}

#[test]
fn order_is_by_tick_then_seq() {
    assert!(batch(&[1, 1, 2], &[(0, 10, 1)]).ordered());
    assert!(!batch(&[1, 0, 2], &[(0, 10, 1)]).ordered());
    // The same tick, but the later row arrived first.
    let twisted = batch(&[1, 1, 2], &[(0, 10, 1), (1, 3, 2)]);
    assert!(!twisted.ordered());
    assert_eq!(twisted.permutation().as_ref(), [1, 0, 2]);
    // Later ticks may have any seq.
    assert!(batch(&[1, 2, 3], &[(0, 10, 1), (1, 3, 2)]).ordered());
}

#[test]
fn marks_count_by_gsn() {
    let batch = batch(&[1, 2, 3], &[(0, 1, 1)]);
    batch.supersede(2, 10);
    batch.supersede(0, 12);
    assert_eq!([9, 10, 11, 12].map(|gsn| batch.superseded_through(gsn)), [0, 1, 1, 2]);
}

#[test]
fn newest_rows_are_kept_and_counted() {
    let budget = Budget::new(1 << 20);
    let ticks = [5, 9, 2, 7, 9, 1];
    for (values, newest) in [
        // First case: each row is a series. Next cases: fewer series than rows.
        ([1, 2, 3, 4, 5, 6], vec![0, 1, 2, 3, 4, 5]),
        ([1, 1, 2, 2, 3, 3], vec![1, 3, 4]),
        ([7; 6], vec![1]),
    ] {
        let batch = keyed(&values, &ticks, &[(0, 1, 1)], KeyColumns::all(1), &budget);
        assert_eq!(budget.used(), 0);
        let kept = batch.newest().unwrap();
        assert_eq!(kept.rows.as_ref(), newest, "{values:?}");
        assert!(Arc::ptr_eq(&kept, &batch.newest().unwrap()), "found once");
        assert_eq!(budget.used(), 8 * newest.len() as u64);
        drop((kept, batch));
        assert_eq!(budget.used(), 0, "and given back");
    }
}
