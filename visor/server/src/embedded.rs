//! Opens all parts of a database on one data directory and connects them, without any listener.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
    sync::Arc,
};

use stratalog_backup::Source;
use stratalog_engine::{
    BlockingPool, ChronicleLookup, Engine, EngineSettings, Grapher, Manifest, Shelves,
};
use stratalog_journal::{Journal, JournalSettings, LocalDisk, RequiredSegments};
use stratalog_metrics::{JournalName, Metrics};
use stratalog_model::{Acquirers, ChronicleId, Clock, Disk, Error, ErrorKind, EventStore, Log};
use stratalog_query::{Backups, Parts, QueryService, QuerySettings};
use stratalog_story::{LocalShelf, RemoteSettings, RemoteShelf, Shelf, Stories, environment};
use stratalog_tablet::Tablets;
use stratalog_visor_core::{
    Acquisitions, Catalog,
    clock::{ClockSettings, MasterClock, SystemTimeSource},
};

use crate::{
    StartError,
    backup::{AllowedPlaces, DatabaseBackups},
    check::Online,
    directory::{DataDirectory, usage::DirectoryUsage},
    identity,
    settings::{Settings, available_memory_bytes, retention_ms},
};

/// The segment size of the catalog's journal in bytes. This journal is small, because only DDL
/// statements write to it.
const CATALOG_SEGMENT_BYTES: u64 = 32 << 20;
/// The size in bytes of the cache for metadata of stories; a story needs about a megabyte.
const STORY_HEADS_BYTES: usize = 64 << 20;
/// Appends must leave a reserve of free disk space; the manifest may use most of it. The manifest
/// must leave the reserve divided by this number.
const MANIFEST_FREE_SHARE: u64 = 4;
/// Number of protocols. Each protocol has a separate limit of connections, to keep sessions free
/// for all protocols.
const DOORS: usize = 4;
/// Number of sessions for the server's internal use, in addition to the sessions of clients.
const SESSIONS_OWN: usize = 16;

