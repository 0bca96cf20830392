//! Collision semantics (F25), also against pending keys.

use std::{sync::Arc, time::Duration};

use stratalog_model::{
    Append, ChronicleDefinition, Collision, ErrorKind, EventStore,
    store::{AppendOptions, OnConflict},
};

use crate::{fixture::*, memory_log::MemoryLog};

async fn both_ways(
    log: &MemoryLog,
    engine: &stratalog_engine::Engine,
    cpu: &Arc<ChronicleDefinition>,
    expected: &[Row],
) {
    assert_eq!(rows(engine, cpu).await, expected);
    let reopened = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(cpu));
    assert_eq!(rows(&reopened, cpu).await, expected);
    assert_eq!(
        read(reopened.snapshot().as_ref(), cpu).await,
        read(engine.snapshot().as_ref(), cpu).await
    );
}

#[tokio::test]
async fn all_keeps_everything_in_arrival_order() {
    for keyed in [false, true] {
        let (log, cpu, engine) = opened(Collision::All, keyed);
        append(&engine, &cpu, &[row(5, "a", 1.0), row(5, "a", 2.0)]).await.unwrap();
        append(&engine, &cpu, &[row(5, "a", 3.0), row(4, "a", 4.0)]).await.unwrap();
        let expected = [row(4, "a", 4.0), row(5, "a", 1.0), row(5, "a", 2.0), row(5, "a", 3.0)];
        both_ways(&log, &engine, &cpu, &expected).await;
    }
}

#[tokio::test]
async fn first_refuses_or_skips() {
    let (log, cpu, engine) = opened(Collision::First, true);
    append(&engine, &cpu, &[row(1_500_000, "a", 1.0)]).await.unwrap();
    let refused = error(append(&engine, &cpu, &[row(1, "b", 1.0), row(1_500_000, "a", 2.0)]).await);
    assert_eq!(refused.kind(), ErrorKind::UniqueViolation);
    assert_eq!(refused.message(), "duplicate key value violates unique constraint \"cpu1_pkey\"");
    assert_eq!(
        refused.detail(),
        Some("Key (host, time)=(a, 1970-01-01 00:00:01.500+00) already exists.")
    );
    // No row of the statement was stored, and the other keys of the statement are free.
    let twice = append(&engine, &cpu, &[row(1, "b", 1.0), row(1, "b", 2.0)]).await;
    assert_eq!(error(twice).kind(), ErrorKind::UniqueViolation);
    let (appended, skipped) = append_on(
        &engine,
        &cpu,
        &[row(1_500_000, "a", 9.0), row(1, "b", 3.0), row(1, "b", 4.0), row(2, "b", 5.0)],
        OnConflict::Skip,
    )
    .await
    .unwrap();
    assert_eq!((appended.rows, skipped), (2, 2));
    let expected = [row(1, "b", 3.0), row(2, "b", 5.0), row(1_500_000, "a", 1.0)];
    both_ways(&log, &engine, &cpu, &expected).await;
    let (appended, skipped) =
        append_on(&engine, &cpu, &[row(1, "b", 0.0)], OnConflict::Skip).await.unwrap();
    assert_eq!((appended.rows, appended.first_gsn, skipped), (0, None, 1));
}

#[tokio::test]
async fn last_supersedes_and_older_snapshots_do_not_change() {
    let (log, cpu, engine) = opened(Collision::Last, true);
    append(&engine, &cpu, &[row(1, "a", 1.0), row(2, "a", 2.0), row(1, "b", 3.0)]).await.unwrap();
    let before = engine.snapshot();
    append(&engine, &cpu, &[row(1, "a", 4.0), row(1, "a", 5.0), row(0, "a", 6.0)]).await.unwrap();
    let seen: Vec<Row> = read(before.as_ref(), &cpu).await.into_iter().map(|r| r.row).collect();
    assert_eq!(seen, [row(1, "a", 1.0), row(1, "b", 3.0), row(2, "a", 2.0)]);
    assert_eq!(before.extent(&cpu, &stratalog_model::TickRanges::all()).unwrap().rows, 3);
    // Also by key: the index knows only the newest event.
    let mut by_key = request(&cpu, stratalog_model::tier::ScanOrder::Ascending);
    by_key.keys = vec![host_filter(&["a"])];
    let old: Vec<f64> =
        scan(before.as_ref(), by_key.clone()).await.iter().map(|r| r.row.value).collect();
    assert_eq!(old, [1.0, 2.0]);
    let new: Vec<f64> =
        scan(engine.snapshot().as_ref(), by_key).await.iter().map(|r| r.row.value).collect();
    assert_eq!(new, [6.0, 5.0, 2.0]);
    let expected = [row(0, "a", 6.0), row(1, "b", 3.0), row(1, "a", 5.0), row(2, "a", 2.0)];
    both_ways(&log, &engine, &cpu, &expected).await;
    assert_eq!(engine.status().chronicles[0].rows, 4);
}

