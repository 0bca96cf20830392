//! Chronicles, rows, and short helpers for appends and reads.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringViewArray,
        TimestampMicrosecondArray,
    },
    datatypes::{Int64Type, TimestampMicrosecondType},
};
use futures::StreamExt;
use stratalog_engine::{ChronicleLookup, Engine, EngineFiles, EngineSettings, Manifest, Shelves};
use stratalog_model::{
    Append, ChronicleDefinition, ChronicleId, Clock, Collision, ColumnDefinition, ColumnId,
    ColumnType, Disk, Durability, Error, EventStore, Granularity, GsnRange, LatePolicy, Log,
    Result, SchemaVersion, Snapshot, TickRange, TickRanges, TickScale, TickSource,
    store::{AppendOptions, CommittedAppend, OnConflict},
    tier::{KeyFilter, ScanOrder, ScanRequest},
};
use stratalog_sim::FaultyDisk;
use stratalog_story::{LocalShelf, Stories};
use stratalog_tablet::Tablets;

use crate::memory_log::MemoryLog;

/// A clock whose time never changes.
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

pub fn column(id: u32, name: &str, column_type: ColumnType, nullable: bool) -> ColumnDefinition {
    ColumnDefinition {
        id: ColumnId(id),
        name: name.to_string(),
        column_type,
        nullable,
        default_sql: None,
        missing_value: None,
        comment: None,
    }
}

/// A chronicle with the columns `time timestamptz(6), host text, value double, note text`, base 0,
/// and ticks of 1 µs; key (host, time) if `keyed`.
pub fn chronicle(id: u32, collision: Collision, keyed: bool) -> Arc<ChronicleDefinition> {
    Arc::new(definition(id, collision, keyed))
}

pub fn definition(id: u32, collision: Collision, keyed: bool) -> ChronicleDefinition {
    let columns = vec![
        column(1, "time", ColumnType::TimestampTz { precision: 6 }, false),
        column(2, "host", ColumnType::Text, false),
        column(3, "value", ColumnType::Double, true),
        column(4, "note", ColumnType::Text, true),
    ];
    let ids = columns.iter().map(|column| column.id).collect();
    ChronicleDefinition {
        id: ChronicleId(id),
        database: "stratalog".to_string(),
        schema: "public".to_string(),
        name: format!("cpu{id}"),
        columns,
        tick_column: ColumnId(1),
        key_columns: if keyed { vec![ColumnId(2)] } else { vec![] },
        keys_added: 0,
        indexes: Vec::new(),
        indexes_made: 0,
        primary_key: true,
        scale: TickScale::starting_at(0, Granularity::from_ns(1000).unwrap()),
        coarsened: None,
        collision,
        late: LatePolicy::Accept,
        time_source: TickSource::Column,
        acceptance_window_ms: None,
        tiering: Default::default(),
        durability: Durability::Disk,
        schema_version: SchemaVersion(1),
        schema_versions: BTreeMap::from([(SchemaVersion(1), ids)]),
        comment: None,
        created_ns: 0,
    }
}

/// An event, as the tests write it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub tick: i64,
    pub host: String,
    pub value: f64,
}

pub fn row(tick: i64, host: &str, value: f64) -> Row {
    Row { tick, host: host.to_string(), value }
}

pub fn batch(definition: &ChronicleDefinition, rows: &[Row]) -> RecordBatch {
    let time = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.tick))
        .with_timezone("UTC");
    let host: StringViewArray = rows.iter().map(|row| Some(row.host.as_str())).collect();
    let note: StringViewArray =
        rows.iter().map(|row| Some(format!("note on the event of value {}", row.value))).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(time),
        Arc::new(host),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.value))),
        Arc::new(note),
    ];
    let extra =
        definition.columns.iter().skip(4).map(|column| {
            arrow::array::new_null_array(&column.column_type.arrow_type(), rows.len())
        });
    let columns = columns.into_iter().chain(extra).collect();
    RecordBatch::try_new(definition.arrow_schema(), columns).unwrap()
}

/// An engine with one chronicle, and its log.
pub fn opened(
    collision: Collision,
    keyed: bool,
) -> (MemoryLog, Arc<ChronicleDefinition>, Arc<Engine>) {
    let log = MemoryLog::default();
    let definition = chronicle(1, collision, keyed);
    let engine = open(&log, std::slice::from_ref(&definition));
    (log, definition, engine)
}

