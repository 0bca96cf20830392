//! The memory budget (CL-10).

use std::sync::Arc;

use stratalog_engine::{Engine, EngineSettings, Grapher};
use stratalog_model::{
    Collision, ErrorKind, EventStore,
    store::AppendOptions,
    tier::{ScanOrder, ScanRequest},
};

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
    // Small appends still fit, and reads continue.
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
    let (log, cpu, engine) = opened(Collision::First, true);
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
        let (_, cpu, engine) = opened(collision, true);
        for at in 0..300 {
            append(&engine, &cpu, &many(at * 7, 5)).await.unwrap();
        }
        engine.forget(cpu.id);
        assert_eq!(engine.status().memory_bytes, 0, "{collision}");
    }
}

#[tokio::test]
async fn replaced_events_make_room_once_no_snapshot_needs_them() {
    let log = MemoryLog::default();
    let cpu = chronicle(1, Collision::Last, true);
    let engine = open_with(&log, std::slice::from_ref(&cpu), settings(4_000_000)).unwrap();
    append(&engine, &cpu, &many(0, 5000)).await.unwrap();
    let once = engine.status().memory_bytes;
    let old = engine.snapshot();
    let again = |value: f64| -> Vec<Row> { (0..5000).map(|at| row(at, "a", value)).collect() };
    append(&engine, &cpu, &again(0.5)).await.unwrap();
    assert!(engine.status().memory_bytes > once * 5 / 4, "the snapshot needs both");
    let before =
        read(old.as_ref(), &cpu).await.into_iter().map(|read| read.row).collect::<Vec<_>>();
    assert_eq!(before, many(0, 5000));
    drop(old);
    // In total, a hundred times the budget, in large and small appends.
    for round in 0..60 {
        append(&engine, &cpu, &again(f64::from(round))).await.unwrap();
        for at in 0..40 {
            append(&engine, &cpu, &[row(at, "a", f64::from(round))]).await.unwrap();
        }
        assert!(engine.status().memory_bytes < once * 2, "round {round}");
    }
    assert_eq!(rows(&engine, &cpu).await, again(59.0));
    assert_eq!(engine.status().chronicles[0].rows, 5000);
    let reopened = open_with(&log, std::slice::from_ref(&cpu), settings(4_000_000)).unwrap();
    assert_eq!(rows(&reopened, &cpu).await, again(59.0));
    assert!(reopened.status().memory_bytes < once * 2);
}

#[tokio::test]
async fn recovery_does_not_hold_what_was_rolled_back() {
    let (log, cpu, engine) = opened(Collision::First, true);
    let mut long = engine.begin(AppendOptions::default()).unwrap();
    push(&mut long, &cpu, &many(0, 100)).await.unwrap();
    push(&mut long, &cpu, &many(100, 100)).await.unwrap();
    for round in 1..=20 {
        let mut lost = engine.begin(AppendOptions::default()).unwrap();
        for part in 0..3 {
            push(&mut lost, &cpu, &many(round * 1000 + part * 100, 100)).await.unwrap();
        }
        drop(lost);
        append(&engine, &cpu, &[row(round * 1000 + 50, "b", 1.0)]).await.unwrap();
    }
    push(&mut long, &cpu, &many(200, 100)).await.unwrap();
    long.commit().await.unwrap();
    let expected = rows(&engine, &cpu).await;
    assert_eq!(expected.len(), 320);

    // If all frames fit into memory, recovery reads the log once.
    let copy = MemoryLog::with_frames(log.frames());
    let roomy = open(&copy, std::slice::from_ref(&cpu));
    assert_eq!(rows(&roomy, &cpu).await, expected);
    assert_eq!(copy.replays(), 1);
    // If they do not fit, a second pass finds the committed statements.
    let copy = MemoryLog::with_frames(log.frames());
    let tight = open_with(&copy, std::slice::from_ref(&cpu), settings(200_000)).unwrap();
    assert_eq!(rows(&tight, &cpu).await, expected);
    assert_eq!(copy.replays(), 2);
    assert_eq!(
        read(tight.snapshot().as_ref(), &cpu).await,
        read(engine.snapshot().as_ref(), &cpu).await
    );
    append(&tight, &cpu, &many(1000, 10)).await.unwrap();
}

