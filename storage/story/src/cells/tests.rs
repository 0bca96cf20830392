use std::sync::Arc;

use arrow::array::{
    Float64Array, Int32Array, RecordBatch, StringViewArray, TimestampNanosecondArray,
};
use stratalog_model::{ChronicleId, ColumnType, Granularity, SchemaVersion, TickScale};

use super::*;
use crate::schema::StoryColumn;

const SECOND: i64 = 1_000_000_000;

fn schema(nullable: bool) -> StorySchema {
    let column = |id: u32, name: &str, column_type, nullable| StoryColumn {
        id: ColumnId(id),
        name: name.to_string(),
        column_type,
        nullable,
    };
    StorySchema {
        chronicle: ChronicleId(1),
        chronicle_name: "public.t".to_string(),
        version: SchemaVersion(1),
        columns: vec![
            column(1, "time", ColumnType::TimestampTz { precision: 9 }, false),
            column(2, "host", ColumnType::Text, false),
            column(3, "d", ColumnType::Double, nullable),
            column(4, "i", ColumnType::Integer, nullable),
        ],
        keys: vec![ColumnId(2)],
        tick: ColumnId(1),
        scale: TickScale::starting_at(0, Granularity::NANOSECOND),
        indexes: Vec::new(),
    }
}

/// `hosts` runs of `rows` events, one every `step_ns` from `start_ns` on.
fn rows(
    schema: &StorySchema,
    hosts: usize,
    rows: usize,
    start_ns: i64,
    step_ns: i64,
) -> RecordBatch {
    let all = || (0..hosts).flat_map(|host| (0..rows).map(move |row| (host, row)));
    let ticks: Vec<i64> = all().map(|(_, row)| start_ns + row as i64 * step_ns).collect();
    let there = |row: usize| !row.is_multiple_of(7) || !schema.columns[2].nullable;
    let doubles = all().map(|(host, row)| there(row).then_some((host * row) as f64 / 8.0));
    let whole = all().map(|(host, row)| there(row).then_some(row as i32 - host as i32));
    let numbers = || Arc::new(arrow::array::Int64Array::from(ticks.clone()));
    RecordBatch::try_new(
        schema.arrow_schema(),
        vec![
            Arc::new(TimestampNanosecondArray::from(ticks.clone()).with_timezone("UTC")),
            Arc::new(StringViewArray::from_iter_values(all().map(|(host, _)| format!("h{host}")))),
            Arc::new(Float64Array::from_iter(doubles)),
            Arc::new(Int32Array::from_iter(whole)),
            numbers(),
            numbers(),
            numbers(),
        ],
    )
    .unwrap()
}

fn numbers(cells: &RecordBatch, name: &str) -> Vec<i64> {
    let array = cells.column_by_name(name).unwrap_or_else(|| panic!("no {name}"));
    let array = arrow::compute::cast(array, &DataType::Int64).unwrap();
    let array = array.as_any().downcast_ref::<arrow::array::Int64Array>().unwrap();
    array.iter().map(|value| value.unwrap_or(-999)).collect()
}

#[test]
fn cells_stand_for_windows_that_people_look_at() {
    let schema = schema(false);
    // One event every ten seconds, from half past nine: 240 rows need windows of an hour.
    let batch = rows(&schema, 3, 900, 34_200 * SECOND, 10 * SECOND);
    let cells = cells_of(&schema, 240, &batch).unwrap().unwrap();
    assert_eq!(numbers(&cells, "rows"), [180, 360, 360, 180, 360, 360, 180, 360, 360]);
    assert_eq!(numbers(&cells, "first_tick")[..3], [34_200, 36_000, 39_600].map(|s| s * SECOND));
    assert_eq!(numbers(&cells, "last_tick")[..3], [35_990, 39_590, 43_190].map(|s| s * SECOND));
    assert_eq!(numbers(&cells, "4.min")[3..6], [-1, 179, 539]);
    assert_eq!(numbers(&cells, "4.max")[6..], [177, 537, 897]);
    let sums: Vec<i64> = [0..180, 180..540, 540..900].map(Iterator::sum::<i64>).to_vec();
    assert_eq!(numbers(&cells, "4.sum")[..3], sums);
    assert!(cells.column_by_name("4.count").is_none());
    // One event every second: windows of five minutes suffice.
    let batch = rows(&schema, 2, 900, 0, SECOND);
    let cells = cells_of(&schema, 240, &batch).unwrap().unwrap();
    assert_eq!(numbers(&cells, "rows"), [300; 6]);
}

#[test]
fn too_few_rows_make_no_cells_and_short_runs_one_each() {
    let schema = schema(false);
    assert_eq!(cells_of(&schema, 240, &rows(&schema, 50, 59, 0, SECOND)).unwrap(), None);
    assert_eq!(cells_of(&schema, 240, &rows(&schema, 0, 0, 0, SECOND)).unwrap(), None);
    let cells = cells_of(&schema, 240, &rows(&schema, 5, 60, 0, 86_400 * SECOND)).unwrap().unwrap();
    assert_eq!(numbers(&cells, "rows"), [60; 5]);
}

#[test]
fn values_that_are_there_are_counted() {
    let schema = schema(true);
    let cells = cells_of(&schema, 240, &rows(&schema, 2, 70, 0, SECOND)).unwrap().unwrap();
    assert_eq!(numbers(&cells, "3.count"), [60, 60]);
    assert_eq!(numbers(&cells, "4.count"), [60, 60]);
    assert_eq!(numbers(&cells, "4.min"), [1, 0]);
}

#[test]
fn cells_of_other_rows_do_not_agree() {
    let schema = schema(true);
    let batch = rows(&schema, 2, 70, 0, SECOND);
    let cells = cells_of(&schema, 240, &batch).unwrap().unwrap();
    assert!(agree(&cells, &cells));
    let other = |place: usize, array: arrow::array::ArrayRef| {
        let mut columns = cells.columns().to_vec();
        columns[place] = array;
        RecordBatch::try_new(cells.schema(), columns).unwrap()
    };
    let place = |name: &str| cells.schema().index_of(name).unwrap();
    for name in ["rows", "4.min", "4.sum", "3.sum"] {
        let column = cells.column(place(name));
        let swapped =
            arrow::compute::take(column, &arrow::array::UInt32Array::from(vec![1, 1]), None);
        let changed = other(place(name), swapped.unwrap());
        assert_eq!(agree(&changed, &cells), name == "rows", "{name}");
    }
    // Sums of doubles may differ in their last digits.
    let sums = cells.column_by_name("3.sum").unwrap();
    let sums = sums.as_any().downcast_ref::<Float64Array>().unwrap();
    let near: Float64Array = sums.iter().map(|sum| sum.map(|sum| sum * (1.0 + 1e-14))).collect();
    assert!(agree(&other(place("3.sum"), Arc::new(near)), &cells));
}