/// A database in this process. Dropping the value closes the database, after all submitted data is
/// written and synced.
pub struct Embedded {
    service: Arc<QueryService>,
    store: Arc<dyn EventStore>,
    catalog: Arc<Catalog>,
    clock: Arc<MasterClock>,
    /// Moves events between tiers; `None` after the close.
    grapher: Option<Grapher>,
    /// The journals of events, of the manifest and of the catalog, in this order.
    journals: Vec<Arc<dyn Log>>,
    backups: Arc<DatabaseBackups>,
    directory: DataDirectory,
    closed: bool,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Embedded {
    /// Opens the data directory that `settings` names, recovers the data, and connects the parts.
    /// The settings of listeners are ignored.
    ///
    /// # Errors
    /// [`StartError`] for a problem of the directory or an error of a part.
    pub async fn open(settings: &Settings) -> Result<Self, StartError> {
        Self::open_if(settings, |_, _| Ok(())).await
    }

    /// Like [`Self::open`], but never creates a database.
    ///
    /// # Errors
    /// [`StartError`]; `NoDatabase` for a directory without a database.
    pub async fn open_existing(settings: &Settings) -> Result<Self, StartError> {
        Self::open_if(settings, DataDirectory::check_made).await
    }

    async fn open_if(
        settings: &Settings,
        check: fn(&Arc<dyn Disk>, &Path) -> Result<(), StartError>,
    ) -> Result<Self, StartError> {
        let settings = settings.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
            check(&disk, Path::new(&settings.data_dir))?;
            Self::open_blocking(disk, &settings)
        });
        opened.await.map_err(|error| {
            StartError::from(stratalog_model::Error::internal(format!("opening failed: {error}")))
        })?
    }

    fn open_blocking(disk: Arc<dyn Disk>, settings: &Settings) -> Result<Self, StartError> {
        let mut directory = DataDirectory::open(&disk, &PathBuf::from(&settings.data_dir))?;
        directory.empty_spill()?;
        let events_settings = journal_settings(settings);
        let catalog_settings = small_journal_settings(settings);
        let memory_bytes = available_memory_bytes();
        let metrics = Metrics::new();
        let story_cache_bytes = settings.story_cache_bytes_max.bytes(memory_bytes);
        let DurableParts { clock, commands, edits, events, manifest, shelves } =
            DurableParts::open(
                &disk,
                &mut directory,
                &catalog_settings,
                &events_settings,
                StoryPlace {
                    url: &settings.story_url,
                    remote: remote_settings(settings),
                    cache_bytes: story_cache_bytes,
                },
                clock_settings(settings),
                &metrics,
            )?;
        clock.keep_ahead()?;
        let commands_log = Arc::clone(&commands) as Arc<dyn Log>;
        let catalog = Catalog::open(commands_log, Arc::clone(&clock) as Arc<dyn Clock>)?;
        let now = Arc::clone(&catalog);
        let definitions = ChronicleLookup::new(move |id| now.definition(id));
        let owned = stratalog_engine::EngineFiles { shelves, manifest, definitions };
        let engine_settings = EngineSettings {
            memory_bytes_max: settings.memory_bytes_max.bytes(memory_bytes),
            journal_bytes_high: settings.journal_bytes_high.0,
            backlog_bytes_max: settings.backlog_bytes_max.0,
            move_bytes_per_second_max: settings.move_bytes_per_second_max.0,
            story_rows_max: settings.story_rows_max,
            story_bytes_max: settings.story_bytes_max.0,
            story_age_max_ms: settings.story_age_max_ms,
            ..EngineSettings::default()
        };
        let known = catalog.state();
        let stranger = Cell::new(None);
        let engine = Engine::open_decided(
            Arc::clone(&events) as Arc<dyn Log>,
            Arc::clone(&clock) as Arc<dyn Clock>,
            engine_settings,
            &|id| {
                if !known.has_given(id) {
                    stranger.set(stranger.get().max(Some(id)));
                }
                known.chronicle_by_id(id).cloned()
            },
            Some(owned),
            known.decision(),
            &|| match stranger.get() {
                Some(id) => Err(unknown_chronicle(id, &directory)),
                None => Ok(()),
            },
        )?;
        let acquisitions = Acquisitions::new(Arc::clone(&clock) as Arc<dyn Clock>);
        engine.measure_moves(metrics.moves().clone());
        engine.steer_by(Arc::clone(&acquisitions) as Arc<dyn Acquirers>);
        let grapher = Grapher::start(&engine)
            .map_err(|error| Error::io("the system has no thread for the grapher", error))?;
        let backups = Arc::new(DatabaseBackups {
            source: Source {
                engine: Arc::clone(&engine),
                events: Arc::clone(&events),
                commands: Arc::clone(&commands),
                disk: Arc::clone(&disk),
                directory: directory.path().to_path_buf(),
            },
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            remote: remote_settings(settings),
            allowed: AllowedPlaces::new(&settings.backup_urls, directory.path()),
        });
        let logs: [Arc<dyn Log>; 3] = [commands.clone(), Arc::clone(&edits), events.clone()];
        let online = Online::new(disk, &directory, Arc::clone(&engine), Arc::clone(&catalog), logs);
        let store: Arc<dyn EventStore> = engine;
        let service = QueryService::new(Parts {
            catalog: Arc::clone(&catalog),
            store: Arc::clone(&store),
            acquisitions,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            settings: query_settings(settings, memory_bytes, &directory),
            inspector: Some(Arc::new(online)),
            backups: Some(Arc::clone(&backups) as Arc<dyn Backups>),
            files: Some(Arc::new(DirectoryUsage {
                path: directory.path().to_path_buf(),
                has_object_store: !settings.story_url.is_empty(),
            })),
            metrics,
        })?;
        Ok(Self {
            service,
            store,
            catalog,
            clock,
            grapher: Some(grapher),
            journals: vec![events, edits, commands],
            backups,
            directory,
            closed: false,
        })
    }

    /// The query service, which all protocols use.
    pub fn service(&self) -> &Arc<QueryService> {
        &self.service
    }

    /// The store of events, for benchmarks and tests.
    pub fn store(&self) -> &Arc<dyn EventStore> {
        &self.store
    }

    /// The catalog, for benchmarks and tests.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Makes backups of the database.
    pub fn backups(&self) -> &Arc<DatabaseBackups> {
        &self.backups
    }

    /// The path of the data directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Cancels running statements, writes and syncs submitted data, and releases the directory.
    /// Blocks the calling thread.
    ///
    /// # Errors
    /// Errors of the last write of a journal.
    pub fn close(mut self) -> Result<(), StartError> {
        self.close_parts()
    }

    fn close_parts(&mut self) -> Result<(), StartError> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        self.service.shutdown();
        drop(self.grapher.take());
        let mut result = Ok(());
        for journal in &self.journals {
            result = result.and(journal.close());
        }
        result = result.and(self.clock.settle());
        result.map_err(StartError::from)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Err(error) = self.close_parts() {
            tracing::error!(%error, "the data directory was not closed cleanly; the next start recovers the data directory");
        }
    }
}

