//! DELETE of a prefix or a suffix (F22).

use std::sync::Arc;

use stratalog_model::{
    Collision, ErrorKind, EventStore, FrameKind, Tick, TickRange, TickRanges, store::AppendOptions,
};

use crate::{fixture::*, memory_log::MemoryLog};

fn range(start: i64, end: i64) -> TickRange {
    ranges(&[(start, end)]).hull()
}

#[tokio::test]
async fn only_the_ends_can_be_deleted() {
    let (log, cpu, engine) = opened(Collision::First, true);
    assert_eq!(engine.delete(&cpu, TickRange::ALL).await.unwrap(), 0);
    let events: Vec<Row> = (0..10).map(|at| row(at, "a", at as f64)).collect();
    append(&engine, &cpu, &events).await.unwrap();
    let refused = error(engine.delete(&cpu, range(3, 5)).await);
    assert_eq!(refused.kind(), ErrorKind::FeatureNotSupported);
    assert!(refused.hint().is_some());
    assert_eq!(engine.delete(&cpu, range(20, 30)).await.unwrap(), 0);
    assert_eq!(engine.delete(&cpu, range(-5, 3)).await.unwrap(), 3);
    assert_eq!(engine.delete(&cpu, range(8, i64::MAX)).await.unwrap(), 2);
    assert_eq!(log.frames().iter().filter(|frame| frame.kind == FrameKind::Delete).count(), 2);
    let left: Vec<i64> = rows(&engine, &cpu).await.iter().map(|row| row.tick).collect();
    assert_eq!(left, [3, 4, 5, 6, 7]);
    assert_eq!(engine.delete(&cpu, TickRange::ALL).await.unwrap(), 5);
    assert!(rows(&engine, &cpu).await.is_empty());
    let reopened = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&cpu));
    assert!(rows(&reopened, &cpu).await.is_empty());
}

