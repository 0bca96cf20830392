//! A database on a faulty disk, its backups, and its restored state.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMicrosecondArray},
    datatypes::Int64Type,
};
use futures::StreamExt;
use parking_lot::Mutex;
use stratalog_backup::{Place, RestoreResult, SavedBackup, Source, Target, Watch, restore, save};
use stratalog_engine::{ChronicleLookup, Engine, EngineFiles, EngineSettings, Manifest, Shelves};
use stratalog_journal::{Journal, JournalSettings, RequiredSegments};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Clock, Collision, ColumnDefinition, ColumnId, ColumnType,
    Disk, Durability, EventStore, Granularity, GsnRange, LatePolicy, Log, Result, SchemaVersion,
    TickRanges, TickScale, TickSource,
    store::{AppendOptions, OnConflict},
    tier::{ScanOrder, ScanRequest},
};
use stratalog_sim::FaultyDisk;
use stratalog_story::{LocalShelf, Shelf, Stories};
use stratalog_tablet::Tablets;

/// The content of a table: statement by tick.
pub type Rows = BTreeMap<i64, i64>;

/// A clock that stands still.
#[derive(Debug)]
pub struct StillClock;

impl Clock for StillClock {
    fn now_ns(&self) -> i64 {
        0
    }
    fn monotonic_ns(&self) -> u64 {
        0
    }
}

/// `time timestamptz(6), statement bigint`, unique by time; the last event counts.
pub fn definition(id: u32) -> Arc<ChronicleDefinition> {
    let column = |id, name: &str, column_type, nullable| ColumnDefinition {
        id: ColumnId(id),
        name: name.to_string(),
        column_type,
        nullable,
        default_sql: None,
        missing_value: None,
        comment: None,
    };
    let columns = vec![
        column(1, "time", ColumnType::TimestampTz { precision: 6 }, false),
        column(2, "statement", ColumnType::BigInt, true),
    ];
    let ids = columns.iter().map(|column| column.id).collect();
    Arc::new(ChronicleDefinition {
        id: ChronicleId(id),
        database: "stratalog".to_string(),
        schema: "public".to_string(),
        name: format!("t{id}"),
        columns,
        tick_column: ColumnId(1),
        key_columns: vec![],
        keys_added: 0,
        indexes: Vec::new(),
        indexes_made: 0,
        primary_key: true,
        scale: TickScale::starting_at(0, Granularity::from_ns(1000).unwrap()),
        coarsened: None,
        collision: Collision::Last,
        late: LatePolicy::Accept,
        time_source: TickSource::Column,
        acceptance_window_ms: None,
        tiering: Default::default(),
        durability: Durability::Disk,
        schema_version: SchemaVersion(1),
        schema_versions: BTreeMap::from([(SchemaVersion(1), ids)]),
        comment: None,
        created_ns: 0,
    })
}

/// Small sizes: a few events fill tablets, frames and segments.
pub fn journal_settings() -> JournalSettings {
    JournalSettings {
        segment_bytes_max: 8 << 10,
        frame_bytes_max: 2 << 10,
        group_bytes_max: 4 << 10,
        free_bytes_min: 0,
        mark_idle_ms: 0,
        ..JournalSettings::default()
    }
}

/// Settings of the edits' journal: edits and snapshots can be larger than events.
pub fn edit_settings() -> JournalSettings {
    JournalSettings {
        segment_bytes_max: 700 << 10,
        frame_bytes_max: 512 << 10,
        group_bytes_max: 512 << 10,
        preallocate: false,
        ..journal_settings()
    }
}

fn engine_settings() -> EngineSettings {
    EngineSettings {
        frame_bytes_max: 1500,
        move_bytes: 4000,
        tablet_rows_max: 30,
        block_rows_max: 8,
        slice_rows_max: 20,
        story_rows_max: 60,
        compaction_fan_in: 4,
        ..EngineSettings::default()
    }
}