/// Where the stories are, and the size of the cache for their columns.
#[derive(Debug, Clone)]
pub(crate) struct StoryPlace<'a> {
    /// The URL of an object store; empty for the data directory.
    pub(crate) url: &'a str,
    pub(crate) remote: RemoteSettings,
    pub(crate) cache_bytes: u64,
}

/// The open parts of a data directory that store durable data.
pub(crate) struct DurableParts {
    clock: Arc<MasterClock>,
    commands: Arc<Journal>,
    edits: Arc<dyn Log>,
    events: Arc<Journal>,
    manifest: Arc<Manifest>,
    shelves: Shelves,
}

impl DurableParts {
    /// Opens the parts. In a complete directory every part must exist. For a new directory, creates
    /// the parts, and then marks the directory as complete.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        directory: &mut DataDirectory,
        catalog_settings: &JournalSettings,
        events_settings: &JournalSettings,
        story: StoryPlace<'_>,
        clock_settings: ClockSettings,
        metrics: &Metrics,
    ) -> Result<Self, StartError> {
        let made = directory.is_made();
        let source = Arc::new(SystemTimeSource::default());
        let open_clock = if made { MasterClock::open_existing } else { MasterClock::open };
        let clock = open_clock(Arc::clone(disk), &directory.clock(), source, clock_settings)?;
        let journal = |name: JournalName, path: PathBuf, settings: &JournalSettings, existing| {
            let (disk, settings) = (Arc::clone(disk), settings.clone());
            let journal =
                Journal::open_measured(disk, path, settings, existing, metrics.journal(name))?;
            Ok::<Arc<Journal>, Error>(Arc::new(journal))
        };
        let all = made.then_some(RequiredSegments::First);
        let commands = journal(JournalName::Catalog, directory.catalog(), catalog_settings, all)?;
        let found = directory.has_manifest().then_some(RequiredSegments::Any);
        // Moves free disk space, so the manifest may use the space that appends must leave free.
        let edit_settings = JournalSettings {
            free_bytes_min: catalog_settings.free_bytes_min / MANIFEST_FREE_SHARE,
            ..catalog_settings.clone()
        };
        let edits: Arc<dyn Log> =
            journal(JournalName::Manifest, directory.manifest(), &edit_settings, found)?;
        let manifest = Manifest::open(Arc::clone(&edits))?;
        let needed = RequiredSegments::At(manifest.state().floor.lsn);
        let needed = made.then_some(needed);
        let events = journal(JournalName::Events, directory.journal(), events_settings, needed)?;
        let index = directory.index();
        let tablets = Tablets::open(Arc::clone(disk), &directory.tablets(), Some(&index))?;
        let stories = open_stories(disk, directory, story)?;
        let shelves = Shelves { tablets: Arc::new(tablets), stories: Arc::new(stories) };
        directory.complete(disk)?;
        Ok(Self { clock, commands, edits, events, manifest: Arc::new(manifest), shelves })
    }
}

