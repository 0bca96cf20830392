//! Long moves do not delay appends.

use std::{collections::BTreeMap, ops::Range, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use stratalog_engine::{Engine, EngineSettings, Grapher};
use stratalog_model::{
    Acquirers, ChronicleDefinition, ChronicleId, Collision, Disk, EventStore, Result, TierName,
};
use stratalog_story::{LocalShelf, ReadShape, Shelf, Spool, Stories, StoryName};
use tokio::sync::watch;

use crate::{fixture::*, memory_log::MemoryLog};

/// A storage for stories with a gate: stores stories only while the gate is open.
#[derive(Debug)]
struct Gate {
    shelf: LocalShelf,
    open: watch::Receiver<bool>,
    waiting: watch::Sender<bool>,
}

#[async_trait]
impl Shelf for Gate {
    async fn put(&self, name: StoryName, spool: &Spool) -> Result<()> {
        self.waiting.send_replace(true);
        self.open.clone().wait_for(|open| *open).await.unwrap();
        self.shelf.put(name, spool).await
    }

    async fn read(&self, name: StoryName, range: Range<u64>) -> Result<Bytes> {
        self.shelf.read(name, range).await
    }

    async fn len(&self, name: StoryName) -> Result<u64> {
        self.shelf.len(name).await
    }

    async fn list(&self) -> Result<BTreeMap<StoryName, u64>> {
        self.shelf.list().await
    }

    async fn remove(&self, name: StoryName) -> Result<()> {
        self.shelf.remove(name).await
    }

    async fn tidy(&self) -> Result<()> {
        self.shelf.tidy().await
    }

    fn place(&self, name: StoryName) -> String {
        self.shelf.place(name)
    }

    fn shape(&self) -> ReadShape {
        self.shelf.shape()
    }
}

/// An engine with one chronicle, little memory, and a gated storage for stories.
struct Slow {
    engine: Arc<Engine>,
    /// Opens the gate.
    opener: watch::Sender<bool>,
    /// True while a story waits at the gate.
    waits: watch::Receiver<bool>,
}

impl Slow {
    async fn open(stored: &Stored, log: &MemoryLog, cpu: &Arc<ChronicleDefinition>) -> Self {
        let known = Arc::clone(cpu);
        let find = move |id| (id == known.id).then(|| Arc::clone(&known));
        let settings = EngineSettings { memory_bytes_max: 500_000, ..small() };
        let (opener, open) = watch::channel(false);
        let (waiting, waits) = watch::channel(false);
        let mut files = stored.files(cpu);
        let disk: Arc<dyn Disk> = Arc::new(stored.disk());
        let shelf = LocalShelf::open(Arc::clone(&disk), Path::new("/data/stories")).unwrap();
        let gate = Arc::new(Gate { shelf, open, waiting });
        let stories =
            Stories::open(gate, disk, Path::new("/data/spool"), 1 << 20, 1 << 20).await.unwrap();
        files.shelves.stories = Arc::new(stories);
        let (clock, log) = (Arc::new(StillClock), Arc::new(log.clone()));
        let engine = Engine::open_with(log, clock, settings, &find, Some(files)).unwrap();
        Self { engine, opener, waits }
    }
}

fn many(from: i64, rows: i64, value: f64) -> Vec<Row> {
    (from..from + rows).map(|at| row(at, "a", value)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_go_on_while_a_store_is_slow() {
    let (log, mut stored) = (MemoryLog::default(), Stored::new(1));
    let cpu = chronicle(1, Collision::Last, true);
    let Slow { engine, opener, mut waits } = Slow::open(&stored, &log, &cpu).await;
    let grapher = Grapher::start(&engine).unwrap();

    append(&engine, &cpu, &many(0, 1000, 0.0)).await.unwrap();
    let (moving, id) = (Arc::clone(&engine), cpu.id);
    let compacting = tokio::spawn(async move { moving.compact(id).await });
    waits.wait_for(|waiting| *waiting).await.unwrap();
    // Some of the moving events are replaced, and some deleted.
    append(&engine, &cpu, &many(500, 100, 1.0)).await.unwrap();
    engine.delete(&cpu, ranges(&[(i64::MIN, 200)]).hull()).await.unwrap();
    // Many times the memory budget.
    let much = async {
        for at in 1..100 {
            append(&engine, &cpu, &many(at * 1000, 1000, at as f64)).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(120), much).await.expect("appends stand still");
    assert!(!compacting.is_finished());
    assert!(engine.status().memory_bytes <= 500_000);
    let expected = || {
        let first = many(200, 300, 0.0).into_iter().chain(many(500, 100, 1.0));
        let first = first.chain(many(600, 400, 0.0));
        first.chain((1..100).flat_map(|at| many(at * 1000, 1000, at as f64)))
    };
    let right = async |engine: &Engine| {
        let found = rows(engine, &cpu).await;
        assert!(found.iter().eq(expected().collect::<Vec<_>>().iter()), "{} rows", found.len());
    };
    right(&engine).await;
    opener.send_replace(true);
    compacting.await.unwrap().unwrap();
    assert!(engine.pieces().iter().any(|piece| piece.tier == TierName::Story));
    right(&engine).await;
    drop((grapher, engine));
    stored.reopen();
    let log = Arc::new(MemoryLog::with_frames(log.frames()));
    let (files, known) = (Some(stored.files(&cpu)), Arc::clone(&cpu));
    let find = move |id| (id == known.id).then(|| Arc::clone(&known));
    let engine = Engine::open_with(log, Arc::new(StillClock), small(), &find, files).unwrap();
    right(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_dropped_while_its_story_is_made() {
    let (log, stored) = (MemoryLog::default(), Stored::new(2));
    let cpu = chronicle(1, Collision::All, true);
    let Slow { engine, opener, mut waits } = Slow::open(&stored, &log, &cpu).await;
    append(&engine, &cpu, &many(0, 1000, 0.0)).await.unwrap();
    let (moving, id) = (Arc::clone(&engine), cpu.id);
    let compacting = tokio::spawn(async move { moving.compact(id).await });
    waits.wait_for(|waiting| *waiting).await.unwrap();
    engine.forget(cpu.id);
    stored.forget();
    opener.send_replace(true);
    // Only the flush before the rewrite has moved events.
    let moved = compacting.await.unwrap().unwrap();
    assert_eq!((moved.rows, moved.pieces_removed), (1000, 0));
    engine.release_journal().await.unwrap();
    assert!(engine.pieces().is_empty());
    let left = |folder: &str| {
        let paths = stored.disk().paths();
        paths.iter().filter(|path| path.starts_with(folder)).count()
    };
    assert_eq!(left("/data/tablets"), 0);
}

/// Reports many acquirers for one chronicle.
#[derive(Debug)]
struct Many(ChronicleId);

impl Acquirers for Many {
    fn acquirers(&self, chronicle: ChronicleId) -> u32 {
        if chronicle == self.0 { 7 } else { 0 }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_many_have_acquired_leaves_memory_later() {
    let (log, stored) = (MemoryLog::default(), Stored::new(1));
    let (acquired, other) =
        (chronicle(1, Collision::All, true), chronicle(2, Collision::All, true));
    stored.define(&other);
    let files = stored.files(&acquired);
    let known = [Arc::clone(&acquired), Arc::clone(&other)];
    let find = move |id| known.iter().find(|known| known.id == id).cloned();
    // No event moves because of the number of events.
    let settings = EngineSettings { memory_bytes_max: 500_000, story_rows_max: 1 << 20, ..small() };
    let (log, clock) = (Arc::new(log.clone()), Arc::new(StillClock));
    let engine = Engine::open_with(log, clock, settings, &find, Some(files)).unwrap();
    engine.steer_by(Arc::new(Many(acquired.id)));
    let grapher = Grapher::start(&engine).unwrap();
    let first = async {
        for at in 0.. {
            append(&engine, &acquired, &many(at * 200, 200, 0.0)).await.unwrap();
            append(&engine, &other, &many(at * 100, 100, 0.0)).await.unwrap();
            if let Some(moved) = engine.moves().first() {
                return moved.chronicle;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        acquired.id
    };
    let first = tokio::time::timeout(Duration::from_secs(60), first).await.expect("nothing moves");
    assert_eq!(first, other.id, "the one with half the bytes and no acquirers");
    drop(grapher);
}
