//! TRIM: deletes the beginning of a chronicle in the order of commits (F103).

use std::sync::Arc;

use stratalog_engine::Engine;
use stratalog_model::{
    ChronicleDefinition, Collision, ErrorKind, EventStore, FrameKind, Gsn, GsnRange, TickRange,
    store::AppendOptions,
    tier::{ScanOrder, ScanRequest},
};

use crate::{fixture::*, memory_log::MemoryLog};

/// Events whose order of ticks differs from their order of gsn's, with gsn's from 1 onward.
fn shuffled(rows: i64) -> Vec<Row> {
    (0..rows).map(|at| row(at * 37 % rows, ["a", "b"][at as usize % 2], at as f64)).collect()
}

/// The events that remain after a TRIM before the gsn `before`. `all` is in the order of commits,
/// from gsn 1 onward.
fn left(all: &[Row], before: u64) -> Vec<Row> {
    let mut left: Vec<Row> = all.iter().skip(before as usize - 1).cloned().collect();
    left.sort_by_key(|row| row.tick);
    left
}

async fn gsns(engine: &Engine, definition: &Arc<ChronicleDefinition>, range: GsnRange) -> Vec<u64> {
    let request = ScanRequest { gsns: range, ..request(definition, ScanOrder::Any) };
    let mut gsns: Vec<u64> =
        scan(engine.snapshot().as_ref(), request).await.into_iter().map(|read| read.gsn).collect();
    gsns.sort_unstable();
    gsns
}

#[tokio::test]
async fn what_comes_before_a_position_goes() {
    let (log, cpu, engine) = opened(Collision::First, true);
    let events = shuffled(100);
    for chunk in events.chunks(7) {
        append(&engine, &cpu, chunk).await.unwrap();
    }
    assert_eq!(engine.trim(&cpu, Gsn(0)).await.unwrap(), 0);
    assert_eq!(engine.trim(&cpu, Gsn(1)).await.unwrap(), 0);
    let before = engine.snapshot();
    assert_eq!(engine.trim(&cpu, Gsn(31)).await.unwrap(), 30);
    assert_eq!(engine.trim(&cpu, Gsn(31)).await.unwrap(), 0);
    assert_eq!(rows(&engine, &cpu).await, left(&events, 31));
    assert_eq!(read(before.as_ref(), &cpu).await.len(), 100, "a snapshot has changed");
    // Only the keys of removed events are free again.
    let taken = error(append(&engine, &cpu, &[events[50].clone()]).await);
    assert_eq!(taken.kind(), ErrorKind::UniqueViolation);
    append(&engine, &cpu, &[events[5].clone()]).await.unwrap();
    let trims = log.frames().iter().filter(|frame| frame.kind == FrameKind::Trim).count();
    assert_eq!(trims, 1);
    let reopened = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&cpu));
    assert_eq!(
        read(reopened.snapshot().as_ref(), &cpu).await,
        read(engine.snapshot().as_ref(), &cpu).await
    );
    assert_eq!(reopened.trim(&cpu, Gsn(101)).await.unwrap(), 70);
}

#[tokio::test]
async fn what_is_not_there_yet_is_not_trimmed() {
    let (_, cpu, engine) = opened(Collision::All, true);
    append(&engine, &cpu, &shuffled(10)).await.unwrap();
    let refused = error(engine.trim(&cpu, Gsn(12)).await);
    assert_eq!(refused.kind(), ErrorKind::InvalidParameterValue);
    assert!(refused.hint().unwrap().contains("BEFORE GSN 11"), "{refused}");
    assert_eq!(engine.trim(&cpu, Gsn(11)).await.unwrap(), 10);
    assert!(rows(&engine, &cpu).await.is_empty());
}