/// One life of a database in `/data` of a disk.
pub struct Database {
    pub source: Source,
    pub edits: Arc<Journal>,
    pub definitions: Vec<Arc<ChronicleDefinition>>,
    /// Ids of dropped tables.
    pub dropped: Arc<Mutex<Vec<ChronicleId>>>,
}

impl Database {
    /// Opens an existing database, or makes a new database.
    pub fn open(
        disk: &FaultyDisk,
        made: bool,
        definitions: &[Arc<ChronicleDefinition>],
    ) -> Result<Self> {
        let root = Path::new("/data");
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        if !made {
            for (folder, file) in [("", "FORMAT"), ("clock", "clock")] {
                let folder = root.join(folder);
                shared.create_dir_all(&folder).unwrap();
                let file = shared.create(&folder.join(file)).unwrap();
                file.write_all_at(b"what a server writes here", 0).unwrap();
                file.sync_all().unwrap();
            }
        }
        let journal = |name: &str, beginning| {
            let edits = name == "manifest";
            let settings = if edits { edit_settings() } else { journal_settings() };
            let disk = Arc::clone(&shared);
            let journal = match made {
                true => Journal::open_existing(disk, root.join(name), settings, beginning),
                false => Journal::open(disk, root.join(name), settings),
            };
            journal.map(Arc::new)
        };
        let commands = journal("catalog", RequiredSegments::First)?;
        let edits = journal("manifest", RequiredSegments::Any)?;
        let manifest = Manifest::open(edits.clone())?;
        let events = journal("journal", RequiredSegments::At(manifest.state().floor.lsn))?;
        let tablets = Tablets::open(Arc::clone(&shared), &root.join("tablets"), None)?;
        let open = || {
            let shelf: Arc<dyn Shelf> =
                Arc::new(LocalShelf::open(Arc::clone(&shared), &root.join("stories"))?);
            let spool = root.join("spool");
            let stories = Stories::open(shelf, Arc::clone(&shared), &spool, 1 << 20, 1 << 20);
            futures::executor::block_on(stories)
        };
        let stories = std::thread::scope(|scope| scope.spawn(open).join().unwrap())?;
        let dropped = Arc::<Mutex<Vec<ChronicleId>>>::default();
        let (known, gone) = (definitions.to_vec(), Arc::clone(&dropped));
        let find = move |id: ChronicleId| {
            let there = known.iter().find(|known| known.id == id);
            there.filter(|_| !gone.lock().contains(&id)).cloned()
        };
        let files = EngineFiles {
            shelves: Shelves { tablets: Arc::new(tablets), stories: Arc::new(stories) },
            manifest: Arc::new(manifest),
            definitions: ChronicleLookup::new(find.clone()),
        };
        let log: Arc<dyn Log> = events.clone();
        let engine =
            Engine::open_with(log, Arc::new(StillClock), engine_settings(), &find, Some(files))?;
        let directory = root.to_path_buf();
        let source = Source { engine, events, commands, disk: shared, directory };
        Ok(Self { source, edits, definitions: definitions.to_vec(), dropped })
    }

    /// Makes a new database with one table.
    pub fn new(seed: u64) -> (FaultyDisk, Self) {
        let disk = FaultyDisk::new(seed);
        let database = Self::open(&disk, false, &[definition(1)]).unwrap();
        (disk, database)
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.source.engine
    }

    /// One statement: rows at these ticks, each with the statement's number.
    pub async fn append(
        &self,
        table: usize,
        ticks: std::ops::Range<i64>,
        statement: i64,
    ) -> Result<()> {
        let definition = &self.definitions[table];
        let rows = ticks.end - ticks.start;
        let times = TimestampMicrosecondArray::from_iter_values(ticks).with_timezone("UTC");
        let statements = Int64Array::from(vec![statement; rows as usize]);
        let columns: Vec<ArrayRef> = vec![Arc::new(times), Arc::new(statements)];
        let batch = RecordBatch::try_new(definition.arrow_schema(), columns).unwrap();
        let mut append = self.engine().begin(AppendOptions::default())?;
        append.push(definition, batch, OnConflict::Error).await?;
        append.commit().await.map(drop)
    }

