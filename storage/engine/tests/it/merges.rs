//! `collision = 'merge'`: an event takes the values of the earlier event where it has NULL.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringViewArray,
        TimestampMicrosecondArray,
    },
    datatypes::{Float64Type, Int64Type},
};
use futures::StreamExt;
use stratalog_engine::Engine;
use stratalog_model::{
    Append, ChronicleDefinition, Collision, ColumnId, ColumnType, ErrorKind, EventStore, Result,
    SchemaVersion, Snapshot, TickRange,
    store::{AppendOptions, OnConflict},
    tier::ScanOrder,
};
use stratalog_sim::Random;

use crate::{fixture::*, memory_log::MemoryLog};

/// The values of an event: of `value`, of `note` and of a column added later.
type Values = (Option<f64>, Option<String>, Option<i64>);

/// The visible events, by tick and host.
type Events = BTreeMap<(i64, String), Values>;

struct Cells {
    tick: i64,
    host: &'static str,
    values: Values,
}

fn cells(tick: i64, host: &'static str, value: Option<f64>, note: Option<&str>) -> Cells {
    Cells { tick, host, values: (value, note.map(str::to_string), None) }
}

fn batch_of(definition: &ChronicleDefinition, rows: &[Cells]) -> RecordBatch {
    let time = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.tick));
    let host: StringViewArray = rows.iter().map(|row| Some(row.host)).collect();
    let note: StringViewArray = rows.iter().map(|row| row.values.1.as_deref()).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(time.with_timezone("UTC")),
        Arc::new(host),
        Arc::new(rows.iter().map(|row| row.values.0).collect::<Float64Array>()),
        Arc::new(note),
    ];
    let added: ArrayRef = Arc::new(rows.iter().map(|row| row.values.2).collect::<Int64Array>());
    let added = definition.columns.iter().skip(4).map(|_| Arc::clone(&added));
    let columns = columns.into_iter().chain(added).collect();
    RecordBatch::try_new(definition.arrow_schema(), columns).unwrap()
}

fn events_of(batch: &RecordBatch, [tick, host, value, note]: [usize; 4]) -> Vec<Cells> {
    let ticks = batch.column(tick).as_primitive::<Int64Type>();
    let hosts = batch.column(host).as_string_view();
    let values = batch.column(value).as_primitive::<Float64Type>();
    let notes = batch.column(note).as_string_view();
    let added = batch.columns().get(4).map(|column| column.as_primitive::<Int64Type>());
    (0..batch.num_rows())
        .map(|row| {
            let value = values.is_valid(row).then(|| values.value(row));
            let note = notes.is_valid(row).then(|| notes.value(row).to_string());
            let added = added.filter(|added| added.is_valid(row)).map(|added| added.value(row));
            let host = ["a", "b", "c"].into_iter().find(|name| *name == hosts.value(row)).unwrap();
            Cells { tick: ticks.value(row), host, values: (value, note, added) }
        })
        .collect()
}

async fn events(snapshot: &dyn Snapshot, definition: &Arc<ChronicleDefinition>) -> Events {
    let user = definition.columns.len();
    let mut wanted = request(definition, ScanOrder::Ascending);
    wanted.projection = vec![user, 1, 2, 3];
    wanted.projection.extend((user > 4).then_some(4));
    let mut found = Events::new();
    for mut stream in snapshot.scan(wanted).unwrap() {
        while let Some(batch) = stream.next().await {
            for row in events_of(&batch.unwrap(), [0, 1, 2, 3]) {
                let known = found.insert((row.tick, row.host.to_string()), row.values);
                assert!(known.is_none(), "two events with one key at tick {}", row.tick);
            }
        }
    }
    found
}

async fn push_cells(
    append: &mut Box<dyn Append>,
    definition: &Arc<ChronicleDefinition>,
    rows: &[Cells],
) -> Result<RecordBatch> {
    let pushed = append.push(definition, batch_of(definition, rows), OnConflict::Error).await?;
    Ok(pushed.events.rows)
}

async fn store(engine: &Engine, definition: &Arc<ChronicleDefinition>, rows: &[Cells]) {
    let mut append = engine.begin(AppendOptions::default()).unwrap();
    push_cells(&mut append, definition, rows).await.unwrap();
    append.commit().await.unwrap();
}

fn one(tick: i64, host: &str, value: Option<f64>, note: Option<&str>) -> Events {
    Events::from([((tick, host.to_string()), (value, note.map(str::to_string), None))])
}