pub fn open(
    log: &(impl Log + Clone + 'static),
    definitions: &[Arc<ChronicleDefinition>],
) -> Arc<Engine> {
    open_with(log, definitions, EngineSettings::default()).unwrap()
}

pub fn open_with(
    log: &(impl Log + Clone + 'static),
    definitions: &[Arc<ChronicleDefinition>],
    settings: EngineSettings,
) -> Result<Arc<Engine>> {
    let find = |id: ChronicleId| definitions.iter().find(|definition| definition.id == id).cloned();
    Engine::open(Arc::new(log.clone()), Arc::new(StillClock), settings, &find)
}

/// Appends rows as one statement.
pub async fn append(
    engine: &Engine,
    definition: &Arc<ChronicleDefinition>,
    rows: &[Row],
) -> Result<CommittedAppend> {
    append_on(engine, definition, rows, OnConflict::Error).await.map(|(appended, _)| appended)
}

/// Appends rows as one statement; also returns the number of skipped rows.
pub async fn append_on(
    engine: &Engine,
    definition: &Arc<ChronicleDefinition>,
    rows: &[Row],
    on_conflict: OnConflict,
) -> Result<(CommittedAppend, u64)> {
    let mut append = engine.begin(AppendOptions::default())?;
    let admitted = append.push(definition, batch(definition, rows), on_conflict).await?;
    Ok((append.commit().await?, admitted.skipped))
}

pub async fn push(
    append: &mut Box<dyn Append>,
    definition: &Arc<ChronicleDefinition>,
    rows: &[Row],
) -> Result<()> {
    append.push(definition, batch(definition, rows), OnConflict::Error).await.map(|_| ())
}

/// An event as read, with its tick, seq and gsn.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    pub row: Row,
    pub seq: u64,
    pub gsn: u64,
}

pub fn request(definition: &Arc<ChronicleDefinition>, order: ScanOrder) -> ScanRequest {
    let user = definition.columns.len();
    ScanRequest {
        chronicle: Arc::clone(definition),
        projection: vec![1, 2, user, user + 1, user + 2, 3, 0],
        ticks: TickRanges::all(),
        gsns: GsnRange::ALL,
        keys: vec![],
        values: vec![],
        order,
        newest_of: None,
        limit: None,
        batch_rows_max: 100,
        streams: 3,
        metrics: Arc::default(),
        memory: None,
    }
}

pub fn host_filter(hosts: &[&str]) -> KeyFilter {
    KeyFilter { column: 1, values: Arc::new(StringViewArray::from_iter_values(hosts)) }
}

pub fn ranges(ranges: &[(i64, i64)]) -> TickRanges {
    use stratalog_model::Tick;
    TickRanges::from_ranges(ranges.iter().map(|(a, b)| TickRange::new(Tick(*a), Tick(*b))))
}

/// Runs a scan made by [`request`], and checks the properties of every scan.
pub async fn scan(snapshot: &dyn Snapshot, request: ScanRequest) -> Vec<Read> {
    let ordered = request.order != ScanOrder::Any;
    let schema = request.schema();
    let rows_max = request.batch_rows_max;
    let streams = snapshot.scan(request).unwrap();
    assert!(!ordered || streams.len() == 1, "one stream when ordered");
    let mut found = Vec::new();
    for mut stream in streams {
        while let Some(batch) = stream.next().await {
            let batch = batch.unwrap();
            assert_eq!(batch.schema(), schema);
            assert!(batch.num_rows() > 0 && batch.num_rows() <= rows_max);
            let hosts = batch.column(0).as_string_view();
            let values = batch.column(1).as_primitive::<arrow::datatypes::Float64Type>();
            let [ticks, seqs, gsns] =
                [2, 3, 4].map(|at| batch.column(at).as_primitive::<Int64Type>().clone());
            let notes = batch.column(5).as_string_view();
            let times = batch.column(6).as_primitive::<TimestampMicrosecondType>();
            for at in 0..batch.num_rows() {
                assert_eq!(times.value(at), ticks.value(at), "time shows the tick");
                let value = values.value(at);
                assert_eq!(notes.value(at), format!("note on the event of value {value}"));
                found.push(Read {
                    row: row(ticks.value(at), hosts.value(at), value),
                    seq: seqs.value(at) as u64,
                    gsn: gsns.value(at) as u64,
                });
            }
        }
    }
    found
}

/// Every visible event, ordered by (tick, seq).
pub async fn read(snapshot: &dyn Snapshot, definition: &Arc<ChronicleDefinition>) -> Vec<Read> {
    scan(snapshot, request(definition, ScanOrder::Ascending)).await
}

/// Every visible event now, as (tick, host, value).
pub async fn rows(engine: &Engine, definition: &Arc<ChronicleDefinition>) -> Vec<Row> {
    read(engine.snapshot().as_ref(), definition).await.into_iter().map(|read| read.row).collect()
}

/// The error of an operation that must fail.
pub fn error<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error,
    }
}

