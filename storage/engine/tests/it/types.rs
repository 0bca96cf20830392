//! Every column type, with NULL, through push, merging, journal and scan.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
        Float32Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray,
        ListBuilder, RecordBatch, StringViewArray, StringViewBuilder, Time64MicrosecondArray,
        TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
    },
    compute::concat_batches,
    datatypes::{Int32Type, IntervalMonthDayNano},
};
use futures::StreamExt;
use stratalog_model::{
    ChronicleDefinition, Collision, ColumnType, EventStore, SchemaVersion, store::AppendOptions,
    tier::ScanOrder,
};

use crate::{fixture::*, memory_log::MemoryLog};

fn every_type() -> ChronicleDefinition {
    let array = |element| ColumnType::Array(Box::new(element));
    let types = [
        ColumnType::Boolean,
        ColumnType::SmallInt,
        ColumnType::Integer,
        ColumnType::BigInt,
        ColumnType::Real,
        ColumnType::Numeric { precision: 20, scale: 4 },
        ColumnType::Bytea,
        ColumnType::Timestamp { precision: 0 },
        ColumnType::Timestamp { precision: 3 },
        ColumnType::TimestampTz { precision: 9 },
        ColumnType::Date,
        ColumnType::Time,
        ColumnType::Interval,
        ColumnType::Uuid,
        ColumnType::Jsonb,
        array(ColumnType::Integer),
        array(ColumnType::Text),
    ];
    let mut definition = definition(1, Collision::First, true);
    definition.columns.truncate(2);
    for (at, column_type) in types.into_iter().enumerate() {
        definition.columns.push(column(10 + at as u32, &format!("c{at}"), column_type, true));
    }
    let ids = definition.columns.iter().map(|column| column.id).collect();
    definition.schema_versions = BTreeMap::from([(SchemaVersion(1), ids)]);
    definition
}

fn rows(definition: &ChronicleDefinition, first: i64, count: i64) -> RecordBatch {
    let at = || first..first + count;
    let some = |row: i64| row % 3 != 1;
    let keyed = batch(
        &crate::fixture::definition(1, Collision::First, true),
        &at().map(|n| row(n, "h", 0.0)).collect::<Vec<_>>(),
    );
    let mut texts = ListBuilder::new(StringViewBuilder::new());
    for n in at() {
        for part in 0..n % 4 {
            texts
                .values()
                .append_option((part != 2).then(|| format!("element {part} of the row {n}, long")));
        }
        texts.append(some(n));
    }
    let uuids = at().map(|n| some(n).then(|| (n as u128).wrapping_mul(77).to_be_bytes()));
    let columns: Vec<ArrayRef> = vec![
        Arc::clone(keyed.column(0)),
        Arc::clone(keyed.column(1)),
        Arc::new(at().map(|n| some(n).then_some(n % 2 == 0)).collect::<BooleanArray>()),
        Arc::new(at().map(|n| some(n).then_some(n as i16)).collect::<Int16Array>()),
        Arc::new(at().map(|n| some(n).then_some(n as i32 - 9)).collect::<Int32Array>()),
        Arc::new(at().map(|n| some(n).then_some(i64::MIN + 9 + n)).collect::<Int64Array>()),
        Arc::new(at().map(|n| some(n).then_some(n as f32 / 7.0)).collect::<Float32Array>()),
        Arc::new(
            at().map(|n| some(n).then_some(n as i128 * 10_000_000_000_000))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(20, 4)
                .unwrap(),
        ),
        Arc::new(
            at().map(|n| some(n).then(|| vec![n as u8; n as usize % 20])).collect::<BinaryArray>(),
        ),
        Arc::new(at().map(|n| some(n).then_some(n)).collect::<TimestampSecondArray>()),
        Arc::new(at().map(|n| some(n).then_some(-n)).collect::<TimestampMillisecondArray>()),
        Arc::new(
            at().map(|n| some(n).then_some(n))
                .collect::<TimestampNanosecondArray>()
                .with_timezone("UTC"),
        ),
        Arc::new(at().map(|n| some(n).then_some(n as i32)).collect::<Date32Array>()),
        Arc::new(at().map(|n| some(n).then_some(n)).collect::<Time64MicrosecondArray>()),
        Arc::new(
            at().map(|n| some(n).then(|| IntervalMonthDayNano::new(n as i32, -3, n)))
                .collect::<IntervalMonthDayNanoArray>(),
        ),
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16).unwrap()),
        Arc::new(
            at().map(|n| some(n).then(|| format!("{{\"n\": {}}}", n % 5)))
                .collect::<StringViewArray>(),
        ),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
            at().map(|n| some(n).then(|| (0..n % 5).map(|k| (k != 1).then_some(k as i32)))),
        )),
        Arc::new(texts.finish()),
    ];
    RecordBatch::try_new(definition.arrow_schema(), columns).unwrap()
}

#[tokio::test]
async fn every_column_type_comes_back() {
    let definition = Arc::new(every_type());
    let log = MemoryLog::default();
    let engine = open(&log, std::slice::from_ref(&definition));
    let mut pushed = Vec::new();
    let mut next = 0;
    // Single rows for merges, slices of a larger batch, and large batches.
    for count in std::iter::repeat_n(1, 200).chain([700, 17, 3000, 64]) {
        let batch = rows(&definition, next - 5, count + 10).slice(5, count as usize);
        next += count;
        let mut append = engine.begin(AppendOptions::default()).unwrap();
        append.push(&definition, batch.clone(), Default::default()).await.unwrap();
        append.commit().await.unwrap();
        pushed.push(batch);
    }
    let expected = concat_batches(&definition.arrow_schema(), &pushed).unwrap();
    let reopened = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&definition));
    for engine in [&engine, &reopened] {
        for order in [ScanOrder::Ascending, ScanOrder::Descending] {
            let mut wanted = request(&definition, order);
            wanted.projection = (0..definition.columns.len()).collect();
            let mut streams = engine.snapshot().scan(wanted).unwrap();
            let mut found = Vec::new();
            while let Some(batch) = streams[0].next().await {
                found.push(batch.unwrap());
            }
            let found = concat_batches(&definition.arrow_schema(), &found).unwrap();
            if order == ScanOrder::Ascending {
                assert_eq!(found, expected);
            } else {
                let back: arrow::array::UInt32Array =
                    (0..expected.num_rows() as u32).rev().collect();
                assert_eq!(found, arrow::compute::take_record_batch(&expected, &back).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn a_small_slice_of_large_text_takes_little_memory() {
    let definition = Arc::new(every_type());
    let engine = open(&MemoryLog::default(), std::slice::from_ref(&definition));
    let large = rows(&definition, 0, 20_000);
    let mut append = engine.begin(AppendOptions::default()).unwrap();
    append.push(&definition, large.slice(500, 3), Default::default()).await.unwrap();
    append.commit().await.unwrap();
    let bytes = engine.status().memory_bytes;
    assert!(bytes < 20_000, "{bytes}");
}