#[tokio::test]
async fn null_takes_the_value_of_the_earlier_event() {
    let (log, cpu, engine) = opened(Collision::Merge, true);
    store(&engine, &cpu, &[cells(1, "a", Some(1.0), None)]).await;
    let before = engine.snapshot();
    let mut append = engine.begin(AppendOptions::default()).unwrap();
    let rows = [
        cells(1, "a", None, Some("first")),
        cells(2, "a", None, Some("alone")),
        cells(1, "a", Some(2.0), None),
        cells(1, "a", None, None),
    ];
    let stored = push_cells(&mut append, &cpu, &rows).await.unwrap();
    let values = stored.column(2).as_primitive::<Float64Type>();
    let values: Vec<_> =
        (0..4).map(|row| values.is_valid(row).then(|| values.value(row))).collect();
    assert_eq!(values, [Some(1.0), None, Some(2.0), Some(2.0)]);
    let notes: Vec<_> = stored.column(3).as_string_view().iter().collect();
    assert_eq!(notes, [Some("first"), Some("alone"), Some("first"), Some("first")]);
    // In a later push of the same append, and in the append's own view.
    push_cells(&mut append, &cpu, &[cells(2, "a", Some(5.0), None)]).await.unwrap();
    let mut expected = one(1, "a", Some(2.0), Some("first"));
    expected.extend(one(2, "a", Some(5.0), Some("alone")));
    let own = append.over(&engine.snapshot()).await.unwrap();
    assert_eq!(events(own.as_ref(), &cpu).await, expected);
    append.commit().await.unwrap();
    assert_eq!(events(engine.snapshot().as_ref(), &cpu).await, expected);
    assert_eq!(events(before.as_ref(), &cpu).await, one(1, "a", Some(1.0), None));
    let reopened = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&cpu));
    assert_eq!(events(reopened.snapshot().as_ref(), &cpu).await, expected);
}