#[tokio::test]
async fn what_is_pending_stays_and_nothing_goes_before_it_is_durable() {
    let (log, cpu, engine) = opened(Collision::Last, true);
    append(&engine, &cpu, &[row(1, "a", 1.0), row(2, "a", 2.0)]).await.unwrap();
    let mut pending = engine.begin(AppendOptions::default()).unwrap();
    push(&mut pending, &cpu, &[row(1, "a", 3.0)]).await.unwrap();
    log.hold();
    let trim = tokio::spawn({
        let (engine, cpu) = (engine.clone(), cpu.clone());
        async move { engine.trim(&cpu, Gsn(3)).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert!(!trim.is_finished());
    assert_eq!(rows(&engine, &cpu).await.len(), 2);
    log.release();
    assert_eq!(trim.await.unwrap().unwrap(), 2);
    assert!(rows(&engine, &cpu).await.is_empty());
    pending.commit().await.unwrap();
    assert_eq!(rows(&engine, &cpu).await, [row(1, "a", 3.0)]);
}

/// The trimmed events are in the journal, in tablets, in stories, or some in each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_hidden_in_every_tier_and_space_comes_back() {
    for collision in [Collision::First, Collision::Last, Collision::All] {
        for tier in 0..4 {
            let (log, mut stored) = (MemoryLog::default(), Stored::new(5));
            let cpu = chronicle(1, collision, true);
            let engine = stored.open(&log, &cpu);
            let events = shuffled(400);
            for (number, chunk) in events.chunks(50).enumerate() {
                append(&engine, &cpu, chunk).await.unwrap();
                match (tier, number) {
                    (1, _) | (3, 4) => drop(engine.flush(cpu.id).await.unwrap()),
                    (2, _) | (3, 1) => drop(engine.compact(cpu.id).await.unwrap()),
                    _ => {}
                }
            }
            let place = format!("{collision}, {tier}");
            let pinned = engine.snapshot();
            assert_eq!(engine.trim(&cpu, Gsn(124)).await.unwrap(), 123, "{place}");
            assert_eq!(rows(&engine, &cpu).await, left(&events, 124), "{place}");
            assert_eq!(
                gsns(&engine, &cpu, GsnRange::new(Gsn(100), Gsn(130))).await,
                (124..130).collect::<Vec<_>>(),
                "{place}"
            );
            assert_eq!(read(pinned.as_ref(), &cpu).await.len(), 400, "{place}");
            drop(pinned);
            let deleted = |engine: &Engine, gsn| {
                engine.snapshot().deleted(&cpu, GsnRange::at(Gsn(gsn))).is_some()
            };
            assert!(deleted(&engine, 123) && !deleted(&engine, 124), "{place}");
            // Also for events moved only now, and for restarts before and after the move.
            let again = open_again(&log, &mut stored, &cpu, engine);
            assert_eq!(rows(&again, &cpu).await, left(&events, 124), "{place}, restarted");
            again.compact(cpu.id).await.unwrap();
            assert_eq!(rows(&again, &cpu).await, left(&events, 124), "{place}, compacted");
            let filed: u64 = again.pieces().iter().map(|piece| piece.rows).sum();
            assert_eq!(filed, 277, "{place}: the space of trimmed events is not given back");
            // The TRIM frame in the journal is no longer needed.
            again.release_journal().await.unwrap();
            let again = open_again(&log, &mut stored, &cpu, again);
            assert_eq!(rows(&again, &cpu).await, left(&events, 124), "{place}, at the end");
            assert!(deleted(&again, 123) && !deleted(&again, 124), "{place}, at the end");
            append(&again, &cpu, &[row(1000, "a", 1.0)]).await.unwrap();
            assert_eq!(again.trim(&cpu, Gsn(402)).await.unwrap(), 278, "{place}, all of it");
            assert!(rows(&again, &cpu).await.is_empty(), "{place}, all of it");
        }
    }
}

fn open_again(
    log: &MemoryLog,
    stored: &mut Stored,
    cpu: &Arc<ChronicleDefinition>,
    engine: Arc<Engine>,
) -> Arc<Engine> {
    drop(engine);
    stored.reopen();
    stored.open(&MemoryLog::with_frames(log.frames()), cpu)
}

/// A TRIM during a flush: the flush has written tablets, but its edit is not durable yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_on_its_way_into_a_tablet_is_trimmed_there() {
    let (stored, log) = (Stored::new(7), MemoryLog::default());
    let cpu = chronicle(1, Collision::First, true);
    let engine = stored.open(&log, &cpu);
    let events = shuffled(40);
    append(&engine, &cpu, &events).await.unwrap();
    stored.manifest().hold();
    let flush = tokio::spawn({
        let (engine, id) = (Arc::clone(&engine), cpu.id);
        async move { engine.flush(id).await }
    });
    while stored.manifest().waiting() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert_eq!(engine.trim(&cpu, Gsn(11)).await.unwrap(), 10);
    assert_eq!(rows(&engine, &cpu).await, left(&events, 11), "before the edit");
    stored.manifest().release();
    flush.await.unwrap().unwrap();
    assert_eq!(rows(&engine, &cpu).await, left(&events, 11), "behind it");
    engine.compact(cpu.id).await.unwrap();
    assert_eq!(rows(&engine, &cpu).await, left(&events, 11), "compacted");
}

/// Followers receive a gap for events removed by a DELETE, even if all these events were in the
/// journal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletes_are_remembered_by_position() {
    let (log, mut stored) = (MemoryLog::default(), Stored::new(9));
    let cpu = chronicle(1, Collision::All, true);
    let engine = stored.open(&log, &cpu);
    let events: Vec<Row> = (0..100).map(|at| row(at, "a", at as f64)).collect();
    append(&engine, &cpu, &events).await.unwrap();
    let lost = |engine: &Engine| engine.snapshot().deleted(&cpu, GsnRange::ALL);
    assert_eq!(lost(&engine), None);
    assert_eq!(engine.delete(&cpu, ranges(&[(i64::MIN, 20)]).hull()).await.unwrap(), 20);
    assert_eq!(lost(&engine), Some(GsnRange::new(Gsn(1), Gsn(21))));
    engine.compact(cpu.id).await.unwrap();
    assert_eq!(engine.delete(&cpu, ranges(&[(i64::MIN, 30)]).hull()).await.unwrap(), 10);
    assert_eq!(lost(&engine), Some(GsnRange::new(Gsn(1), Gsn(31))));
    engine.delete(&cpu, TickRange::ALL).await.unwrap();
    engine.compact(cpu.id).await.unwrap();
    append(&engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    engine.flush(cpu.id).await.unwrap();
    engine.release_journal().await.unwrap();
    let again = open_again(&log, &mut stored, &cpu, engine);
    assert_eq!(lost(&again), Some(GsnRange::new(Gsn(1), Gsn(101))));
    assert_eq!(rows(&again, &cpu).await, [row(1, "a", 1.0)]);
}

/// The order of disk calls does not depend on the order of data in memory: the same seed of a
/// simulator repeats the same calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_journal_tells_is_told_in_the_order_of_chronicles() {
    let (log, stored) = (MemoryLog::default(), Stored::new(5));
    let all: Vec<_> = (1..=12).map(|id| chronicle(id, Collision::All, true)).collect();
    let files = stored.files(&all[0]);
    all.iter().for_each(|definition| stored.define(definition));
    let find = |id| all.iter().find(|known| known.id == id).cloned();
    let clock = Arc::new(StillClock);
    let engine =
        Engine::open_with(Arc::new(log.clone()), clock, small(), &find, Some(files)).unwrap();
    for definition in all.iter().rev() {
        append(&engine, definition, &shuffled(4)).await.unwrap();
        let behind = Gsn(engine.snapshot().gsn().0 + 1);
        assert_eq!(engine.trim(definition, behind).await.unwrap(), 4);
    }
    engine.release_journal().await.unwrap();
    let edits = stored.manifest().frames();
    let moved = edits.iter().filter_map(|frame| {
        let (_, json) = frame.payload.split_first()?;
        let edit: serde_json::Value = serde_json::from_slice(json).ok()?;
        edit["move"]["chronicle"].as_u64()
    });
    assert_eq!(moved.collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
}