#[tokio::test]
async fn last_is_decided_by_the_commit_not_by_the_push() {
    let log = MemoryLog::default();
    let cpu = chronicle(1, Collision::Last, true);
    for (first, rollback) in [(0, false), (1, false), (0, true), (1, true)] {
        let engine = open(&MemoryLog::default(), std::slice::from_ref(&cpu));
        let mut appends: Vec<Option<Box<dyn Append>>> = Vec::new();
        for value in [1.0, 2.0] {
            let mut append = engine.begin(AppendOptions::default()).unwrap();
            push(&mut append, &cpu, &[row(7, "a", value)]).await.unwrap();
            appends.push(Some(append));
        }
        let second = 1 - first;
        appends[first].take().unwrap().commit().await.unwrap();
        assert_eq!(rows(&engine, &cpu).await, [row(7, "a", first as f64 + 1.0)]);
        if rollback {
            drop(appends[second].take());
            assert_eq!(rows(&engine, &cpu).await, [row(7, "a", first as f64 + 1.0)]);
        } else {
            appends[second].take().unwrap().commit().await.unwrap();
            assert_eq!(rows(&engine, &cpu).await, [row(7, "a", second as f64 + 1.0)]);
        }
        append(&engine, &cpu, &[row(7, "a", 9.0)]).await.unwrap();
        assert_eq!(rows(&engine, &cpu).await, [row(7, "a", 9.0)]);
    }
    drop(log);
}

#[tokio::test]
async fn next_takes_the_next_free_slot() {
    let (log, cpu, engine) = opened(Collision::Next, true);
    append(&engine, &cpu, &[row(1, "a", 1.0), row(3, "a", 2.0)]).await.unwrap();
    let mut pushed = engine.begin(AppendOptions::default()).unwrap();
    let admitted = pushed
        .push(
            &cpu,
            batch(&cpu, &[row(1, "a", 3.0), row(1, "a", 4.0), row(1, "b", 5.0)]),
            OnConflict::Error,
        )
        .await
        .unwrap();
    assert_eq!(admitted.events.ticks.as_ref(), [2, 4, 1]);
    pushed.commit().await.unwrap();
    let expected =
        [row(1, "a", 1.0), row(1, "b", 5.0), row(2, "a", 3.0), row(3, "a", 2.0), row(4, "a", 4.0)];
    both_ways(&log, &engine, &cpu, &expected).await;
}

#[tokio::test]
async fn moved_ticks_survive_a_unit_that_cannot_show_them() {
    let log = MemoryLog::default();
    let mut coarse = definition(1, Collision::Next, true);
    coarse.scale =
        stratalog_model::TickScale::starting_at(0, stratalog_model::Granularity::NANOSECOND);
    let cpu = Arc::new(coarse);
    let engine = open(&log, std::slice::from_ref(&cpu));
    append(&engine, &cpu, &[row(1, "a", 1.0), row(1, "a", 2.0)]).await.unwrap();
    let again = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&cpu));
    append(&again, &cpu, &[row(1, "a", 3.0)]).await.unwrap();
    let snapshot = again.snapshot();
    let extent = snapshot.extent(&cpu, &ranges(&[(0, i64::MAX)])).unwrap();
    assert_eq!((extent.ticks.start.0, extent.ticks.end.0), (1000, 1003));
}

#[tokio::test]
async fn a_coarse_granularity_collides_within_a_granule() {
    let log = MemoryLog::default();
    let mut coarse = definition(1, Collision::First, true);
    coarse.scale = stratalog_model::TickScale::starting_at(
        0,
        stratalog_model::Granularity::from_ns(1_000_000_000).unwrap(),
    );
    let cpu = Arc::new(coarse);
    let engine = open(&log, std::slice::from_ref(&cpu));
    let mut pushed = engine.begin(AppendOptions::default()).unwrap();
    let admitted = pushed
        .push(&cpu, batch(&cpu, &[row(1_700_000, "a", 1.0), row(-1, "a", 2.0)]), OnConflict::Error)
        .await
        .unwrap();
    assert_eq!(admitted.events.ticks.as_ref(), [1, -1]);
    let times = integers_of_time(&admitted.events.rows);
    assert_eq!(times, [1_000_000, -1_000_000], "time shows the start of the tick");
    pushed.commit().await.unwrap();
    let refused = error(append(&engine, &cpu, &[row(1_000_001, "a", 3.0)]).await);
    assert_eq!(refused.kind(), ErrorKind::UniqueViolation);
    let again = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&cpu));
    assert_eq!(
        error(append(&again, &cpu, &[row(-1_000_000, "a", 3.0)]).await).kind(),
        ErrorKind::UniqueViolation
    );
}

