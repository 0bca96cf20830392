//! Events in tablets and, while the budget has room, in memory as well (F12, F29).

use std::{path::Path, sync::Arc};

use stratalog_engine::{Engine, EngineSettings, Grapher};
use stratalog_model::{
    ChronicleDefinition, Collision, Disk, ErrorKind, EventStore, TierName, Tiering,
};

use crate::{fixture::*, life::try_read, memory_log::MemoryLog};

const ROWS: i64 = 500;

fn many(from: i64) -> Vec<Row> {
    (from..from + ROWS).map(|at| row(at, "a", at as f64)).collect()
}

fn open(
    stored: &Stored,
    log: &MemoryLog,
    known: &[Arc<ChronicleDefinition>],
    bytes: u64,
) -> Arc<Engine> {
    known.iter().for_each(|definition| stored.define(definition));
    let files = stored.files(&known[0]);
    let known = known.to_vec();
    let find = move |id| known.iter().find(|definition| definition.id == id).cloned();
    let settings = EngineSettings { backlog_bytes_max: bytes, ..small() };
    let clock = Arc::new(StillClock);
    Engine::open_with(Arc::new(log.clone()), clock, settings, &find, Some(files)).unwrap()
}

/// First ticks of the tablets in memory, and first ticks of the other tablets.
fn tablets(engine: &Engine, definition: &ChronicleDefinition) -> (Vec<i64>, Vec<i64>) {
    let all = engine.pieces();
    let tablets = all
        .iter()
        .filter(|piece| piece.chronicle == definition.id && piece.tier == TierName::Tablet);
    let (kept, others): (Vec<_>, Vec<_>) = tablets.partition(|piece| piece.memory_bytes > 0);
    let starts = |pieces: Vec<&stratalog_model::store::PieceStatus>| {
        pieces.iter().map(|piece| piece.ticks.start.0).collect()
    };
    (starts(kept), starts(others))
}

#[tokio::test]
async fn what_is_in_memory_is_read_without_its_file() {
    for bytes in [0, 1 << 20] {
        let (log, stored) = (MemoryLog::default(), Stored::new(1));
        let cpu = chronicle(1, Collision::Last, true);
        let engine = open(&stored, &log, std::slice::from_ref(&cpu), bytes);
        append(&engine, &cpu, &many(0)).await.unwrap();
        engine.flush(cpu.id).await.unwrap();
        // Later events and deletes also hide rows of blocks in memory.
        append(&engine, &cpu, &[row(7, "a", -1.0)]).await.unwrap();
        engine.delete(&cpu, ranges(&[(i64::MIN, 3)]).hull()).await.unwrap();
        let mut expected = many(0).split_off(3);
        expected[4] = row(7, "a", -1.0);
        assert_eq!(rows(&engine, &cpu).await, expected);
        let (kept, others) = tablets(&engine, &cpu);
        assert_eq!((kept.is_empty(), others.is_empty()), (bytes == 0, bytes > 0));
        let disk = stored.disk();
        let folder = Path::new("/data/tablets");
        for path in disk.list(folder).unwrap().into_iter().map(|name| folder.join(name)) {
            let flipped = disk.contents(&path).unwrap().iter().map(|byte| byte ^ 0x10).collect();
            disk.overwrite(&path, flipped);
        }
        let found = try_read(engine.snapshot().as_ref(), &cpu).await;
        match bytes {
            0 => assert_eq!(error(found).kind(), ErrorKind::DataCorrupted),
            _ => assert_eq!(found.unwrap().len(), expected.len()),
        }
    }
}

#[tokio::test]
async fn the_oldest_go_first_and_those_of_pinned_tables_last() {
    let (log, stored) = (MemoryLog::default(), Stored::new(2));
    let plain = chronicle(1, Collision::All, true);
    let mut pinned = definition(2, Collision::All, true);
    pinned.tiering = Tiering { pin_for_ms: Some(1), ..Tiering::default() };
    let pinned = Arc::new(pinned);
    // Room for a dozen tablets.
    let engine = open(&stored, &log, &[Arc::clone(&plain), Arc::clone(&pinned)], 60_000);
    append(&engine, &pinned, &many(0)).await.unwrap();
    engine.flush(pinned.id).await.unwrap();
    let (kept, gone) = tablets(&engine, &pinned);
    assert!(gone.is_empty() && kept.len() > 4, "{kept:?} {gone:?}");
    for at in 0..3 {
        append(&engine, &plain, &many(at * ROWS)).await.unwrap();
        engine.flush(plain.id).await.unwrap();
    }
    assert_eq!(tablets(&engine, &pinned), (kept, gone));
    let (kept, gone) = tablets(&engine, &plain);
    assert!(!kept.is_empty() && kept.iter().min() > gone.iter().max(), "{kept:?} {gone:?}");
    let bytes: u64 = engine
        .pieces()
        .iter()
        .filter(|piece| piece.tier == TierName::Tablet)
        .map(|piece| piece.memory_bytes)
        .sum();
    assert!(bytes > 0 && bytes <= 60_000, "{bytes}");
    // If all tablets are pinned, the oldest are evicted: the bytes never exceed the budget.
    for at in 1..4 {
        append(&engine, &pinned, &many(at * ROWS)).await.unwrap();
        engine.flush(pinned.id).await.unwrap();
    }
    assert!(tablets(&engine, &plain).0.is_empty());
    let (kept, gone) = tablets(&engine, &pinned);
    assert!(!kept.is_empty() && kept.iter().min() > gone.iter().max(), "{kept:?} {gone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pinned_tablets_become_no_stories_by_themselves() {
    let (log, stored) = (MemoryLog::default(), Stored::new(3));
    let eager = Tiering { story_rows_max: Some(100), ..Tiering::default() };
    let mut plain = definition(1, Collision::All, true);
    plain.tiering = eager;
    let mut pinned = definition(2, Collision::All, true);
    pinned.tiering = Tiering { pin_for_ms: Some(1), ..eager };
    let (plain, pinned) = (Arc::new(plain), Arc::new(pinned));
    let engine = open(&stored, &log, &[Arc::clone(&plain), Arc::clone(&pinned)], 1 << 20);
    let _grapher = Grapher::start(&engine).unwrap();
    for definition in [&pinned, &plain] {
        append(&engine, definition, &many(0)).await.unwrap();
        engine.flush(definition.id).await.unwrap();
    }
    let has_stories = |definition: &ChronicleDefinition| {
        let mut pieces = engine.pieces().into_iter();
        pieces.any(|piece| piece.chronicle == definition.id && piece.tier == TierName::Story)
    };
    for _ in 0..200 {
        if has_stories(&plain) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(has_stories(&plain) && !has_stories(&pinned));
    // An explicit compaction moves pinned events, too.
    engine.compact(pinned.id).await.unwrap();
    assert!(has_stories(&pinned));
    assert_eq!(rows(&engine, &pinned).await, many(0));
}
