//! Table options for moves down the tiers, and for retention.

use std::{sync::Arc, time::Duration};

use stratalog_engine::{Engine, EngineSettings, Grapher};
use stratalog_model::{
    ChronicleDefinition, Clock, Collision, ErrorKind, EventStore, LatePolicy, Tick, TierName,
    Tiering,
};

use crate::{fixture::*, memory_log::MemoryLog};

fn many(from: i64, rows: i64) -> Vec<Row> {
    (from..from + rows).map(|at| row(at, "a", at as f64)).collect()
}

fn open_small(
    log: &MemoryLog,
    stored: &Stored,
    definition: &Arc<ChronicleDefinition>,
    settings: EngineSettings,
) -> Arc<Engine> {
    let known = Arc::clone(definition);
    let find = move |id| (id == known.id).then(|| Arc::clone(&known));
    let (clock, files) = (Arc::new(StillClock), Some(stored.files(definition)));
    Engine::open_with(Arc::new(log.clone()), clock, settings, &find, files).unwrap()
}

/// Waits until the grapher has done its work: until `done` returns true.
async fn until(what: &str, done: impl AsyncFn() -> bool) {
    for _ in 0..200 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} did not come about");
}

fn tiers(engine: &Engine) -> Vec<TierName> {
    engine.pieces().iter().map(|piece| piece.tier).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_events_are_refused_where_the_table_says_so() {
    let (mut log, mut stored) = (MemoryLog::default(), Stored::new(1));
    let mut strict = definition(1, Collision::Last, true);
    strict.late = LatePolicy::Reject;
    let strict = Arc::new(strict);
    let engine = stored.open(&log, &strict);
    assert_eq!(engine.seal(&strict).unwrap(), None);
    append(&engine, &strict, &many(0, 100)).await.unwrap();
    // The rule is the same in the journal, in a tablet, after a delete of the newest events, and
    // after a start from any of these states.
    let late = async |engine: &Arc<Engine>, sealed| {
        let rows = [row(100, "b", 1.0), row(98, "b", 1.0)];
        let refused = error(append(engine, &strict, &rows).await);
        assert_eq!(refused.kind(), ErrorKind::LateEvent);
        assert!(refused.message().contains("1970-01-01 00:00:00.000098"), "{refused}");
        let highest = "tick of the table is 99 (1970-01-01 00:00:00.000099+00)";
        assert!(refused.detail().unwrap().contains(highest), "{:?}", refused.detail());
        assert!(refused.hint().is_some());
        assert_eq!(engine.seal(&strict).unwrap(), Some(Tick(sealed)));
    };
    late(&engine, 98).await;
    // The highest tick itself is not late: other series have this tick, too.
    append(&engine, &strict, &[row(99, "b", 1.0)]).await.unwrap();
    assert_eq!(rows(&engine, &strict).await.len(), 101);
    let mut restart = |engine: Arc<Engine>| {
        drop(engine);
        stored.reopen();
        log = MemoryLog::with_frames(log.frames());
        stored.open(&log, &strict)
    };
    let engine = restart(engine);
    late(&engine, 98).await;
    // Deletes the event before it leaves the journal: no piece has the event.
    engine.delete(&strict, ranges(&[(50, i64::MAX)]).hull()).await.unwrap();
    late(&engine, 98).await;
    engine.flush(strict.id).await.unwrap();
    late(&engine, 98).await;
    let engine = restart(engine);
    late(&engine, 98).await;
    engine.compact(strict.id).await.unwrap();
    let engine = restart(engine);
    assert_eq!(rows(&engine, &strict).await, many(0, 50));
    late(&engine, 98).await;
    // The rows of one statement are compared with the events before the statement.
    append(&engine, &strict, &[row(200, "b", 1.0), row(150, "b", 1.0)]).await.unwrap();
    engine.delete(&strict, ranges(&[(50, i64::MAX)]).hull()).await.unwrap();
    let refused = error(append(&engine, &strict, &[row(60, "b", 1.0)]).await);
    assert_eq!(refused.kind(), ErrorKind::LateEvent);
    // A new definition may accept late events again.
    let mut lax = strict.as_ref().clone();
    lax.late = LatePolicy::Accept;
    append(&engine, &Arc::new(lax), &[row(60, "b", 1.0)]).await.unwrap();
    assert_eq!(rows(&engine, &strict).await.len(), 51);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f35_f12_events_leave_the_journal_by_number_unless_they_are_pinned() {
    let (log, stored) = (MemoryLog::default(), Stored::new(2));
    let mut table = definition(1, Collision::First, true);
    table.tiering = Tiering { story_rows_max: Some(10), ..Tiering::default() };
    let table = Arc::new(table);
    let engine = open_small(&log, &stored, &table, small());
    let grapher = Grapher::start(&engine).unwrap();
    // Nine rows are fewer than a story holds.
    append(&engine, &table, &many(0, 9)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(tiers(&engine), [TierName::Journal]);
    append(&engine, &table, &many(9, 100)).await.unwrap();
    until("stories", async || tiers(&engine).iter().all(|tier| *tier == TierName::Story)).await;
    assert_eq!(rows(&engine, &table).await, many(0, 109));
    drop((grapher, engine));

    let (log, stored) = (MemoryLog::default(), Stored::new(3));
    let mut pinned = table.as_ref().clone();
    pinned.tiering.pin_for_ms = Some(3_600_000);
    let pinned = Arc::new(pinned);
    let engine = open_small(&log, &stored, &pinned, small());
    let grapher = Grapher::start(&engine).unwrap();
    append(&engine, &pinned, &many(0, 1_000)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(tiers(&engine), [TierName::Journal]);
    drop(grapher);
}

/// An unconfirmed clock: ten seconds ahead of the confirmed time.
#[derive(Debug)]
struct LeadingClock;

impl Clock for LeadingClock {
    fn now_ns(&self) -> i64 {
        10_000_000_000
    }
    fn confirmed_ns(&self) -> i64 {
        0
    }
    fn monotonic_ns(&self) -> u64 {
        0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f23_retention_goes_by_the_confirmed_time() {
    let (log, stored) = (MemoryLog::default(), Stored::new(2));
    let mut brief = definition(1, Collision::First, true);
    brief.tiering = Tiering { retention_ms: Some(10), ..Tiering::default() };
    let brief = Arc::new(brief);
    let known = Arc::clone(&brief);
    let find = move |id| (id == known.id).then(|| Arc::clone(&known));
    let (clock, files) = (Arc::new(LeadingClock), Some(stored.files(&brief)));
    let engine = Engine::open_with(Arc::new(log.clone()), clock, small(), &find, files).unwrap();
    append(&engine, &brief, &many(-30_000, 100)).await.unwrap();
    append(&engine, &brief, &many(-5_000, 100)).await.unwrap();
    let grapher = Grapher::start(&engine).unwrap();
    // Events certainly expired go; events old only by the unconfirmed clock stay.
    until("the end of old events", async || rows(&engine, &brief).await == many(-5_000, 100)).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(rows(&engine, &brief).await, many(-5_000, 100));
    drop(grapher);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_go_when_they_are_older_than_they_are_kept() {
    for collision in [Collision::First, Collision::Last] {
        let (log, mut stored) = (MemoryLog::default(), Stored::new(2));
        let mut brief = definition(1, collision, true);
        // The clock always shows 0; a tick is a microsecond.
        brief.tiering = Tiering { retention_ms: Some(10), ..Tiering::default() };
        let brief = Arc::new(brief);
        let engine = open_small(&log, &stored, &brief, small());
        append(&engine, &brief, &many(-30_000, 100)).await.unwrap();
        if collision == Collision::Last {
            append(&engine, &brief, &many(-30_000, 10)).await.unwrap();
        }
        engine.compact(brief.id).await.unwrap();
        append(&engine, &brief, &many(-20_000, 100)).await.unwrap();
        engine.flush(brief.id).await.unwrap();
        append(&engine, &brief, &many(-12_000, 100)).await.unwrap();
        append(&engine, &brief, &many(-5_000, 100)).await.unwrap();
        let pinned = engine.snapshot();
        let before = read(pinned.as_ref(), &brief).await;
        assert_eq!(before.len(), 400);
        let grapher = Grapher::start(&engine).unwrap();
        until("the end of old events", async || {
            rows(&engine, &brief).await == many(-5_000, 100) && tiers(&engine).len() == 1
        })
        .await;
        assert_eq!(read(pinned.as_ref(), &brief).await, before, "a snapshot has changed");
        drop(pinned);
        engine.release_journal().await.unwrap();
        drop((grapher, engine));
        stored.reopen();
        let engine = open_small(&MemoryLog::with_frames(log.frames()), &stored, &brief, small());
        assert_eq!(rows(&engine, &brief).await, many(-5_000, 100));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_moved_of_a_table_that_is_dropped_meanwhile() {
    let (log, stored) = (MemoryLog::default(), Stored::new(4));
    let definition = Arc::new(definition(1, Collision::All, true));
    let engine = stored.open(&log, &definition);
    // Pieces with a deep overlap: merged before their move into stories.
    for _ in 0..12 {
        append(&engine, &definition, &many(0, 30)).await.unwrap();
        engine.flush(definition.id).await.unwrap();
    }
    append(&engine, &definition, &many(0, 30)).await.unwrap();
    stored.forget();
    let moved = engine.compact(definition.id).await.unwrap();
    assert_eq!(moved.pieces_removed, 0, "{moved:?}");
    assert_eq!(moved.rows, 30, "what was in memory is, as before: {moved:?}");
    assert_eq!(tiers(&engine), [TierName::Tablet; 13]);
    stored.define(&definition);
    assert!(engine.compact(definition.id).await.unwrap().pieces_removed > 0);
    assert_eq!(rows(&engine, &definition).await.len(), 13 * 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tablets_become_stories_when_there_is_enough_for_one() {
    let (log, stored) = (MemoryLog::default(), Stored::new(3));
    let mut eager = definition(1, Collision::First, true);
    eager.tiering = Tiering { story_rows_max: Some(500), ..Tiering::default() };
    let eager = Arc::new(eager);
    let engine = open_small(&log, &stored, &eager, small());
    let _grapher = Grapher::start(&engine).unwrap();
    append(&engine, &eager, &many(0, 400)).await.unwrap();
    engine.flush(eager.id).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!tiers(&engine).contains(&TierName::Story), "too few for a story");
    append(&engine, &eager, &many(400, 400)).await.unwrap();
    engine.flush(eager.id).await.unwrap();
    until("a story", async || tiers(&engine).contains(&TierName::Story)).await;
    assert_eq!(rows(&engine, &eager).await, many(0, 800));
    let marks = engine.watermarks();
    assert_eq!(marks[0].tablets.map(|tick| tick.0), Some(799));
    assert!(marks[0].stories.is_some());
    let ended = engine.moves().into_iter().filter(|moved| moved.ended_ns.is_some());
    assert!(ended.map(|moved| moved.kind.to_string()).any(|kind| kind == "archive"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stories_are_decoded_before_anybody_asks() {
    let (log, stored) = (MemoryLog::default(), Stored::new(9));
    let definition = Arc::new(definition(1, Collision::All, true));
    let engine = open_small(&log, &stored, &definition, small());
    append(&engine, &definition, &many(0, 500)).await.unwrap();
    engine.compact(definition.id).await.unwrap();
    let cached = || engine.status().story_cache_bytes;
    assert_eq!(cached(), 0);
    let grapher = Grapher::start(&engine).unwrap();
    until("something decoded", async || cached() > 0).await;
    drop(grapher);
    // The decoded stories do not keep a dropped table alive.
    engine.forget(definition.id);
    drop(engine);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stories_are_written_at_the_pace_that_is_set() {
    let definition = Arc::new(definition(1, Collision::All, true));
    let compact = async |seed, move_bytes_per_second_max| {
        let (log, stored) = (MemoryLog::default(), Stored::new(seed));
        let settings = EngineSettings { move_bytes_per_second_max, ..small() };
        let engine = open_small(&log, &stored, &definition, settings);
        append(&engine, &definition, &many(0, 2_000)).await.unwrap();
        let began = std::time::Instant::now();
        engine.compact(definition.id).await.unwrap();
        assert_eq!(rows(&engine, &definition).await, many(0, 2_000));
        let bytes: u64 = engine.pieces().iter().map(|piece| piece.bytes).sum();
        (bytes, began.elapsed())
    };
    let (bytes, _) = compact(1, 0).await;
    // Footers and cells are not counted, and a writer may be 100 ms ahead.
    let (paced, took) = compact(2, bytes / 3).await;
    assert_eq!(paced, bytes);
    assert!(took >= Duration::from_millis(200), "{took:?}");
}