/// The values of the int64 column at position `at` of a batch.
pub fn integers(batch: &RecordBatch, at: usize) -> Vec<Option<i64>> {
    let array: &Int64Array = batch.column(at).as_primitive();
    (0..array.len()).map(|row| array.is_valid(row).then(|| array.value(row))).collect()
}

/// Settings with small limits, so that merges, splits and moves happen often.
pub fn small() -> EngineSettings {
    EngineSettings {
        compaction_fan_in: 4,
        compaction_rows_max: 200,
        frame_bytes_max: 3000,
        move_bytes: 20_000,
        tablet_rows_max: 60,
        block_rows_max: 16,
        slice_rows_max: 40,
        cell_rows: 4,
        story_rows_max: 150,
        // Room for a few tablets: most tablets are read from their files.
        backlog_bytes_max: 15_000,
        ..Default::default()
    }
}

/// Tablets and stories on a disk.
pub fn shelves(disk: &FaultyDisk) -> Result<Shelves> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let tablets = Tablets::open(Arc::clone(&disk), Path::new("/data/tablets"), None)?;
    let open = || {
        let shelf = LocalShelf::open(Arc::clone(&disk), Path::new("/data/stories"))?;
        let (shelf, spool) = (Arc::new(shelf), Path::new("/data/spool"));
        futures::executor::block_on(Stories::open(
            shelf,
            Arc::clone(&disk),
            spool,
            1 << 20,
            1 << 20,
        ))
    };
    let stories = std::thread::scope(|scope| scope.spawn(open).join().unwrap())?;
    Ok(Shelves { tablets: Arc::new(tablets), stories: Arc::new(stories) })
}

/// The files of an engine other than its log.
pub struct Stored {
    disk: FaultyDisk,
    manifest: MemoryLog,
    definitions: Arc<Mutex<Vec<Arc<ChronicleDefinition>>>>,
}

impl Stored {
    pub fn new(seed: u64) -> Self {
        let (disk, manifest) = (FaultyDisk::new(seed), MemoryLog::default());
        Self { disk, manifest, definitions: Arc::default() }
    }

    /// Replaces the definition of a chronicle.
    pub fn define(&self, definition: &Arc<ChronicleDefinition>) {
        let mut known = self.definitions.lock().unwrap();
        known.retain(|other| other.id != definition.id);
        known.push(Arc::clone(definition));
    }

    /// Drops all chronicles.
    pub fn forget(&self) {
        self.definitions.lock().unwrap().clear();
    }

    /// The log of the manifest.
    pub fn manifest(&self) -> &MemoryLog {
        &self.manifest
    }

    /// The disk of the files.
    pub fn disk(&self) -> FaultyDisk {
        self.disk.clone()
    }

    /// Turns the files into what the next process finds on disk.
    pub fn reopen(&mut self) {
        self.manifest = MemoryLog::with_frames(self.manifest.frames());
    }

    pub fn files(&self, definition: &Arc<ChronicleDefinition>) -> EngineFiles {
        let manifest = Manifest::open(Arc::new(self.manifest.clone())).unwrap();
        self.define(definition);
        let known = Arc::clone(&self.definitions);
        let find = move |id| known.lock().unwrap().iter().find(|known| known.id == id).cloned();
        EngineFiles {
            shelves: shelves(&self.disk).unwrap(),
            manifest: Arc::new(manifest),
            definitions: ChronicleLookup::new(find),
        }
    }

    /// An engine with one chronicle, and with small limits.
    pub fn open(&self, log: &MemoryLog, definition: &Arc<ChronicleDefinition>) -> Arc<Engine> {
        let find = |id| (id == definition.id).then(|| Arc::clone(definition));
        let (log, files) = (Arc::new(log.clone()), Some(self.files(definition)));
        Engine::open_with(log, Arc::new(StillClock), small(), &find, files).unwrap()
    }
}