#[tokio::test]
async fn a_merge_waits_for_the_outcome_of_the_earlier_event() {
    for commits in [true, false] {
        let (_, cpu, engine) = opened(Collision::Merge, true);
        store(&engine, &cpu, &[cells(1, "a", Some(1.0), Some("old"))]).await;
        let mut first = engine.begin(AppendOptions::default()).unwrap();
        push_cells(&mut first, &cpu, &[cells(1, "a", Some(2.0), None)]).await.unwrap();
        // An event without NULL also waits: otherwise the pending merge would undo it.
        for (value, note) in [(None, Some("new")), (Some(3.0), Some("complete"))] {
            let second = tokio::spawn({
                let (engine, cpu) = (Arc::clone(&engine), Arc::clone(&cpu));
                async move { store(&engine, &cpu, &[cells(1, "a", value, note)]).await }
            });
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!second.is_finished());
            second.abort();
            let _ = second.await;
        }
        let second = tokio::spawn({
            let (engine, cpu) = (Arc::clone(&engine), Arc::clone(&cpu));
            async move { store(&engine, &cpu, &[cells(1, "a", None, Some("new"))]).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        match commits {
            true => drop(first.commit().await.unwrap()),
            false => drop(first),
        }
        second.await.unwrap();
        let value = if commits { 2.0 } else { 1.0 };
        let expected = one(1, "a", Some(value), Some("new"));
        assert_eq!(events(engine.snapshot().as_ref(), &cpu).await, expected);
    }
}

#[tokio::test]
async fn merges_that_wait_for_each_other_end() {
    let (_, cpu, engine) = opened(Collision::Merge, true);
    let mut first_append = engine.begin(AppendOptions::default()).unwrap();
    let mut two = engine.begin(AppendOptions::default()).unwrap();
    push_cells(&mut first_append, &cpu, &[cells(1, "a", Some(1.0), None)]).await.unwrap();
    push_cells(&mut two, &cpu, &[cells(2, "a", Some(2.0), None)]).await.unwrap();
    let first = tokio::spawn({
        let cpu = Arc::clone(&cpu);
        async move {
            push_cells(&mut first_append, &cpu, &[cells(2, "a", None, Some("one"))])
                .await
                .map(|_| first_append)
        }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let refused = error(push_cells(&mut two, &cpu, &[cells(1, "a", None, Some("two"))]).await);
    assert_eq!(refused.kind(), ErrorKind::DeadlockDetected);
    drop(two);
    first.await.unwrap().unwrap().commit().await.unwrap();
    assert_eq!(events(engine.snapshot().as_ref(), &cpu).await.len(), 2);
}

/// A deleted value never comes back.
#[tokio::test]
async fn deletes_and_merges_of_an_event_wait_for_each_other() {
    for in_block in [false, true] {
        let (log, cpu, engine) = opened(Collision::Merge, true);
        store(&engine, &cpu, &[cells(1, "a", Some(1.0), Some("secret"))]).await;
        let mut merge = engine.begin(AppendOptions::default()).unwrap();
        push_cells(&mut merge, &cpu, &[cells(1, "a", Some(2.0), None)]).await.unwrap();
        let delete = tokio::spawn({
            let (engine, cpu) = (Arc::clone(&engine), Arc::clone(&cpu));
            async move {
                if !in_block {
                    return engine.delete(&cpu, TickRange::ALL).await.map(|_| ());
                }
                let mut block = engine.begin(AppendOptions::default()).unwrap();
                block.delete(&cpu, TickRange::ALL).await?;
                block.commit().await.map(|_| ())
            }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!delete.is_finished());
        merge.commit().await.unwrap();
        delete.await.unwrap().unwrap();
        assert!(events(engine.snapshot().as_ref(), &cpu).await.is_empty());

        // The opposite order: the merge waits for the delete.
        store(&engine, &cpu, &[cells(1, "a", Some(1.0), Some("secret"))]).await;
        let mut block = engine.begin(AppendOptions::default()).unwrap();
        block.delete(&cpu, TickRange::ALL).await.unwrap();
        let merge = tokio::spawn({
            let (engine, cpu) = (Arc::clone(&engine), Arc::clone(&cpu));
            async move { store(&engine, &cpu, &[cells(1, "a", Some(2.0), None)]).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!merge.is_finished());
        let note = if in_block { Some("secret") } else { None };
        match in_block {
            // The drop rolls the delete back.
            true => drop(block),
            false => drop(block.commit().await.unwrap()),
        }
        merge.await.unwrap();
        let expected = one(1, "a", Some(2.0), note);
        assert_eq!(events(engine.snapshot().as_ref(), &cpu).await, expected);
        let reopened = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&cpu));
        assert_eq!(events(reopened.snapshot().as_ref(), &cpu).await, expected);
    }
}

/// The earlier event moves to another tier while the merge waits for another key.
#[tokio::test]
async fn moves_during_a_wait_lose_no_value() {
    let (log, stored) = (MemoryLog::default(), Stored::new(3));
    let cpu = chronicle(1, Collision::Merge, true);
    let engine = stored.open(&log, &cpu);
    let mut expected = Events::new();
    for tick in 0..100 {
        store(&engine, &cpu, &[cells(tick, "a", Some(tick as f64), None)]).await;
        if tick % 10 == 9 {
            engine.flush(cpu.id).await.unwrap();
        }
        expected.extend(one(tick, "a", Some(tick as f64), Some("new")));
    }
    for moves in 0..3 {
        let mut holder = engine.begin(AppendOptions::default()).unwrap();
        push_cells(&mut holder, &cpu, &[cells(1000 + moves, "b", None, None)]).await.unwrap();
        let merge = tokio::spawn({
            let (engine, cpu) = (Arc::clone(&engine), Arc::clone(&cpu));
            async move {
                let rows = (0..100).map(|tick| cells(tick, "a", None, Some("new")));
                let rows: Vec<Cells> =
                    rows.chain([cells(1000 + moves, "b", Some(1.0), None)]).collect();
                store(&engine, &cpu, &rows).await;
            }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!merge.is_finished());
        engine.compact(cpu.id).await.unwrap();
        if moves == 2 {
            engine.delete(&cpu, ranges(&[(i64::MIN, 50)]).hull()).await.unwrap();
            for tick in 0..50 {
                expected.extend(one(tick, "a", None, Some("new")));
            }
        }
        drop(holder);
        merge.await.unwrap();
        expected.extend(one(1000 + moves, "b", Some(1.0), None));
        assert_eq!(events(engine.snapshot().as_ref(), &cpu).await, expected, "{moves}");
    }
}

/// A waiting delete is not starved by later merges; but statements for which it waits may merge
/// further events.
#[tokio::test]
async fn a_delete_waits_only_for_the_merges_before_it() {
    let (_, cpu, engine) = opened(Collision::Merge, true);
    let rows: Vec<Cells> = (0..10).map(|tick| cells(tick, "a", Some(1.0), None)).collect();
    store(&engine, &cpu, &rows).await;
    let mut before = engine.begin(AppendOptions::default()).unwrap();
    push_cells(&mut before, &cpu, &[cells(1, "a", None, Some("x"))]).await.unwrap();
    let delete = tokio::spawn({
        let (engine, cpu) = (Arc::clone(&engine), Arc::clone(&cpu));
        async move { engine.delete(&cpu, TickRange::ALL).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let after = tokio::spawn({
        let (engine, cpu) = (Arc::clone(&engine), Arc::clone(&cpu));
        async move { store(&engine, &cpu, &[cells(2, "a", None, Some("y"))]).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!delete.is_finished() && !after.is_finished());
    push_cells(&mut before, &cpu, &[cells(3, "a", None, Some("z"))]).await.unwrap();
    before.commit().await.unwrap();
    assert_eq!(delete.await.unwrap().unwrap(), 10);
    after.await.unwrap();
    let expected = one(2, "a", None, Some("y"));
    assert_eq!(events(engine.snapshot().as_ref(), &cpu).await, expected);
    // A cancelled delete blocks no merge.
    let mut merge = engine.begin(AppendOptions::default()).unwrap();
    push_cells(&mut merge, &cpu, &[cells(2, "a", Some(5.0), None)]).await.unwrap();
    let delete = engine.delete(&cpu, TickRange::ALL);
    assert!(tokio::time::timeout(Duration::from_millis(20), delete).await.is_err());
    merge.commit().await.unwrap();
    store(&engine, &cpu, &[cells(2, "a", None, Some("again"))]).await;
    let expected = one(2, "a", Some(5.0), Some("again"));
    assert_eq!(events(engine.snapshot().as_ref(), &cpu).await, expected);
}

/// Many rows of a push take the same large value.
#[tokio::test]
async fn a_large_value_of_many_rows_is_split_into_frames() {
    let log = MemoryLog::default();
    let cpu = chronicle(1, Collision::Merge, true);
    let engine = open_with(&log, std::slice::from_ref(&cpu), small()).unwrap();
    let note = "y".repeat(2500);
    let rows = (0..200).map(|n| cells(1, "a", Some(f64::from(n)), None));
    let rows: Vec<Cells> = [cells(1, "a", None, Some(&note))].into_iter().chain(rows).collect();
    store(&engine, &cpu, &rows).await;
    let expected = one(1, "a", Some(199.0), Some(&note));
    assert_eq!(events(engine.snapshot().as_ref(), &cpu).await, expected);
    let largest = log.frames().iter().map(|frame| frame.payload.len()).max();
    assert!(largest.unwrap() < 10_000, "{largest:?}");
}

/// A sender with an old definition never loses the values of new columns.
#[tokio::test]
async fn a_merge_with_unknown_columns_is_refused() {
    let (_, cpu, engine) = opened(Collision::Merge, true);
    let mut wider = ChronicleDefinition::clone(&cpu);
    wider.columns.push(column(5, "added", ColumnType::BigInt, true));
    wider.schema_version = SchemaVersion(2);
    let ids: Vec<ColumnId> = wider.columns.iter().map(|column| column.id).collect();
    wider.schema_versions.insert(SchemaVersion(2), ids);
    let wider = Arc::new(wider);
    let with_added = |tick, added| Cells { tick, host: "a", values: (None, None, added) };
    store(&engine, &wider, &[with_added(1, Some(5)), with_added(2, None)]).await;
    for complete in [Some("complete"), None] {
        let mut old = engine.begin(AppendOptions::default()).unwrap();
        let refused =
            error(push_cells(&mut old, &cpu, &[cells(1, "a", Some(1.0), complete)]).await);
        assert_eq!(refused.kind(), ErrorKind::SerializationFailure);
        drop(old);
    }
    // Without a value in a new column, the merge loses nothing.
    store(&engine, &cpu, &[cells(2, "a", Some(2.0), Some("complete")), cells(3, "a", None, None)])
        .await;
    store(&engine, &wider, &[with_added(2, Some(6))]).await;
    let found = events(engine.snapshot().as_ref(), &wider).await;
    let at = |tick: i64| found.get(&(tick, "a".to_string())).cloned();
    assert_eq!(at(1), Some((None, None, Some(5))));
    assert_eq!(at(2), Some((Some(2.0), Some("complete".to_string()), Some(6))));
    assert_eq!(at(3), Some((None, None, None)));
}

/// Values of earlier events may make a chunk larger than a frame.
#[tokio::test]
async fn merged_values_are_split_into_frames() {
    let (log, cpu) = (MemoryLog::default(), chronicle(1, Collision::Merge, true));
    let engine = open_with(&log, std::slice::from_ref(&cpu), small()).unwrap();
    let note = |tick: i64| format!("{tick}{}", "x".repeat(2000));
    let noted = |tick: i64| cells(tick, "a", None, Some(&note(tick)));
    let earlier: Vec<Cells> = (0..40).map(noted).collect();
    store(&engine, &cpu, &earlier).await;
    let frames = log.frames().len();
    let later: Vec<Cells> = (0..40).map(|tick| cells(tick, "a", Some(7.0), None)).collect();
    store(&engine, &cpu, &later).await;
    assert!(log.frames().len() > frames + 20);
    let found = events(engine.snapshot().as_ref(), &cpu).await;
    assert_eq!(found.len(), 40);
    for ((tick, _), values) in &found {
        assert_eq!(values, &(Some(7.0), Some(note(*tick)), None));
    }
}

fn random_rows(random: &mut Random, clock: i64, added: bool) -> Vec<Cells> {
    let count = 1 + random.below(12);
    (0..count)
        .map(|_| {
            let tick = (clock - random.below(30) as i64).max(0);
            let value = random.chance(50).then(|| random.below(1000) as f64);
            let text = format!("note {}", random.below(500));
            let note = random.chance(33).then_some(text);
            let more = (added && random.chance(33)).then(|| random.below(100) as i64);
            let host = ["a", "b", "c"][random.below(3) as usize];
            Cells { tick, host, values: (value, note, more) }
        })
        .collect()
}

fn apply(model: &mut Events, rows: &[Cells]) {
    for row in rows {
        let known = model.entry((row.tick, row.host.to_string())).or_default();
        let (value, note, added) = row.values.clone();
        known.0 = value.or(known.0);
        known.1 = note.or(known.1.take());
        known.2 = added.or(known.2);
    }
}

/// Compares random appends, rollbacks, deletes, moves, restarts and an added column with a map.
async fn against_a_map(seed: u64) {
    let mut random = Random::new(seed);
    let (mut log, mut stored) = (MemoryLog::default(), Stored::new(seed));
    let mut cpu = chronicle(1, Collision::Merge, true);
    let mut engine = stored.open(&log, &cpu);
    let (mut model, mut clock) = (Events::new(), 0);
    for step in 0..400 {
        clock += random.below(4) as i64;
        let has_added = cpu.columns.len() > 4;
        match random.below(20) {
            0 => drop(engine.flush(cpu.id).await.unwrap()),
            1 => drop(engine.compact(cpu.id).await.unwrap()),
            2 => drop(engine.release_journal().await.unwrap()),
            3 => {
                let range = ranges(&[(i64::MIN, clock - 25)]).hull();
                engine.delete(&cpu, range).await.unwrap();
                model.retain(|(tick, _), _| *tick >= clock - 25);
            }
            4 => {
                drop(engine);
                log = MemoryLog::with_frames(log.frames());
                stored.reopen();
                engine = stored.open(&log, &cpu);
            }
            _ => {
                let mut append = engine.begin(AppendOptions::default()).unwrap();
                let mut own = model.clone();
                for _ in 0..=random.below(3) {
                    let savepoint = append.savepoint().unwrap();
                    if random.below(6) == 0 {
                        append
                            .delete(&cpu, ranges(&[(clock - 10, i64::MAX)]).hull())
                            .await
                            .unwrap();
                        own.retain(|(tick, _), _| *tick < clock - 10);
                    }
                    let before = own.clone();
                    let rows = random_rows(&mut random, clock, has_added);
                    let inner = append.savepoint().unwrap();
                    push_cells(&mut append, &cpu, &rows).await.unwrap();
                    apply(&mut own, &rows);
                    let seen = append.over(&engine.snapshot()).await.unwrap();
                    assert_eq!(events(seen.as_ref(), &cpu).await, own, "seed {seed}, step {step}");
                    match random.below(4) {
                        0 => {
                            append.roll_back_to(inner);
                            own = before;
                        }
                        1 => append.release(savepoint),
                        _ => {}
                    }
                }
                if random.below(5) == 0 {
                    drop(append);
                } else {
                    append.commit().await.unwrap();
                    model = own;
                }
            }
        }
        if step == 200 {
            let mut wider = ChronicleDefinition::clone(&cpu);
            let mut added = column(5, "added", ColumnType::BigInt, true);
            added.missing_value = Some("17".to_string());
            wider.columns.push(added);
            wider.schema_version = SchemaVersion(2);
            let ids: Vec<ColumnId> = wider.columns.iter().map(|column| column.id).collect();
            wider.schema_versions.insert(SchemaVersion(2), ids);
            cpu = Arc::new(wider);
            stored.define(&cpu);
            model.values_mut().for_each(|values| values.2 = Some(17));
        }
        let found = events(engine.snapshot().as_ref(), &cpu).await;
        assert_eq!(found, model, "seed {seed}, step {step}");
    }
}

#[tokio::test]
async fn random_merges_equal_a_map_in_every_tier() {
    for seed in 1..=12 {
        against_a_map(seed).await;
    }
}
