//! Reads convert older schema versions to the requested version.

use std::{collections::BTreeMap, sync::Arc};

use arrow::array::{Array, AsArray};
use futures::StreamExt;
use stratalog_model::{
    Collision, ColumnId, ColumnType, EventStore, SchemaVersion, store::AppendOptions,
    tier::ScanOrder,
};

use crate::{fixture::*, memory_log::MemoryLog};

#[tokio::test]
async fn added_and_renamed_columns() {
    let log = MemoryLog::default();
    let old = chronicle(1, Collision::First, true);
    let engine = open(&log, std::slice::from_ref(&old));
    append(&engine, &old, &[row(1, "a", 1.0), row(3, "a", 2.0)]).await.unwrap();
    // Begun before the change, committed after it.
    let mut open_append = engine.begin(AppendOptions::default()).unwrap();
    push(&mut open_append, &old, &[row(4, "a", 3.0)]).await.unwrap();

    let mut new = definition(1, Collision::First, true);
    new.columns[1].name = "machine".to_string();
    new.columns.push(column(9, "cores", ColumnType::BigInt, true));
    let mut dated = column(10, "since", ColumnType::Date, false);
    dated.missing_value = Some("2026-01-02".to_string());
    new.columns.push(dated);
    new.schema_version = SchemaVersion(2);
    let ids = |definition: &stratalog_model::ChronicleDefinition| -> Vec<ColumnId> {
        definition.columns.iter().map(|column| column.id).collect()
    };
    new.schema_versions =
        BTreeMap::from([(SchemaVersion(1), ids(&old)), (SchemaVersion(2), ids(&new))]);
    let new = Arc::new(new);
    let mut rows = batch(&old, &[row(2, "b", 4.0)]).columns().to_vec();
    rows.push(Arc::new(arrow::array::Int64Array::from(vec![64])));
    rows.push(Arc::new(arrow::array::Date32Array::from(vec![7])));
    let rows = arrow::array::RecordBatch::try_new(new.arrow_schema(), rows).unwrap();
    let mut added = engine.begin(AppendOptions::default()).unwrap();
    added.push(&new, rows, Default::default()).await.unwrap();
    added.commit().await.unwrap();
    open_append.commit().await.unwrap();

    let reopened = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&new));
    for engine in [engine, reopened] {
        let mut wanted = request(&new, ScanOrder::Ascending);
        wanted.projection = vec![4, 5, 1];
        let mut streams = engine.snapshot().scan(wanted).unwrap();
        let mut found = Vec::new();
        while let Some(batch) = streams[0].next().await {
            let batch = batch.unwrap();
            let dates = batch.column(1).as_primitive::<arrow::datatypes::Date32Type>();
            let hosts = batch.column(2).as_string_view();
            assert_eq!(batch.schema().field(2).name(), "machine");
            for (at, cores) in integers(&batch, 0).into_iter().enumerate() {
                assert!(dates.is_valid(at));
                found.push((cores, dates.value(at), hosts.value(at).to_string()));
            }
        }
        let day = 20_455;
        let expected = [(None, day, "a"), (Some(64), 7, "b"), (None, day, "a"), (None, day, "a")]
            .map(|(c, d, h)| (c, d, h.to_string()));
        assert_eq!(found, expected);
        // A reader with the old shape.
        assert_eq!(read(engine.snapshot().as_ref(), &old).await.len(), 4);
        // Old and new events collide in the same way.
        let mut again = engine.begin(AppendOptions::default()).unwrap();
        assert!(push(&mut again, &old, &[row(2, "b", 0.0)]).await.is_err());
    }
}

#[tokio::test]
async fn merging_keeps_shapes_apart() {
    let log = MemoryLog::default();
    let old = chronicle(1, Collision::First, true);
    let engine = open(&log, std::slice::from_ref(&old));
    let mut changed = definition(1, Collision::First, true);
    changed.columns.push(column(9, "extra", ColumnType::Text, true));
    changed.schema_version = SchemaVersion(2);
    changed
        .schema_versions
        .insert(SchemaVersion(2), changed.columns.iter().map(|c| c.id).collect());
    let new = Arc::new(changed);
    for at in 0..500 {
        let definition = if (100..300).contains(&at) { &new } else { &old };
        append(&engine, definition, &[row(at, "a", at as f64)]).await.unwrap();
    }
    assert_eq!(rows(&engine, &new).await.len(), 500);
    assert_eq!(rows(&engine, &old).await.len(), 500);
    assert!(engine.status().memory_bytes < 250_000, "{}", engine.status().memory_bytes);
}