/// Opens the stories of the data directory or of an object store.
fn open_stories(
    disk: &Arc<dyn Disk>,
    directory: &DataDirectory,
    StoryPlace { url, remote, cache_bytes }: StoryPlace<'_>,
) -> Result<Stories, Error> {
    let shelf: Arc<dyn Shelf> = if url.is_empty() {
        open_shelf(disk, &directory.stories(), (url, remote), ShelfPurpose::Use)?
    } else {
        Arc::new(
            RemoteShelf::from_url(url, environment(), remote)?
                .owned_by(&identity::of(disk, directory.path())?),
        )
    };
    let disk = Arc::clone(disk);
    BlockingPool::new()?.block_on(Stories::open(
        shelf,
        disk,
        &directory.spool(),
        STORY_HEADS_BYTES,
        cache_bytes,
    ))
}

/// The purpose for which a shelf is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShelfPurpose {
    /// To store events; a missing shelf is created.
    Use,
    /// To read only; no shelf is created.
    Look,
}

/// Opens the shelf of the stories: a folder, or an object store.
///
/// # Errors
/// `DiskFull`, `Io`; `InvalidParameterValue` for an invalid URL.
pub(crate) fn open_shelf(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    (url, remote): (&str, RemoteSettings),
    way: ShelfPurpose,
) -> Result<Arc<dyn Shelf>, Error> {
    if !url.is_empty() {
        return Ok(Arc::new(RemoteShelf::from_url(url, environment(), remote)?));
    }
    let disk = Arc::clone(disk);
    Ok(match way {
        ShelfPurpose::Use => Arc::new(LocalShelf::open(disk, folder)?),
        ShelfPurpose::Look => Arc::new(LocalShelf::look(disk, folder)),
    })
}

/// Converts the settings of the server to settings for object stores.
fn remote_settings(settings: &Settings) -> RemoteSettings {
    RemoteSettings { metadata_service: settings.object_store_metadata, ..RemoteSettings::default() }
}

/// The error for events whose table the catalog does not know. The start fails, because the next
/// new table would get the id of this table, and show its events.
fn unknown_chronicle(id: ChronicleId, directory: &DataDirectory) -> Error {
    let (catalog, journal) = (directory.catalog(), directory.journal());
    Error::new(
        ErrorKind::DataCorrupted,
        format!(
            "the journal {} contains events of table number {id}, which is unknown to the catalog {}",
            journal.display(),
            catalog.display()
        ),
    )
    .with_detail("a table's record is durable before its first event: the catalog has lost records, or belongs to another data directory")
    .with_hint("restore both directories from one backup")
}

/// Converts the settings of the server to settings of the clock.
pub(crate) fn clock_settings(settings: &Settings) -> ClockSettings {
    let ns = |ms: u64| i64::try_from(ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
    let limit = |ms: u64| Some(ms).filter(|ms| *ms > 0).map(ns);
    ClockSettings {
        jump_ns_max: limit(settings.clock_jump_ms_max),
        start_lead_ns_max: limit(settings.clock_start_lead_ms_max),
    }
}

fn journal_settings(settings: &Settings) -> JournalSettings {
    JournalSettings {
        segment_bytes_max: settings.segment_bytes.0,
        queue_bytes_max: settings.journal_queue_bytes_max.0,
        free_bytes_min: settings.free_bytes_min.0,
        ..JournalSettings::default()
    }
}

/// The settings for the journal of the catalog and for the journal of the manifest.
pub(crate) fn small_journal_settings(settings: &Settings) -> JournalSettings {
    JournalSettings { segment_bytes_max: CATALOG_SEGMENT_BYTES, ..journal_settings(settings) }
}

fn query_settings(
    settings: &Settings,
    memory_bytes: u64,
    directory: &DataDirectory,
) -> QuerySettings {
    let query_memory = settings.query_memory_bytes_max.bytes(memory_bytes);
    QuerySettings {
        memory_bytes_max: usize::try_from(query_memory).unwrap_or(usize::MAX),
        spill_directory: Some(directory.spill()),
        spill_bytes_max: settings.spill_bytes_max.0,
        statement_bytes_max: settings.statement_bytes_max.as_usize(),
        statement_timeout_ms: settings.statement_timeout_ms,
        sessions_max: settings.connections_max.saturating_mul(DOORS).saturating_add(SESSIONS_OWN),
        // The settings were checked when they were read.
        scram_iterations: settings.scram_iterations,
        audit_retention_ms: retention_ms(&settings.audit_retention).ok().flatten(),
        ..QuerySettings::default()
    }
}