    pub async fn rows(&self, table: usize) -> Rows {
        let definition = &self.definitions[table];
        let request = ScanRequest {
            chronicle: Arc::clone(definition),
            projection: vec![definition.columns.len(), 1],
            ticks: TickRanges::all(),
            gsns: GsnRange::ALL,
            keys: vec![],
            values: vec![],
            order: ScanOrder::Ascending,
            newest_of: None,
            limit: None,
            batch_rows_max: 1000,
            streams: 1,
            metrics: Arc::default(),
            memory: None,
        };
        let mut rows = Rows::new();
        for mut stream in self.engine().snapshot().scan(request).unwrap() {
            while let Some(batch) = stream.next().await {
                let batch = batch.unwrap();
                let ticks = batch.column(0).as_primitive::<Int64Type>();
                let statements = batch.column(1).as_primitive::<Int64Type>();
                for (tick, statement) in ticks.values().iter().zip(statements.values()) {
                    assert!(rows.insert(*tick, *statement).is_none(), "tick {tick} is there twice");
                }
            }
        }
        rows
    }

    pub async fn backup(&self, place: &Place, time_ns: i64) -> Result<SavedBackup> {
        save(&self.source, place, time_ns, &Watch::default()).await
    }

    /// Puts events into each tier, more into the journal, and leaves a replaced and a deleted
    /// event.
    pub async fn fill(&self) {
        let table = self.definitions[0].id;
        self.append(0, 0..70, 1).await.unwrap();
        self.engine().compact(table).await.unwrap();
        self.append(0, 70..90, 2).await.unwrap();
        self.engine().flush(table).await.unwrap();
        self.append(0, 80..95, 3).await.unwrap();
        let all =
            stratalog_model::TickRange::new(stratalog_model::Tick::MIN, stratalog_model::Tick(5));
        self.engine().delete(&self.definitions[0], all).await.unwrap();
        let tiers: std::collections::BTreeSet<_> =
            self.engine().pieces().iter().map(|piece| piece.tier.to_string()).collect();
        assert_eq!(tiers.len(), 3, "{tiers:?}");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        for journal in [&self.source.events, &self.edits, &self.source.commands] {
            journal.close().ok();
        }
    }
}

/// A place on a separate disk.
pub fn place(disk: &FaultyDisk) -> Place {
    Place::folder(Arc::new(disk.clone()), Path::new("/backups"))
}

/// Restores to `/data` of a disk.
pub async fn restore_to(
    disk: &FaultyDisk,
    place: &Place,
    backup: Option<&str>,
) -> Result<RestoreResult> {
    let target = Target {
        own_files: Vec::new(),
        disk: Arc::new(disk.clone()),
        directory: PathBuf::from("/data"),
        stories: None,
        manifest: edit_settings(),
    };
    restore(place, backup, &target, &Watch::default()).await
}

/// The restored content of each table.
pub async fn restored(
    place: &Place,
    backup: Option<&str>,
    definitions: &[Arc<ChronicleDefinition>],
) -> Result<Vec<Rows>> {
    let disk = FaultyDisk::new(1);
    restore_to(&disk, place, backup).await?;
    let database = Database::open(&disk, true, definitions).unwrap();
    let mut tables = Vec::new();
    for table in 0..definitions.len() {
        tables.push(database.rows(table).await);
    }
    Ok(tables)
}

/// Puts a file at an unused path.
pub fn lay(disk: &FaultyDisk, path: &Path, bytes: &[u8]) {
    disk.create_dir_all(path.parent().unwrap()).unwrap();
    disk.create(path).unwrap().write_all_at(bytes, 0).unwrap();
}
