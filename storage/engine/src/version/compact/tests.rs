use arrow::{
    array::{Array, AsArray, Int64Array, StringViewArray},
    datatypes::DataType,
};
use stratalog_model::{ColumnId, Gsn, SchemaVersion, Tick, TickRange};

use super::*;
use crate::events::shape::{KeyColumns, Shape};

fn settings(fan_in: usize, rows_max: usize) -> EngineSettings {
    EngineSettings {
        compaction_fan_in: fan_in,
        compaction_rows_max: rows_max,
        ..Default::default()
    }
}

#[test]
fn small_neighbours_are_chosen_by_class() {
    let settings = settings(4, 100);
    assert_eq!(choose(&[1, 1, 1], &settings), None);
    assert_eq!(choose(&[1, 1, 1, 1], &settings), Some(0..4));
    assert_eq!(choose(&[200, 1, 2, 3, 1, 1], &settings), Some(1..6));
    assert_eq!(choose(&[1, 1, 200, 1, 1], &settings), None);
    // The lower size class has too few batches: the class above is chosen.
    assert_eq!(choose(&[10, 9, 8, 5, 1], &settings), Some(0..5));
    // A merge must lift the batches into the next size class.
    assert_eq!(choose(&[4, 4, 4, 1], &settings), None);
    assert_eq!(choose(&[100, 100, 100, 100], &settings), None);
}

#[test]
fn every_row_is_copied_once_per_class() {
    let settings = settings(4, 64);
    let mut rows: Vec<usize> = Vec::new();
    let mut copied = 0;
    for single in std::iter::repeat_n(1, 10_000) {
        rows.push(single);
        while let Some(range) = choose(&rows, &settings) {
            let sum: usize = rows.get(range.clone()).unwrap().iter().sum();
            copied += sum;
            rows.splice(range, [sum]);
        }
    }
    assert_eq!(rows.iter().sum::<usize>(), 10_000);
    assert!(copied <= 10_000 * 4, "{copied}");
    assert!(rows.len() < 10_000 / 64 + 40, "{}", rows.len());
}

fn part(budget: &Arc<Budget>, ticks: &[i64], seq: u64, gsn: u64) -> Arc<MemoryBatch> {
    let shape = Arc::new(Shape {
        version: SchemaVersion(1),
        columns: vec![ColumnId(1), ColumnId(2)],
        schema: crate::events::encode::schema_of(&[DataType::Int64, DataType::Utf8View]),
        tick_at: 0,
        tick_unit_ns: 1,
        keys: KeyColumns::default(),
    });
    let numbers = Column::Plain(Arc::new(Int64Array::from(ticks.to_vec())));
    let text: StringViewArray =
        ticks.iter().map(|tick| Some(format!("text of the tick {tick}"))).collect();
    let text = Column::Plain(Arc::new(text));
    let runs = vec![Run { row: 0, seq, gsn }];
    Arc::new(MemoryBatch::new(
        shape,
        vec![numbers, text],
        ticks.to_vec().into(),
        runs,
        budget.claim_anyway(64),
    ))
}

#[test]
fn merging_keeps_numbers_and_marks() {
    let budget = Budget::new(1 << 20);
    let parts = vec![
        part(&budget, &[10, 20], 1, 1),
        part(&budget, &[15], 3, 3),
        part(&budget, &[5, 6], 9, 20),
    ];
    parts[1].supersede(0, 20);
    let merged = merge(&parts, &[], Gsn(0), &budget).unwrap().unwrap();
    assert_eq!(merged.runs(), [Run { row: 0, seq: 1, gsn: 1 }, Run { row: 3, seq: 9, gsn: 20 }]);
    assert_eq!(merged.ticks().as_ref(), [10, 20, 15, 5, 6]);
    assert_eq!(marks_of(&parts, &merged), [SupersededRow { row: 2, gsn: 20 }]);
    let text = merged.columns()[1].slice(0, 5).unwrap();
    assert_eq!(text.as_string_view().value(4), "text of the tick 6");
    assert_eq!(text.null_count(), 0);
}

#[test]
fn replaced_rows_are_left_out_once_all_snapshots_see_their_successors() {
    let budget = Budget::new(1 << 20);
    let parts = vec![part(&budget, &[10, 20, 30], 1, 1), part(&budget, &[40], 4, 4)];
    parts[0].supersede(1, 7);
    parts[1].supersede(0, 8);
    let merged = merge(&parts, &[], Gsn(7), &budget).unwrap().unwrap();
    assert_eq!(merged.ticks().as_ref(), [10, 30, 40]);
    assert_eq!(merged.runs(), [Run { row: 0, seq: 1, gsn: 1 }, Run { row: 1, seq: 3, gsn: 3 }]);
    assert_eq!((merged.row_of(2), merged.row_of(3), merged.row_of(4)), (None, Some(1), Some(2)));
    assert_eq!(marks_of(&parts, &merged), [SupersededRow { row: 2, gsn: 8 }]);
    assert!(merge(&parts[1..], &[], Gsn(8), &budget).unwrap().is_none());
}

#[test]
fn deleted_ticks_are_left_out() {
    let budget = Budget::new(1 << 20);
    let parts = vec![part(&budget, &[10, 20, 30, 11], 1, 1), part(&budget, &[1, 2], 5, 5)];
    parts[0].supersede(1, 99);
    parts[0].supersede(3, 100);
    let fence = |end: i64, gsn: u64| Fence {
        ticks: TickRange::new(Tick(0), Tick(end)),
        gsn: Gsn(gsn),
        raised: None,
    };
    let merged = merge(&parts, &[fence(11, 6)], Gsn(0), &budget).unwrap().unwrap();
    assert_eq!(merged.ticks().as_ref(), [20, 30, 11]);
    assert_eq!(merged.runs(), [Run { row: 0, seq: 2, gsn: 2 }]);
    assert_eq!(
        marks_of(&parts, &merged),
        [SupersededRow { row: 0, gsn: 99 }, SupersededRow { row: 2, gsn: 100 }]
    );
    assert!(merge(&parts, &[fence(100, 6)], Gsn(0), &budget).unwrap().is_none());
    // Rows committed after the fence stay.
    let merged = merge(&parts, &[fence(100, 4)], Gsn(0), &budget).unwrap().unwrap();
    assert_eq!(merged.ticks().as_ref(), [1, 2]);
}

#[test]
fn wide_rows_weigh_more_than_one() {
    let budget = Budget::new(1 << 30);
    let narrow = part(&budget, &[1, 2, 3], 1, 1);
    assert_eq!(narrow.weight(), 3);
    let text: StringViewArray = [Some("x".repeat(4096))].into_iter().collect();
    let columns = vec![narrow.columns()[0].clone(), Column::Plain(Arc::new(text))];
    let runs = vec![Run { row: 0, seq: 1, gsn: 1 }];
    let shape = Arc::clone(narrow.shape());
    let wide = MemoryBatch::new(shape, columns, vec![1].into(), runs, budget.claim_anyway(0));
    assert!((32..40).contains(&wide.weight()), "{}", wide.weight());
}
