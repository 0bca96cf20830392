//! The memory budget (CL-10).

use stratalog_engine::EngineSettings;
use stratalog_model::{Collision, ErrorKind, EventStore, store::AppendOptions};

use crate::{fixture::*, memory_log::MemoryLog};

fn settings(bytes: u64) -> EngineSettings {
    EngineSettings { memory_bytes_max: bytes, ..EngineSettings::default() }
}

fn many(from: i64, rows: i64) -> Vec<Row> {
    (from..from + rows).map(|at| row(at, "a", at as f64)).collect()
}

#[tokio::test]
async fn over_the_budget_only_that_statement_fails() {
    let log = MemoryLog::default();
    let cpu = chronicle(1, Collision::First, true);
    let engine = open_with(&log, std::slice::from_ref(&cpu), settings(500_000)).unwrap();
    append(&engine, &cpu, &many(0, 1000)).await.unwrap();
    let used = engine.status().memory_bytes;
    let refused = error(append(&engine, &cpu, &many(1000, 20_000)).await);
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
    assert!(refused.message().contains("500000 bytes"), "{refused}");
    assert!(refused.hint().is_some());
    assert_eq!(engine.status().memory_bytes, used);
    // Small ones still fit, reads go on.
    append(&engine, &cpu, &many(1000, 10)).await.unwrap();
    assert_eq!(rows(&engine, &cpu).await.len(), 1010);
}

#[tokio::test]
async fn pending_events_count_and_come_back() {
    let log = MemoryLog::default();
    let cpu = chronicle(1, Collision::First, true);
    let engine = open_with(&log, std::slice::from_ref(&cpu), settings(500_000)).unwrap();
    let mut large = engine.begin(AppendOptions::default()).unwrap();
    let mut pushed = 0;
    let refused = loop {
        match push(&mut large, &cpu, &many(pushed, 500)).await {
            Ok(()) => pushed += 500,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
    assert!(pushed >= 500);
    assert!(engine.status().memory_bytes <= 500_000);
    assert_eq!(
        error(append(&engine, &cpu, &many(1 << 30, 500)).await).kind(),
        ErrorKind::OutOfMemory
    );
    drop(large);
    append(&engine, &cpu, &many(0, 500)).await.unwrap();
    assert_eq!(rows(&engine, &cpu).await.len(), 500);
}

#[tokio::test]
async fn a_delete_makes_room_once_no_snapshot_needs_it() {
    let log = MemoryLog::default();
    let cpu = chronicle(1, Collision::First, true);
    let engine = open_with(&log, std::slice::from_ref(&cpu), settings(1_000_000)).unwrap();
    let mut at = 0;
    while append(&engine, &cpu, &many(at, 1000)).await.is_ok() {
        at += 1000;
    }
    let full = engine.status().memory_bytes;
    let pinned = engine.snapshot();
    let deleted = engine.delete(&cpu, ranges(&[(i64::MIN, at - 500)]).hull()).await.unwrap();
    assert_eq!(deleted as i64, at - 500);
    assert_eq!(read(pinned.as_ref(), &cpu).await.len() as i64, at);
    drop(pinned);
    assert!(engine.status().memory_bytes < full / 4, "{}", engine.status().memory_bytes);
    append(&engine, &cpu, &many(at, 1000)).await.unwrap();
    assert_eq!(rows(&engine, &cpu).await.len(), 1500);
}

#[tokio::test]
async fn recovery_takes_what_is_durable_even_over_the_budget() {
    let log = MemoryLog::default();
    let cpu = chronicle(1, Collision::First, true);
    let engine = open(&log, std::slice::from_ref(&cpu));
    append(&engine, &cpu, &many(0, 10_000)).await.unwrap();
    let small = open_with(
        &MemoryLog::with_frames(log.frames()),
        std::slice::from_ref(&cpu),
        settings(1000),
    )
    .unwrap();
    assert_eq!(rows(&small, &cpu).await.len(), 10_000);
    assert_eq!(error(append(&small, &cpu, &many(10_000, 1)).await).kind(), ErrorKind::OutOfMemory);
}

#[tokio::test]
async fn memory_after_everything_is_gone_is_none() {
    for collision in [Collision::All, Collision::First, Collision::Last, Collision::Next] {
        let log = MemoryLog::default();
        let cpu = chronicle(1, collision, true);
        let engine = open(&log, std::slice::from_ref(&cpu));
        for at in 0..300 {
            append(&engine, &cpu, &many(at * 7, 5)).await.unwrap();
        }
        engine.forget(cpu.id);
        assert_eq!(engine.status().memory_bytes, 0, "{collision}");
    }
}
