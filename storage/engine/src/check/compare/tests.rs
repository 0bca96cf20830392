use arrow::array::{ArrayRef, Int64Array, StringViewArray};
use stratalog_model::{ColumnId, Gsn, SchemaVersion};

use super::*;
use crate::{
    events::{encode, shape::KeyColumns},
    version::manifest::PieceFile,
};

fn shape() -> Arc<Shape> {
    use arrow::datatypes::DataType;
    Arc::new(Shape {
        version: SchemaVersion(1),
        columns: vec![ColumnId(1), ColumnId(2)],
        schema: encode::schema_of(&[DataType::Int64, DataType::Utf8View]),
        tick_at: 0,
        tick_unit_ns: 1,
        keys: KeyColumns::fixed(vec![1]),
    })
}

fn record() -> PieceRecord {
    PieceRecord {
        id: 1,
        schema_version: SchemaVersion(1),
        bytes: 0,
        unpacked_bytes: 0,
        parts: 1,
        rows: 3,
        checksum: 0,
        ticks: TickRange::EMPTY,
        gsns: (Gsn(0), Gsn(0)),
        fenced_through: Gsn(0),
        since_ns: 0,
        file: PieceFile::Tablet,
    }
}

/// A row as (key, tick, seq); its gsn equals its seq.
type Row = (&'static str, i64, i64);

fn events(rows: &[Row]) -> PartEvents {
    let ticks: Vec<i64> = rows.iter().map(|row| row.1).collect();
    let seqs: Vec<i64> = rows.iter().map(|row| row.2).collect();
    let keys: StringViewArray = rows.iter().map(|row| Some(row.0)).collect();
    let columns: [ArrayRef; 2] = [Arc::new(Int64Array::from(ticks.clone())), Arc::new(keys)];
    PartEvents {
        rows: rows.len(),
        columns: columns.into_iter().map(|column| Some(Column::Plain(column))).collect(),
        ticks: ticks.into(),
        seqs: seqs.clone().into(),
        gsns: seqs.into(),
    }
}

fn key(text: &str) -> Vec<u8> {
    Groups::of(
        &[Column::Plain(Arc::new(StringViewArray::from_iter_values([text])))],
        &KeyColumns::fixed(vec![0]),
        1,
    )
    .unwrap()
    .keys[0]
        .to_vec()
}

/// Compares `rows` with the summary "three events, ticks 1 to 9, gsn 4 to 6, keys a to b". Returns
/// the result, and the number of rows that `seqs` already had.
fn compared(rows: &[Row], seqs: &mut Seqs) -> (Result<()>, u64) {
    let (record, first, last) = (record(), key("a"), key("b"));
    let stored_summary =
        StoredSummary { rows: 3, ticks: (1, 9), gsns: (4, 6), keys: (&first, &last) };
    let mut piece = PieceComparison::new(&record, Some(shape()));
    let result = piece.part(&[events(rows)], &stored_summary, seqs);
    (result, piece.twice)
}

#[test]
fn rows_are_those_that_are_said_and_in_order() {
    let right = [("a", 1, 4), ("a", 9, 5), ("b", 2, 6)];
    let wrong: [(&str, &[Row]); 7] = [
        ("events of ticks", &right[..2]),
        ("events of ticks", &[("a", 1, 4), ("a", 8, 5), ("b", 2, 6)]),
        ("events of ticks", &[("a", 1, 4), ("a", 9, 5), ("b", 2, 7)]),
        ("the keys in the data differ", &[("a", 1, 4), ("a", 9, 5), ("c", 2, 6)]),
        ("out of order", &[("a", 9, 5), ("a", 1, 4), ("b", 2, 6)]),
        ("out of order", &[("b", 2, 6), ("a", 1, 4), ("a", 9, 5)]),
        ("out of order", &[("a", 1, 4), ("a", 9, 6), ("a", 9, 5)]),
    ];
    compared(&right, &mut Seqs::default()).0.unwrap();
    for (what, rows) in wrong {
        let error = compared(rows, &mut Seqs::default()).0.unwrap_err();
        assert!(error.message().contains(what), "{rows:?}: {error}");
    }
}

#[test]
fn an_event_that_somebody_else_has_is_counted() {
    let rows = [("a", 1, 4), ("a", 9, 5), ("b", 2, 6)];
    let mut seqs = Seqs::default();
    seqs.insert(5);
    assert_eq!(compared(&rows, &mut seqs).1, 1);
    assert_eq!(compared(&rows, &mut seqs).1, 3);
}

#[test]
fn parts_of_a_tablet_follow_one_another() {
    let (record, a, b) = (record(), key("a"), key("b"));
    let mut piece = PieceComparison::new(&record, Some(shape()));
    let mut seqs = Seqs::default();
    let first = StoredSummary { rows: 1, ticks: (3, 3), gsns: (1, 1), keys: (&b, &b) };
    piece.part(&[events(&[("b", 3, 1)])], &first, &mut seqs).unwrap();
    let second = StoredSummary { rows: 1, ticks: (3, 3), gsns: (2, 2), keys: (&a, &a) };
    let error = piece.part(&[events(&[("a", 3, 2)])], &second, &mut seqs).unwrap_err();
    assert!(error.message().contains("out of order"), "{error}");
    assert_eq!((piece.rows, piece.gsns), (1, (1, 1)));
}