#[tokio::test]
async fn nothing_is_gone_before_it_is_durable() {
    let (log, cpu, engine) = opened(Collision::First, true);
    append(&engine, &cpu, &[row(1, "a", 1.0), row(2, "a", 2.0)]).await.unwrap();
    log.hold();
    let delete = tokio::spawn({
        let (engine, cpu) = (engine.clone(), cpu.clone());
        async move { engine.delete(&cpu, range(0, 2)).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert!(!delete.is_finished());
    assert_eq!(rows(&engine, &cpu).await.len(), 2);
    log.release();
    assert_eq!(delete.await.unwrap().unwrap(), 1);
    assert_eq!(rows(&engine, &cpu).await.len(), 1);
}

#[tokio::test]
async fn what_comes_later_stays_and_keys_are_free_again() {
    for collision in [Collision::First, Collision::Last, Collision::Next, Collision::All] {
        let (log, cpu, engine) = opened(collision, true);
        append(&engine, &cpu, &[row(1, "a", 1.0), row(5, "a", 2.0), row(9, "b", 3.0)])
            .await
            .unwrap();
        // Pushed before the delete, committed after it.
        let mut open_append = engine.begin(AppendOptions::default()).unwrap();
        push(&mut open_append, &cpu, &[row(2, "a", 4.0)]).await.unwrap();
        let before = engine.snapshot();
        assert_eq!(engine.delete(&cpu, range(i64::MIN, 6)).await.unwrap(), 2);
        open_append.commit().await.unwrap();
        append(&engine, &cpu, &[row(1, "a", 5.0)]).await.unwrap();
        let expected = [row(1, "a", 5.0), row(2, "a", 4.0), row(9, "b", 3.0)];
        assert_eq!(rows(&engine, &cpu).await, expected, "{collision}");
        let mut by_key = request(&cpu, stratalog_model::tier::ScanOrder::Ascending);
        by_key.keys = vec![host_filter(&["a"])];
        assert_eq!(scan(engine.snapshot().as_ref(), by_key.clone()).await.len(), 2);
        assert_eq!(scan(before.as_ref(), by_key).await.len(), 2, "the index has moved on");
        let seen: Vec<f64> =
            read(before.as_ref(), &cpu).await.iter().map(|r| r.row.value).collect();
        assert_eq!(seen, [1.0, 2.0, 3.0]);
        let extent = engine.snapshot().extent(&cpu, &TickRanges::all()).unwrap();
        assert_eq!((extent.rows, extent.ticks), (3, range(1, 10)));
        let reopened = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&cpu));
        assert_eq!(
            read(reopened.snapshot().as_ref(), &cpu).await,
            read(engine.snapshot().as_ref(), &cpu).await
        );
    }
}

/// One transaction: rows, a delete of earlier rows and of some of the transaction's rows, a delete
/// of another chronicle, and rows with freed keys.
#[tokio::test]
async fn a_delete_without_its_commit_frame_is_dropped() {
    for collision in [Collision::First, Collision::Last, Collision::Next, Collision::All] {
        let (cpu, other) = (chronicle(1, collision, true), chronicle(2, collision, true));
        let (log, both) = (MemoryLog::default(), [Arc::clone(&cpu), Arc::clone(&other)]);
        let engine = open(&log, &both);
        append(&engine, &cpu, &[row(1, "a", 1.0), row(5, "a", 2.0), row(9, "b", 3.0)])
            .await
            .unwrap();
        append(&engine, &other, &[row(1, "a", 1.0)]).await.unwrap();
        let frames_before = log.frames().len();
        let before = (rows(&engine, &cpu).await, rows(&engine, &other).await);

        let mut open_append = engine.begin(AppendOptions::default()).unwrap();
        push(&mut open_append, &cpu, &[row(2, "a", 4.0), row(20, "a", 5.0)]).await.unwrap();
        open_append.delete(&cpu, range(i64::MIN, 6)).await.unwrap();
        open_append.delete(&other, TickRange::ALL).await.unwrap();
        push(&mut open_append, &cpu, &[row(1, "a", 6.0), row(2, "a", 7.0)]).await.unwrap();
        let seen = (rows(&engine, &cpu).await, rows(&engine, &other).await);
        assert_eq!(seen, before, "{collision}: not yet for others");
        let base = engine.snapshot();
        let own = open_append.over(&base).await.unwrap();
        assert_eq!(own.extent(&cpu, &TickRanges::all()).map_or(4, |extent| extent.rows), 4);
        open_append.commit().await.unwrap();

        let expected = [row(1, "a", 6.0), row(2, "a", 7.0), row(9, "b", 3.0), row(20, "a", 5.0)];
        let after = (expected.to_vec(), Vec::new());
        let seen = (rows(&engine, &cpu).await, rows(&engine, &other).await);
        assert_eq!(seen, after, "{collision}");
        let frames = log.frames();
        for count in frames_before..=frames.len() {
            let log = MemoryLog::with_frames(frames.iter().take(count).cloned().collect());
            let reopened = open(&log, &both);
            let found = (rows(&reopened, &cpu).await, rows(&reopened, &other).await);
            let whole = count == frames.len();
            assert_eq!(found, if whole { after.clone() } else { before.clone() }, "{count} frames");
        }
        let reopened = open(&MemoryLog::with_frames(frames), &both);
        assert_eq!(
            read(reopened.snapshot().as_ref(), &cpu).await,
            read(engine.snapshot().as_ref(), &cpu).await
        );
    }
}

#[tokio::test]
async fn keys_that_a_statement_deletes_are_taken_for_others_until_it_commits() {
    let (_, cpu, engine) = opened(Collision::First, true);
    append(&engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    let mut first = engine.begin(AppendOptions::default()).unwrap();
    first.delete(&cpu, TickRange::ALL).await.unwrap();
    let taken = error(append(&engine, &cpu, &[row(1, "a", 2.0)]).await);
    assert_eq!(taken.kind(), ErrorKind::UniqueViolation);
    push(&mut first, &cpu, &[row(1, "a", 3.0)]).await.unwrap();
    // A new statement waits for the statement with the pending key.
    let waiting = tokio::spawn({
        let (engine, cpu) = (engine.clone(), cpu.clone());
        async move { append(&engine, &cpu, &[row(1, "a", 4.0)]).await.map(drop) }
    });
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert!(!waiting.is_finished());
    // The event is deleted before the statement commits, but the key is not free yet.
    assert_eq!(engine.delete(&cpu, TickRange::ALL).await.unwrap(), 1);
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert!(!waiting.is_finished());
    first.commit().await.unwrap();
    assert_eq!(error(waiting.await.unwrap()).kind(), ErrorKind::UniqueViolation);
    assert_eq!(rows(&engine, &cpu).await, [row(1, "a", 3.0)]);
}

#[tokio::test]
async fn a_key_is_taken_over_once() {
    let (_, cpu, engine) = opened(Collision::First, true);
    append(&engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    let mut one = engine.begin(AppendOptions::default()).unwrap();
    one.delete(&cpu, TickRange::ALL).await.unwrap();
    push(&mut one, &cpu, &[row(1, "a", 2.0)]).await.unwrap();
    let savepoint = one.savepoint().unwrap();
    one.delete(&cpu, TickRange::ALL).await.unwrap();
    push(&mut one, &cpu, &[row(1, "a", 3.0)]).await.unwrap();
    one.roll_back_to(savepoint);
    let again = push(&mut one, &cpu, &[row(1, "a", 4.0)]).await;
    assert_eq!(error(again).kind(), ErrorKind::UniqueViolation);
    one.roll_back_to(savepoint);
    one.commit().await.unwrap();
    assert_eq!(rows(&engine, &cpu).await, [row(1, "a", 2.0)]);
}

#[tokio::test]
async fn deletes_cut_merged_and_unordered_batches() {
    let (log, cpu, engine) = opened(Collision::Last, true);
    for at in 0..400_i64 {
        append(&engine, &cpu, &[row((at * 37) % 400, "a", at as f64)]).await.unwrap();
    }
    for at in 0..50_i64 {
        append(&engine, &cpu, &[row(at * 8, "a", 1000.0 + at as f64)]).await.unwrap();
    }
    assert_eq!(engine.delete(&cpu, range(-9, 100)).await.unwrap(), 100);
    for at in 50..60_i64 {
        append(&engine, &cpu, &[row(at, "a", 2000.0)]).await.unwrap();
    }
    assert_eq!(engine.delete(&cpu, range(390, 999)).await.unwrap(), 10);
    let ticks: Vec<i64> = rows(&engine, &cpu).await.iter().map(|row| row.tick).collect();
    assert_eq!(ticks, (50..60).chain(100..390).collect::<Vec<_>>());
    let reopened = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&cpu));
    assert_eq!(rows(&reopened, &cpu).await, rows(&engine, &cpu).await);
}

#[tokio::test]
async fn a_delete_that_fails_deletes_nothing() {
    let (log, cpu, engine) = opened(Collision::First, true);
    append(&engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    log.fail(Some(ErrorKind::DiskFull));
    assert_eq!(error(engine.delete(&cpu, TickRange::ALL).await).kind(), ErrorKind::DiskFull);
    assert_eq!(rows(&engine, &cpu).await.len(), 1);
    log.fail(None);
    assert_eq!(engine.delete(&cpu, TickRange::ALL).await.unwrap(), 1);
}

/// A DELETE during a flush: the flush has written a tablet, but its edit is not durable yet. The
/// delete must also hide the events in the tablet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_on_its_way_into_a_tablet_is_deleted_there() {
    for collision in [Collision::First, Collision::Last, Collision::Next] {
        for gone in [TickRange::ALL, range(i64::MIN, 6)] {
            let (stored, log) = (Stored::new(7), MemoryLog::default());
            let cpu = chronicle(1, collision, true);
            let engine = stored.open(&log, &cpu);
            let events: Vec<Row> = (0..10).map(|at| row(at, "a", at as f64)).collect();
            append(&engine, &cpu, &events).await.unwrap();
            stored.manifest().hold();
            let flush = tokio::spawn({
                let (engine, id) = (Arc::clone(&engine), cpu.id);
                async move { engine.flush(id).await }
            });
            while stored.manifest().waiting() == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            let left: Vec<Row> =
                events.iter().filter(|event| !gone.contains(Tick(event.tick))).cloned().collect();
            engine.delete(&cpu, gone).await.unwrap();
            assert_eq!(rows(&engine, &cpu).await, left, "{collision}, before the edit");
            stored.manifest().release();
            assert_eq!(flush.await.unwrap().unwrap().rows, 10);
            assert_eq!(rows(&engine, &cpu).await, left, "{collision}, behind it");
            // The keys are free again.
            append(&engine, &cpu, &[row(3, "a", 0.5)]).await.unwrap();
            let mut after = left.clone();
            after.insert(0, row(3, "a", 0.5));
            assert_eq!(rows(&engine, &cpu).await, after, "{collision}");
            engine.flush(cpu.id).await.unwrap();
            engine.compact(cpu.id).await.unwrap();
            assert_eq!(rows(&engine, &cpu).await, after, "{collision}, compacted");
        }
    }
}
