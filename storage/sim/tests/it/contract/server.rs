//! One life of the server: the real clock, journal and engine, on a disk that forgets.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::{Duration, Instant},
};

use stratalog_engine::{ChronicleLookup, Engine, EngineFiles, EngineSettings, Manifest, Shelves};
use stratalog_journal::{Journal, JournalSettings, RequiredSegments};
use stratalog_model::{ChronicleDefinition, ChronicleId, Clock, Disk, Log, Result};
use stratalog_sim::FaultyDisk;
use stratalog_story::{LocalShelf, Stories};
use stratalog_tablet::Tablets;
use stratalog_visor_core::{ClockSettings, MasterClock, TimeSource};
use tokio::runtime::Runtime;

use super::clocks::{Machine, Seen, Watched};

/// Maximum duration of an answer, in real time.
const ANSWER: Duration = Duration::from_secs(60);

/// The parameters of a server.
#[derive(Debug, Clone)]
pub struct Plan {
    pub machine: Machine,
    pub seen: Arc<Seen>,
    pub clock: ClockSettings,
    pub tables: Vec<Arc<ChronicleDefinition>>,
    /// Bytes of tablets that stay in memory.
    pub backlog_bytes_max: u64,
}

#[derive(Debug)]
pub struct Server {
    pub engine: Arc<Engine>,
    pub clock: Arc<Watched>,
    /// The journals of events and of edits.
    journals: [Arc<Journal>; 2],
}

/// The appender writes and syncs each frame, so that a seed always repeats the same run.
fn journal(segment_bytes_max: u64) -> JournalSettings {
    JournalSettings {
        segment_bytes_max,
        frame_bytes_max: segment_bytes_max / 4,
        group_bytes_max: segment_bytes_max / 4,
        free_bytes_min: 0,
        mark_idle_ms: 0,
        lone_us_max: u64::MAX,
        direct_bytes_min: 1 << 10,
        ..JournalSettings::default()
    }
}

/// Small sizes: a few dozen events are several batches, tablets and stories.
fn settings(backlog_bytes_max: u64) -> EngineSettings {
    EngineSettings {
        frame_bytes_max: 4 << 10,
        compaction_fan_in: 4,
        compaction_rows_max: 30,
        move_bytes: 6_000,
        tablet_rows_max: 24,
        block_rows_max: 8,
        slice_rows_max: 16,
        cell_rows: 4,
        story_rows_max: 60,
        backlog_bytes_max,
        ..EngineSettings::default()
    }
}

impl Server {
    /// Opens the database of the disk; `made` is true if an earlier life made the database. The
    /// clock comes first: all other parts take their time from the clock.
    pub fn open(disk: &FaultyDisk, made: bool, plan: &Plan, runtime: &Runtime) -> Result<Self> {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let clock = Arc::new(Watched {
            master: master(&shared, made, plan)?,
            seen: Arc::clone(&plan.seen),
        });
        let open_journal = |name: &str, settings: JournalSettings, beginning: RequiredSegments| {
            let (disk, directory) = (Arc::clone(&shared), PathBuf::from("/data").join(name));
            let journal = match made {
                true => Journal::open_existing(disk, directory, settings, beginning),
                false => Journal::open(disk, directory, settings),
            };
            journal.map(Arc::new)
        };
        let edits = open_journal("manifest", journal(64 << 10), RequiredSegments::Any)?;
        let manifest = Arc::new(Manifest::open(edits.clone())?);
        let floor = manifest.state().floor.lsn;
        let events = open_journal("journal", journal(32 << 10), RequiredSegments::At(floor))?;
        let known = plan.tables.clone();
        let find = move |id: ChronicleId| known.iter().find(|table| table.id == id).cloned();
        let definitions = ChronicleLookup::new(find.clone());
        let files = Some(EngineFiles { shelves: shelves(&shared)?, manifest, definitions });
        let settings = settings(plan.backlog_bytes_max);
        let log: Arc<dyn Log> = events.clone();
        let time: Arc<dyn Clock> = clock.clone();
        let _inside = runtime.enter();
        let engine = Engine::open_with(log, time, settings, &find, files)?;
        Ok(Self { engine, clock, journals: [events, edits] })
    }

    /// Ends a life after a disk failure.
    pub fn bury(self) {
        drop(self.engine);
        for journal in self.journals {
            // The close reports the disk failure.
            drop(journal.close());
        }
    }

    /// Ends a life in an orderly shutdown.
    pub fn stop(self) {
        self.clock.master.settle().unwrap();
        drop(self.engine);
        for journal in self.journals {
            journal.close().unwrap();
        }
    }
}

fn master(disk: &Arc<dyn Disk>, made: bool, plan: &Plan) -> Result<Arc<MasterClock>> {
    let directory = Path::new("/data/clock");
    let source: Arc<dyn TimeSource> = Arc::new(plan.machine.clone());
    if made {
        return MasterClock::open_existing(Arc::clone(disk), directory, source, plan.clock);
    }
    disk.create_dir_all(directory).unwrap();
    for parent in ["/", "/data"] {
        disk.sync_dir(Path::new(parent)).unwrap();
    }
    MasterClock::open(Arc::clone(disk), directory, source, plan.clock)
}

fn shelves(disk: &Arc<dyn Disk>) -> Result<Shelves> {
    let tablets = Tablets::open(Arc::clone(disk), Path::new("/data/tablets"), None)?;
    let shelf = Arc::new(LocalShelf::open(Arc::clone(disk), Path::new("/data/stories"))?);
    let spool = Path::new("/data/spool");
    let stories = Stories::open(shelf, Arc::clone(disk), spool, 1 << 20, 1 << 20);
    let stories = futures::executor::block_on(stories)?;
    Ok(Shelves { tablets: Arc::new(tablets), stories: Arc::new(stories) })
}

/// Runs a future to its end outside of any runtime: file reads then run at once on this thread.
pub fn finished<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    let began = Instant::now();
    loop {
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        if let Poll::Ready(output) = polled {
            return output;
        }
        assert!(began.elapsed() < ANSWER, "there is no answer");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
