//! A database in a temporary directory, with short helper functions.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::TryStreamExt;
use stratalog_engine::{ChronicleLookup, Engine, EngineFiles, EngineSettings, Manifest, Shelves};
use stratalog_journal::{Journal, JournalSettings, LocalDisk};
use stratalog_metrics::Metrics;
use stratalog_model::{Clock, Disk, Error, ErrorKind, EventStore, Result};
use stratalog_query::{Login, Outcome, Parts, QueryService, QuerySettings, Rows, Session};
use stratalog_story::{LocalShelf, Stories};
use stratalog_tablet::Tablets;
use stratalog_text::write_value;
use stratalog_visor_core::{Acquisitions, Catalog};

use crate::slow_log::SlowLog;

/// 2024-01-01T00:00:00Z
pub const START_NS: i64 = 1_704_067_200_000_000_000;

/// A clock that advances one microsecond at every read.
#[derive(Debug)]
pub struct StepClock(pub AtomicI64);

impl Clock for StepClock {
    fn now_ns(&self) -> i64 {
        self.0.fetch_add(1_000, Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed) as u64
    }
}

/// A database with one session.
pub struct Database {
    pub service: Arc<QueryService>,
    pub session: Arc<Session>,
    pub clock: Arc<StepClock>,
    _directory: tempfile::TempDir,
}

impl Database {
    pub fn new() -> Self {
        Self::with(QuerySettings::default())
    }

    pub fn with(settings: QuerySettings) -> Self {
        Self::with_late_answers(settings, Arc::default())
    }

    /// A database with small parts in tablets and stories, and therefore with many parts.
    pub fn of_small_parts() -> Self {
        let engine = EngineSettings {
            tablet_rows_max: 300,
            block_rows_max: 32,
            slice_rows_max: 60,
            cell_rows: 5,
            backlog_bytes_max: 0,
            ..EngineSettings::default()
        };
        Self::build(QuerySettings::default(), Arc::default(), engine)
    }

    /// A database with logs that report the completion of a frame `late_ms` later.
    pub fn with_late_answers(settings: QuerySettings, late_ms: Arc<AtomicU64>) -> Self {
        // Tablets are read from their files.
        let engine = EngineSettings { backlog_bytes_max: 0, ..EngineSettings::default() };
        Self::build(settings, late_ms, engine)
    }

    fn build(mut settings: QuerySettings, late_ms: Arc<AtomicU64>, engine: EngineSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk = Arc::new(LocalDisk);
        let step_clock = Arc::new(StepClock(AtomicI64::new(START_NS)));
        let clock: Arc<dyn Clock> = Arc::clone(&step_clock) as Arc<dyn Clock>;
        let journal_settings = JournalSettings::default();
        let catalog_log =
            Journal::open(disk.clone(), directory.path().join("catalog"), journal_settings.clone())
                .unwrap();
        let catalog_log = SlowLog { inner: Arc::new(catalog_log), late_ms: Arc::clone(&late_ms) };
        let catalog = Catalog::open(Arc::new(catalog_log), Arc::clone(&clock)).unwrap();
        let journal = |name: &str| {
            let folder = directory.path().join(name);
            let log = Journal::open(disk.clone(), folder, journal_settings.clone()).unwrap();
            Arc::new(SlowLog { inner: Arc::new(log), late_ms: Arc::clone(&late_ms) })
        };
        let manifest = Arc::new(Manifest::open(journal("manifest")).unwrap());
        let now = Arc::clone(&catalog);
        let definitions = ChronicleLookup::new(move |id| now.state().chronicle_by_id(id).cloned());
        let files = EngineFiles { shelves: shelves(directory.path()), manifest, definitions };
        let state = catalog.state();
        let store: Arc<dyn EventStore> = Engine::open_with(
            journal("journal"),
            Arc::clone(&clock),
            engine,
            &|id| state.chronicle_by_id(id).cloned(),
            Some(files),
        )
        .unwrap();
        if settings.spill_directory.is_none() {
            let spill = directory.path().join("spill");
            std::fs::create_dir_all(&spill).unwrap();
            settings.spill_directory = Some(spill);
        }
        let service = QueryService::new(Parts {
            catalog,
            store,
            acquisitions: Acquisitions::new(Arc::clone(&clock)),
            clock,
            settings,
            inspector: None,
            backups: None,
            files: None,
            metrics: Metrics::new(),
        })
        .unwrap();
        let session = service.connect(login()).unwrap();
        Self { service, session, clock: step_clock, _directory: directory }
    }

    /// Runs a string; returns the tag and the rows of the last statement.
    pub async fn run(&self, sql: &str) -> Result<Answer> {
        run(&self.session, sql).await
    }

