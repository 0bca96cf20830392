//! Many appenders at once.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use stratalog_engine::Engine;
use stratalog_model::{
    ChronicleDefinition, Collision, ErrorKind, EventStore,
    store::{AppendOptions, OnConflict},
};

use crate::{fixture::*, memory_log::MemoryLog};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_on_one_hot_key() {
    for collision in [Collision::First, Collision::Last, Collision::Next, Collision::All] {
        let (log, cpu, engine) = opened(collision, true);
        hot_key(&engine, &cpu).await;
        let found = read(engine.snapshot().as_ref(), &cpu).await;
        let reopened = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&cpu));
        assert_eq!(read(reopened.snapshot().as_ref(), &cpu).await, found, "{collision}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_on_one_hot_key_while_events_move() {
    for collision in [Collision::First, Collision::Last, Collision::Next, Collision::All] {
        let cpu = chronicle(1, collision, true);
        let (log, mut stored) = (MemoryLog::default(), Stored::new(7));
        let engine = stored.open(&log, &cpu);
        let (moving, id) = (Arc::clone(&engine), cpu.id);
        let done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&done);
        let mover = tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                moving.flush(id).await.unwrap();
                moving.release_journal().await.unwrap();
                moving.compact(id).await.unwrap();
            }
        });
        hot_key(&engine, &cpu).await;
        done.store(true, Ordering::SeqCst);
        mover.await.unwrap();
        let found = read(engine.snapshot().as_ref(), &cpu).await;
        stored.reopen();
        let reopened = stored.open(&MemoryLog::with_frames(log.frames()), &cpu);
        assert_eq!(read(reopened.snapshot().as_ref(), &cpu).await, found, "{collision}");
    }
}

async fn hot_key(engine: &Arc<Engine>, cpu: &Arc<ChronicleDefinition>) {
    let collision = cpu.collision;
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let (engine, cpu) = (Arc::clone(engine), cpu.clone());
            tokio::spawn(async move {
                let mut stored = 0;
                for step in 0..60 {
                    let value = (task * 1000 + step) as f64;
                    let mut append = engine.begin(AppendOptions::default()).unwrap();
                    let rows =
                        [row(step / 10, "hot", value), row(step, &format!("t{task}"), value)];
                    match append.push(&cpu, batch(&cpu, &rows), OnConflict::Skip).await {
                        Ok(admitted) if step % 7 == 3 => drop((admitted, append)),
                        Ok(_) => stored += append.commit().await.unwrap().rows,
                        Err(refused) => assert_eq!(refused.kind(), ErrorKind::DeadlockDetected),
                    }
                    if step % 16 == 0 {
                        let snapshot = engine.snapshot();
                        let once = read(snapshot.as_ref(), &cpu).await;
                        let extent = snapshot.extent(&cpu, &stratalog_model::TickRanges::all());
                        assert!(extent.is_none_or(|it| it.rows == once.len() as u64));
                        tokio::task::yield_now().await;
                        assert_eq!(once, read(snapshot.as_ref(), &cpu).await);
                    }
                }
                stored
            })
        })
        .collect();
    let mut stored = 0;
    for task in tasks {
        stored += task.await.unwrap();
    }
    let found = read(engine.snapshot().as_ref(), cpu).await;
    assert_eq!(engine.snapshot().gsn().0, stored);
    let keys: HashSet<_> =
        found.iter().map(|read| (read.row.host.clone(), read.row.tick)).collect();
    match collision {
        Collision::All => assert_eq!(found.len() as u64, stored),
        Collision::Last => {
            assert_eq!(keys.len(), found.len());
            // The newest commit of each key is visible.
            let hot: Vec<_> = found.iter().filter(|read| read.row.host == "hot").collect();
            assert_eq!(hot.len(), 6);
        }
        _ => {
            assert_eq!(keys.len(), found.len());
            assert_eq!(found.len() as u64, stored);
        }
    }
    let gsns: HashSet<u64> = found.iter().map(|read| read.gsn).collect();
    assert_eq!(gsns.len(), found.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn overlapping_statements_neither_hang_nor_lose() {
    let (_, cpu, engine) = opened(Collision::First, true);
    let tasks: Vec<_> = (0..8_i64)
        .map(|task| {
            let (engine, cpu) = (Arc::clone(&engine), cpu.clone());
            tokio::spawn(async move {
                let mut committed = Vec::new();
                for round in 0..40 {
                    let mut append = engine.begin(AppendOptions::default()).unwrap();
                    // Each task uses its own order of keys, over several pushes: deadlocks occur.
                    let keys: Vec<i64> =
                        (0..4).map(|at| (at * (task + 1) + round) % 9 + round * 9).collect();
                    let mut pushed = Ok(());
                    for key in &keys {
                        let rows = batch(&cpu, &[row(*key, "a", task as f64)]);
                        pushed = append.push(&cpu, rows, OnConflict::Skip).await.map(|admitted| {
                            if !admitted.events.is_empty() {
                                committed.push((*key, task as f64));
                            }
                        });
                        if pushed.is_err() {
                            break;
                        }
                        tokio::task::yield_now().await;
                    }
                    match pushed {
                        Ok(()) => {
                            append.commit().await.unwrap();
                        }
                        Err(refused) => {
                            assert_eq!(refused.kind(), ErrorKind::DeadlockDetected);
                            committed.retain(|(key, _)| *key < round * 9);
                        }
                    }
                }
                committed
            })
        })
        .collect();
    let mut expected = Vec::new();
    for task in tasks {
        expected.extend(task.await.unwrap());
    }
    expected.sort_by_key(|a| a.0);
    let found: Vec<(i64, f64)> =
        rows(&engine, &cpu).await.iter().map(|r| (r.tick, r.value)).collect();
    assert_eq!(found, expected);
}