#[tokio::test]
async fn upserts_that_take_turns_leave_nothing_behind() {
    let log = MemoryLog::default();
    let both = [chronicle(1, Collision::Last, true), chronicle(2, Collision::Last, true)];
    let engine = open(&log, &both);
    let mut settled = 0;
    for round in 0..12_000_i64 {
        // The other chronicle's events are committed in between: no two batches are adjacent.
        for cpu in &both {
            append(&engine, cpu, &[row(round % 50, "a", round as f64)]).await.unwrap();
        }
        if round == 4000 {
            settled = engine.status().memory_bytes;
        }
    }
    let used = engine.status().memory_bytes;
    assert!(used < settled * 2, "{settled} bytes after 4000 rounds, {used} after 12000");
    let expected: Vec<Row> = (0..50).map(|tick| row(tick, "a", (11_950 + tick) as f64)).collect();
    let again = open(&MemoryLog::with_frames(log.frames()), &both);
    for cpu in &both {
        assert_eq!(rows(&engine, cpu).await, expected);
        assert_eq!(rows(&again, cpu).await, expected);
        for tick in [0, 17, 49] {
            let found = scan(
                engine.snapshot().as_ref(),
                ScanRequest {
                    ticks: ranges(&[(tick, tick + 1)]),
                    keys: vec![host_filter(&["a"])],
                    ..request(cpu, ScanOrder::Ascending)
                },
            )
            .await;
            assert_eq!(
                found.into_iter().map(|read| read.row).collect::<Vec<_>>(),
                [row(tick, "a", (11_950 + tick) as f64)]
            );
        }
    }
}

#[tokio::test]
async fn keys_of_what_was_rolled_back_are_forgotten() {
    for collision in [Collision::All, Collision::First, Collision::Last, Collision::Next] {
        let (_, cpu, engine) = opened(collision, true);
        append(&engine, &cpu, &[row(0, "stays", 1.0)]).await.unwrap();
        // One statement is pending during the whole test.
        let mut long = engine.begin(AppendOptions::default()).unwrap();
        push(&mut long, &cpu, &[row(1, "long", 1.0)]).await.unwrap();
        for round in 0..30 {
            let mut lost = engine.begin(AppendOptions::default()).unwrap();
            let keys: Vec<Row> =
                (0..1000).map(|at| row(at, &format!("host {round} {at}"), 1.0)).collect();
            push(&mut lost, &cpu, &keys).await.unwrap();
            drop(lost);
            let used = engine.status().memory_bytes;
            assert!(used < 1_500_000, "{collision}: {used} bytes after {round} rounds");
        }
        long.commit().await.unwrap();
        assert_eq!(rows(&engine, &cpu).await, [row(0, "stays", 1.0), row(1, "long", 1.0)]);
    }
}

#[tokio::test]
async fn a_key_that_an_event_waits_to_take_is_not_forgotten() {
    let (log, cpu, engine) = opened(Collision::Last, true);
    append(&engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    let mut later = engine.begin(AppendOptions::default()).unwrap();
    push(&mut later, &cpu, &[row(1, "a", 2.0)]).await.unwrap();
    engine.delete(&cpu, ranges(&[(i64::MIN, i64::MAX)]).hull()).await.unwrap();
    // A free series would take the place of the key "a".
    append(&engine, &cpu, &[row(1, "b", 3.0)]).await.unwrap();
    later.commit().await.unwrap();
    assert_eq!(rows(&engine, &cpu).await, [row(1, "a", 2.0), row(1, "b", 3.0)]);
    append(&engine, &cpu, &[row(1, "b", 4.0)]).await.unwrap();
    append(&engine, &cpu, &[row(1, "a", 5.0)]).await.unwrap();
    assert_eq!(rows(&engine, &cpu).await, [row(1, "b", 4.0), row(1, "a", 5.0)]);
    let again = open(&MemoryLog::with_frames(log.frames()), std::slice::from_ref(&cpu));
    assert_eq!(rows(&again, &cpu).await, [row(1, "b", 4.0), row(1, "a", 5.0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_wait_while_events_move_out() {
    let (log, stored) = (MemoryLog::default(), Stored::new(1));
    let cpu = chronicle(1, Collision::First, true);
    let definitions = [Arc::clone(&cpu)];
    let find = |id| definitions.iter().find(|definition| definition.id == id).cloned();
    let settings = EngineSettings { move_from_percent: 100, ..settings(500_000) };
    let (clock, files) = (Arc::new(StillClock), Some(stored.files(&cpu)));
    let engine = Engine::open_with(Arc::new(log), clock, settings, &find, files).unwrap();
    let grapher = Grapher::start(&engine).unwrap();
    let writers = (0..4).map(|writer| {
        let (engine, cpu) = (Arc::clone(&engine), Arc::clone(&cpu));
        tokio::spawn(async move {
            for at in 0..50 {
                append(&engine, &cpu, &many((writer * 50 + at) * 500, 500)).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert!(engine.status().memory_bytes <= 500_000);
    let found = rows(&engine, &cpu).await;
    assert_eq!(found.len(), 100_000);
    assert_eq!(found, many(0, 100_000));
    // An append larger than the budget is refused at once, and no part of the append is kept.
    let refused = error(append(&engine, &cpu, &many(1 << 30, 30_000)).await);
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
    append(&engine, &cpu, &many(1 << 30, 500)).await.unwrap();
    // Without a grapher no append waits.
    drop(grapher);
    let mut at = 1 << 31;
    let refused = loop {
        match append(&engine, &cpu, &many(at, 500)).await {
            Ok(_) => at += 500,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
}