    /// The rows of a query as text.
    pub async fn rows(&self, sql: &str) -> Vec<String> {
        match self.run(sql).await {
            Ok(answer) => answer.lines(),
            Err(error) => panic!("{sql}: {} {error}", error.kind().sqlstate()),
        }
    }

    /// The command tag of a statement.
    pub async fn tag(&self, sql: &str) -> String {
        match self.run(sql).await {
            Ok(answer) => answer.tag,
            Err(error) => panic!("{sql}: {} {error}", error.kind().sqlstate()),
        }
    }

    /// The error of a statement.
    pub async fn error(&self, sql: &str) -> Error {
        match self.run(sql).await {
            Ok(answer) => {
                panic!("{}: {} {}", start_of(sql), answer.tag, start_of(&answer.lines().join("\n")))
            }
            Err(error) => error,
        }
    }

    /// The kind of a statement's error.
    pub async fn kind(&self, sql: &str) -> ErrorKind {
        let error = self.error(sql).await;
        assert_ne!(error.kind(), ErrorKind::Internal, "{sql}: {error}");
        error.kind()
    }

    /// The lines of a plan, joined.
    pub async fn plan(&self, sql: &str) -> String {
        self.rows(&format!("EXPLAIN {sql}")).await.join("\n")
    }
}

/// The first characters of a long text.
fn start_of(text: &str) -> String {
    text.chars().take(300).collect()
}

/// Tablets and stories in a directory.
fn shelves(directory: &Path) -> Shelves {
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let tablets = Tablets::open(Arc::clone(&disk), &directory.join("tablets"), None).unwrap();
    let shelf = LocalShelf::open(Arc::clone(&disk), &directory.join("stories")).unwrap();
    let spool = directory.join("spool");
    let opening = || {
        let opening = Stories::open(Arc::new(shelf), disk, &spool, 1 << 20, 1 << 20);
        futures::executor::block_on(opening).unwrap()
    };
    let stories = std::thread::scope(|scope| scope.spawn(opening).join().unwrap());
    Shelves { tablets: Arc::new(tablets), stories: Arc::new(stories) }
}

pub fn login() -> Login {
    Login {
        identity: stratalog_query::Identity::Trusted,
        user: "tester".to_string(),
        database: "stratalog".to_string(),
        application_name: "it".to_string(),
        client_address: None,
        long_secret: false,
        settings: Vec::new(),
    }
}

/// The result of a statement.
#[derive(Debug)]
pub struct Answer {
    pub tag: String,
    pub schema: Option<SchemaRef>,
    pub batches: Vec<RecordBatch>,
}

impl Answer {
    /// A line for each row, with values in PostgreSQL's text form between bars.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for batch in &self.batches {
            for row in 0..batch.num_rows() {
                let values: Vec<String> = batch
                    .columns()
                    .iter()
                    .zip(batch.schema().fields())
                    .map(|(column, field)| {
                        write_value(column, row, field, &Default::default())
                            .unwrap()
                            .unwrap_or_else(|| "NULL".to_string())
                    })
                    .collect();
                lines.push(values.join("|"));
            }
        }
        lines
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        let schema = self.schema.as_ref().unwrap();
        schema.fields().iter().map(|field| field.name().clone()).collect()
    }
}

pub async fn run(session: &Arc<Session>, sql: &str) -> Result<Answer> {
    let mut last = Answer { tag: String::new(), schema: None, batches: Vec::new() };
    for parsed in session.parse(sql)? {
        last = finish(session.run(&parsed).await?).await?;
    }
    Ok(last)
}

pub async fn finish(outcome: Outcome) -> Result<Answer> {
    match outcome {
        Outcome::Rows(rows) => read(rows).await,
        Outcome::Done(tag) => Ok(Answer { tag, schema: None, batches: Vec::new() }),
        Outcome::CopyOut(out) => read(out.rows).await,
        Outcome::CopyIn(_) => panic!("a COPY FROM waits for rows"),
        Outcome::Empty => Ok(Answer { tag: String::new(), schema: None, batches: Vec::new() }),
    }
}

async fn read(mut rows: Rows) -> Result<Answer> {
    let schema = Arc::clone(rows.schema());
    let mut batches = Vec::new();
    while let Some(batch) = rows.try_next().await? {
        assert_eq!(batch.schema(), schema);
        batches.push(batch);
    }
    Ok(Answer { tag: rows.tag(), schema: Some(schema), batches })
}

/// The number after `name=` in a plan.
pub fn figure(plan: &str, name: &str) -> Option<f64> {
    let (_, rest) = plan.split_once(&format!("{name}="))?;
    let (number, _) = rest.split_once([',', ']', ' '])?;
    number.parse().ok()
}
