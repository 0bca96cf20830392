//! Runs journal, manifest and tablets together on a faulty disk. A *life* is one process of a
//! server; the next life starts on the same disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use futures::StreamExt;
use stratalog_engine::{ChronicleLookup, Engine, EngineFiles, EngineSettings, Manifest};
use stratalog_journal::{Journal, JournalSettings, RequiredSegments};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Disk, EventStore, Log, Result, Snapshot, tier::ScanOrder,
};
use stratalog_sim::FaultyDisk;

use crate::fixture::*;

/// The events of a chronicle, by tick and host.
pub type Rows = BTreeMap<(i64, String), f64>;

/// The size limits of a life.
#[derive(Debug, Clone)]
pub struct Sizes {
    pub events: JournalSettings,
    pub edits: JournalSettings,
    pub engine: EngineSettings,
}

impl Default for Sizes {
    fn default() -> Self {
        let journal = JournalSettings {
            segment_bytes_max: 64 << 10,
            frame_bytes_max: 16 << 10,
            group_bytes_max: 16 << 10,
            free_bytes_min: 0,
            mark_idle_ms: 0,
            ..JournalSettings::default()
        };
        let engine = EngineSettings {
            frame_bytes_max: 8 << 10,
            move_bytes: 40_000,
            tablet_rows_max: 300,
            block_rows_max: 50,
            slice_rows_max: 200,
            story_rows_max: 1000,
            compaction_fan_in: 4,
            // Room for a few tablets: most tablets are read from their files.
            backlog_bytes_max: 50_000,
            ..EngineSettings::default()
        };
        Self { events: journal.clone(), edits: journal, engine }
    }
}

impl Sizes {
    /// Sizes small enough for a handful of events to fill tablets, blocks, frames and segments.
    pub fn tiny() -> Self {
        let Self { events, edits, engine } = Self::default();
        let events = JournalSettings {
            segment_bytes_max: 8 << 10,
            frame_bytes_max: 2 << 10,
            group_bytes_max: 4 << 10,
            ..events
        };
        let engine = EngineSettings {
            frame_bytes_max: 1500,
            move_bytes: 2000,
            tablet_rows_max: 12,
            block_rows_max: 5,
            slice_rows_max: 8,
            story_rows_max: 20,
            ..engine
        };
        Self { events, edits, engine }
    }
}

/// The parts of one life of a server.
pub struct Life {
    pub engine: Arc<Engine>,
    /// The journal of events, and the journal of edits.
    pub journals: [Arc<Journal>; 2],
}

impl Life {
    /// Opens the disk; `made` is true after an earlier life.
    pub fn open(disk: &FaultyDisk, made: bool, definitions: &[Arc<ChronicleDefinition>]) -> Self {
        Self::try_open(disk, made, definitions, &Sizes::default()).unwrap()
    }

    pub fn try_open(
        disk: &FaultyDisk,
        made: bool,
        definitions: &[Arc<ChronicleDefinition>],
        sizes: &Sizes,
    ) -> Result<Self> {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let journal = |name: &str, settings: &JournalSettings, beginning| {
            let (disk, directory) = (Arc::clone(&shared), PathBuf::from("/data").join(name));
            let settings = settings.clone();
            let journal = match made {
                true => Journal::open_existing(disk, directory, settings, beginning),
                false => Journal::open(disk, directory, settings),
            };
            journal.map(Arc::new)
        };
        let edits = journal("manifest", &sizes.edits, RequiredSegments::Any)?;
        let manifest = Manifest::open(edits.clone())?;
        let floor = manifest.state().floor.lsn;
        let events = journal("journal", &sizes.events, RequiredSegments::At(floor))?;
        let known = definitions.to_vec();
        let files = EngineFiles {
            shelves: shelves(disk)?,
            manifest: Arc::new(manifest),
            definitions: ChronicleLookup::new(move |id| known.iter().find(|d| d.id == id).cloned()),
        };
        let find =
            |id: ChronicleId| definitions.iter().find(|definition| definition.id == id).cloned();
        let (log, clock) = (events.clone() as Arc<dyn Log>, Arc::new(StillClock));
        let engine = Engine::open_with(log, clock, sizes.engine.clone(), &find, Some(files))?;
        Ok(Self { engine, journals: [events, edits] })
    }

    pub fn close(self) {
        drop(self.engine);
        for journal in self.journals {
            // The journal of a crashed disk returns an error.
            let _ = journal.close();
        }
    }

    pub async fn rows(&self, definition: &Arc<ChronicleDefinition>) -> Rows {
        self.try_rows(definition).await.unwrap()
    }

    pub async fn try_rows(&self, definition: &Arc<ChronicleDefinition>) -> Result<Rows> {
        try_read(self.engine.snapshot().as_ref(), definition).await
    }

    /// The names of the tablets and stories of the manifest.
    pub fn named(&self) -> BTreeSet<String> {
        self.engine.pieces().into_iter().filter_map(|piece| piece.file).collect()
    }
}

/// The visible events of a snapshot, read in the order of time and in any order.
pub async fn try_read(
    snapshot: &dyn Snapshot,
    definition: &Arc<ChronicleDefinition>,
) -> Result<Rows> {
    let ordered = try_scan(snapshot, definition, ScanOrder::Ascending).await?;
    let any = try_scan(snapshot, definition, ScanOrder::Any).await?;
    assert_eq!(any, ordered, "without an order there are other rows");
    Ok(ordered)
}

async fn try_scan(
    snapshot: &dyn Snapshot,
    definition: &Arc<ChronicleDefinition>,
    order: ScanOrder,
) -> Result<Rows> {
    use arrow::{array::AsArray, datatypes::Float64Type, datatypes::Int64Type};
    let mut found = Rows::new();
    for mut stream in snapshot.scan(request(definition, order))? {
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            let hosts = batch.column(0).as_string_view();
            let values = batch.column(1).as_primitive::<Float64Type>();
            let ticks = batch.column(2).as_primitive::<Int64Type>();
            for at in 0..batch.num_rows() {
                let key = (ticks.value(at), hosts.value(at).to_string());
                let twice = found.insert(key, values.value(at));
                assert_eq!(twice, None, "two events with one key");
            }
        }
    }
    Ok(found)
}

/// Names of the files in the tablets' folder.
pub fn files(disk: &FaultyDisk) -> BTreeSet<String> {
    let names = disk.paths().into_iter().filter_map(|path| {
        let inside = path.strip_prefix("/data").ok()?;
        if inside.starts_with("tablets") {
            return Some(inside.to_path_buf());
        }
        (inside.starts_with("stories") || inside.starts_with("spool")).then_some(path)
    });
    names.map(|path| path.to_string_lossy().into_owned()).collect()
}