fn integers_of_time(batch: &arrow::array::RecordBatch) -> Vec<i64> {
    use arrow::array::AsArray;
    let times = batch.column(0).as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
    times.values().to_vec()
}

#[tokio::test]
async fn a_tick_that_is_unique_without_keys() {
    let (_, cpu, engine) = opened(Collision::First, false);
    append(&engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    let refused = error(append(&engine, &cpu, &[row(1, "b", 1.0)]).await);
    assert_eq!(
        refused.detail(),
        Some("Key (time)=(1970-01-01 00:00:00.000001+00) already exists.")
    );
}

/// A conflict with a pending key waits for the outcome of the other statement: the key is then
/// taken or free.
#[tokio::test]
async fn pending_keys_are_waited_for() {
    for (committed, on_conflict) in [
        (true, OnConflict::Error),
        (false, OnConflict::Error),
        (true, OnConflict::Skip),
        (false, OnConflict::Skip),
    ] {
        let (log, cpu, engine) = opened(Collision::First, true);
        let mut holder = engine.begin(AppendOptions::default()).unwrap();
        push(&mut holder, &cpu, &[row(5, "a", 1.0)]).await.unwrap();
        let waiter = tokio::spawn({
            let (engine, cpu) = (Arc::clone(&engine), cpu.clone());
            async move {
                append_on(&engine, &cpu, &[row(4, "a", 2.0), row(5, "a", 2.0)], on_conflict).await
            }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiter.is_finished());
        // A waiting statement reserves nothing.
        append(&engine, &cpu, &[row(3, "a", 3.0)]).await.unwrap();
        if committed {
            // The other statement is not durable yet: no decision is possible.
            log.hold();
            let commit = tokio::spawn(holder.commit());
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!waiter.is_finished() && !commit.is_finished());
            log.release();
            commit.await.unwrap().unwrap();
        } else {
            drop(holder);
        }
        let result = waiter.await.unwrap();
        match (committed, on_conflict) {
            (true, OnConflict::Error) => {
                assert_eq!(error(result).kind(), ErrorKind::UniqueViolation);
                assert_eq!(rows(&engine, &cpu).await, [row(3, "a", 3.0), row(5, "a", 1.0)]);
            }
            (true, OnConflict::Skip) => {
                assert_eq!(result.unwrap().1, 1);
                assert_eq!(rows(&engine, &cpu).await.len(), 3);
            }
            (false, _) => {
                assert_eq!(result.unwrap().0.rows, 2);
                assert_eq!(rows(&engine, &cpu).await.last(), Some(&row(5, "a", 2.0)));
            }
        }
    }
}

#[tokio::test]
async fn statements_that_wait_for_each_other_do_not_wait_forever() {
    let (_, cpu, engine) = opened(Collision::First, true);
    let mut one = engine.begin(AppendOptions::default()).unwrap();
    let mut two = engine.begin(AppendOptions::default()).unwrap();
    push(&mut one, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    push(&mut two, &cpu, &[row(2, "a", 2.0)]).await.unwrap();
    let first = tokio::spawn({
        let cpu = cpu.clone();
        async move {
            push(&mut one, &cpu, &[row(2, "a", 1.0)]).await?;
            one.commit().await
        }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let gave_way = error(push(&mut two, &cpu, &[row(1, "a", 2.0)]).await);
    assert_eq!(gave_way.kind(), ErrorKind::DeadlockDetected);
    assert!(gave_way.kind().is_retryable());
    drop(two);
    first.await.unwrap().unwrap();
    assert_eq!(rows(&engine, &cpu).await, [row(1, "a", 1.0), row(2, "a", 1.0)]);
}

#[tokio::test]
async fn a_cancelled_wait_leaves_no_trace() {
    let (_, cpu, engine) = opened(Collision::First, true);
    let mut holder = engine.begin(AppendOptions::default()).unwrap();
    push(&mut holder, &cpu, &[row(5, "a", 1.0)]).await.unwrap();
    let used = engine.status().memory_bytes;
    for _ in 0..3 {
        let mut waiter = engine.begin(AppendOptions::default()).unwrap();
        let taken = [row(5, "a", 2.0)];
        let waiting = push(&mut waiter, &cpu, &taken);
        assert!(tokio::time::timeout(Duration::from_millis(5), waiting).await.is_err());
    }
    assert_eq!(engine.status().memory_bytes, used);
    holder.commit().await.unwrap();
}
