//! The engine: the chronicles, their published versions, and the locks for changes.
//!
//! ```text
//!   locks, in the order in which they may be taken:
//!     publisher  ─►  chronicle state  ─►  published, producers, budget
//!   snapshot takes `published` only; admission takes one chronicle's state only
//! ```

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use ahash::RandomState;
use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock};
use stratalog_metrics::MoveMetrics;
use stratalog_model::{
    Acquirers, Append, BoxFuture, ChronicleDefinition, ChronicleId, Clock, Decision, Error,
    ErrorKind, EventStore, Gsn, LatePolicy, Log, Lsn, ProducerId, Result, StatementId, Tick,
    store::{
        AppendOptions, ChronicleStatus, DeletedArea, MoveCounts, MoveStatus, PieceStatus,
        PreparedDelete, Snapshot, StoreStatus, Watermarks,
    },
    subscribe::{SubscribeRequest, Subscription},
};
use tokio::sync::{Semaphore, watch};

use crate::{
    backlog::Backlog,
    backpressure::Backpressure,
    backup_hold::JournalRelease,
    blocking_pool::BlockingPool,
    budget::Budget,
    collect::{self, EngineFiles, floor_candidates::FloorCandidates},
    commit_times::CommitTimes,
    delete::{self, deletion::Deletion, trim},
    keeper::{
        append::OpenAppend,
        chronicle::Chronicle,
        chunk::Chunk,
        feed::{FeedBytes, FeedFollower},
        outcome::WaitGraph,
        producers::Producers,
        step::Step,
    },
    memtable::batch::MemoryBatch,
    move_history::MoveHistory,
    pieces::{piece::OpenPiece, status},
    player::{follow, snapshot::PinnedSnapshot},
    recovery,
    settings::EngineSettings,
    version::{
        Version, numberings,
        published_versions::{PinnedVersion, PublishedVersions},
    },
    write_throttle::WriteThrottle,
};

/// Divisor of the memory budget for followers: one share for the commits not yet delivered to
/// followers, and one share for the history read for followers.
const FEEDS_SHARE: u64 = 16;

/// The store of events: `EventStore` over a [`Log`].
#[derive(Debug)]
pub struct Engine {
    core: Arc<Core>,
}

/// State shared by the engine and its open appends.
#[derive(Debug)]
pub struct Core {
    /// The journal.
    pub log: Arc<dyn Log>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Time of the clock at the start: no session is older.
    pub opened_ns: i64,
    /// Settings.
    pub settings: EngineSettings,
    /// Memory for events.
    pub budget: Arc<Budget>,
    /// Memory for the numbers of series.
    pub numbers: Arc<Budget>,
    /// Memory for the commits that followers have not seen yet.
    feeds: Arc<FeedBytes>,
    /// Memory for history not yet delivered to followers.
    pub history_budget: Arc<Budget>,
    /// The appends waiting for memory of the budget.
    pub backpressure: Backpressure,
    /// Events both in tablets and in memory.
    pub backlog: Backlog,
    /// Commit times of events.
    pub commit_times: CommitTimes,
    /// Write rate of merges and stories.
    pub write_throttle: WriteThrottle,
    /// Idempotent producers.
    pub producers: Mutex<Producers>,
    /// Statements waiting for each other.
    pub wait_graph: WaitGraph,
    /// Counts the sessions with an acquisition of a chronicle; empty without a source of
    /// acquisitions.
    pub acquirers: OnceLock<Arc<dyn Acquirers>>,
    /// Highest committed gsn. The holder of the lock may change versions.
    publisher: Mutex<u64>,
    published: Mutex<Arc<PublishedVersions>>,
    /// Permits for readers of history in the order of commits.
    pub sweeps: Arc<Semaphore>,
    /// Highest published gsn.
    head: watch::Sender<u64>,
    chronicles: RwLock<HashMap<ChronicleId, Arc<Chronicle>, RandomState>>,
    forgotten: RwLock<HashSet<ChronicleId, RandomState>>,
    /// Dropped chronicles whose pieces the manifest may still name, with the pieces possibly still
    /// open.
    pub dropped: Mutex<BTreeMap<ChronicleId, Vec<Arc<OpenPiece>>>>,
    last_statement: AtomicU64,
    /// Files for events that leave the journal; `None` keeps all events in the journal.
    pub files: Option<EngineFiles>,
    /// Candidates for the beginning of the journal.
    pub floor_candidates: FloorCandidates,
    /// Holders of the journal's segments.
    pub journal_release: JournalRelease,
    /// The lock for moves of events: one move at a time.
    pub move_lock: tokio::sync::Mutex<()>,
    /// Statistics of the moves.
    pub move_history: MoveHistory,
    /// Runtime for waits of recovery and of the grapher.
    pub blocking_pool: BlockingPool,
    /// Highest number given to a piece, also without a record of this piece in the manifest.
    last_piece: AtomicU64,
    /// True while a task tidies.
    pub tidying: AtomicBool,
    /// Chronicles worth tidying.
    pub untidy: Mutex<HashSet<ChronicleId, RandomState>>,
}

impl Engine {
    /// Replays `log` and takes appends from then on. `definitions` returns the existing chronicles;
    /// recovery skips the events of all other chronicles (their gsn's stay used).
    ///
    /// # Errors
    /// The errors of [`Log::replay`]; `DataCorrupted` for a sound frame with a bad payload.
    pub fn open(
        log: Arc<dyn Log>,
        clock: Arc<dyn Clock>,
        settings: EngineSettings,
        definitions: &dyn Fn(ChronicleId) -> Option<Arc<ChronicleDefinition>>,
    ) -> Result<Arc<Self>> {
        Self::open_with(log, clock, settings, definitions, None)
    }

    /// Like [`Self::open`], with files beside the log. The files hold the events named by their
    /// manifest.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub fn open_with(
        log: Arc<dyn Log>,
        clock: Arc<dyn Clock>,
        settings: EngineSettings,
        definitions: &dyn Fn(ChronicleId) -> Option<Arc<ChronicleDefinition>>,
        files: Option<EngineFiles>,
    ) -> Result<Arc<Self>> {
        Self::open_decided(log, clock, settings, definitions, files, None, &|| Ok(()))
    }

    /// Like [`Self::open_with`]. Recovery commits the append of `decision`, the catalog's last
    /// decision, if a crash came before the commit frame (RFC 0023). `verify` runs after all frames
    /// are read, and before recovery writes the commit frame.
    ///
    /// # Errors
    /// The errors of [`Self::open`] and of `verify`; `DataCorrupted` when the log has only a part
    /// of the append; `DiskFull` without room for the commit frame.
    pub fn open_decided(
        log: Arc<dyn Log>,
        clock: Arc<dyn Clock>,
        settings: EngineSettings,
        definitions: &dyn Fn(ChronicleId) -> Option<Arc<ChronicleDefinition>>,
        files: Option<EngineFiles>,
        decision: Option<&Decision>,
        verify: &dyn Fn() -> Result<()>,
    ) -> Result<Arc<Self>> {
        let core = Arc::new(Core {
            budget: Budget::new(settings.memory_bytes_max),
            numbers: Budget::new(numberings::BYTES_MAX),
            feeds: Arc::new(FeedBytes::new(settings.memory_bytes_max / FEEDS_SHARE)),
            history_budget: Budget::new(settings.memory_bytes_max / FEEDS_SHARE),
            head: watch::Sender::new(0),
            sweeps: Arc::new(Semaphore::new(follow::SWEEPS_MAX)),
            backlog: Backlog::new(settings.backlog_bytes_max),
            commit_times: CommitTimes::default(),
            write_throttle: WriteThrottle::new(settings.move_bytes_per_second_max),
            producers: Mutex::new(Producers::new(settings.producers_max)),
            log,
            opened_ns: clock.now_ns(),
            clock,
            settings,
            backpressure: Backpressure::default(),
            wait_graph: WaitGraph::default(),
            acquirers: OnceLock::new(),
            publisher: Mutex::default(),
            published: Mutex::default(),
            chronicles: RwLock::default(),
            forgotten: RwLock::default(),
            dropped: Mutex::default(),
            last_statement: AtomicU64::new(0),
            files,
            floor_candidates: FloorCandidates::default(),
            journal_release: JournalRelease::default(),
            move_lock: tokio::sync::Mutex::default(),
            move_history: MoveHistory::default(),
            blocking_pool: BlockingPool::new()?,
            last_piece: AtomicU64::new(0),
            tidying: AtomicBool::new(false),
            untidy: Mutex::default(),
        });
        recovery::recover(&core, definitions, decision, verify)?;
        core.commit_times.note(core.published().gsn, || core.opened_ns);
        Ok(Arc::new(Self { core }))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Keeps chronicles with many acquisitions in memory longer than other chronicles (F13). The
    /// first call sets the source of acquisitions; later calls have no effect.
    pub fn steer_by(&self, acquirers: Arc<dyn Acquirers>) {
        self.core.acquirers.get_or_init(|| acquirers);
    }

    /// Also records the following moves in `metrics`.
    pub fn measure_moves(&self, metrics: MoveMetrics) {
        self.core.move_history.measure_by(metrics);
    }

    /// Moves the beginning of the journal to the first needed frame. Returns the bytes freed.
    ///
    /// # Errors
    /// `Io`.
    pub async fn release_journal(&self) -> Result<u64> {
        collect::floor::raise_floor(&self.core).await
    }
}

impl EventStore for Engine {
    fn begin(&self, options: AppendOptions) -> Result<Box<dyn Append>> {
        Ok(Box::new(OpenAppend::new(Arc::clone(&self.core), options)))
    }

    fn snapshot(&self) -> Arc<dyn Snapshot> {
        Arc::new(PinnedSnapshot::new(Arc::clone(&self.core.published.lock())))
    }

    fn seal(&self, chronicle: &ChronicleDefinition) -> Result<Option<Tick>> {
        self.core.seal(chronicle)
    }

    fn prepare_delete<'a>(
        &'a self,
        chronicle: &'a Arc<ChronicleDefinition>,
        area: DeletedArea,
    ) -> BoxFuture<'a, Result<Box<dyn PreparedDelete>>> {
        let (core, chronicle) = (Arc::clone(&self.core), Arc::clone(chronicle));
        Box::pin(async move {
            Ok(match area {
                DeletedArea::Ticks(range) => {
                    Box::new(delete::prepare(core, chronicle, range).await?) as _
                }
                DeletedArea::Before(gsn) => {
                    Box::new(trim::prepare(core, chronicle, gsn).await?) as _
                }
            })
        })
    }

    fn reached(&self, gsn: Gsn) -> BoxFuture<'static, Result<()>> {
        let mut head = self.core.head.subscribe();
        Box::pin(async move {
            let reached = head.wait_for(|head| *head >= gsn.0).await.map(drop);
            reached.map_err(|_| Error::new(ErrorKind::Shutdown, "the log was closed"))
        })
    }

    fn subscribe(&self, request: SubscribeRequest) -> Result<Subscription> {
        follow::subscribe(&self.core, request)
    }

    fn flush(&self, chronicle: ChronicleId) -> BoxFuture<'_, Result<MoveCounts>> {
        let core = Arc::clone(&self.core);
        spawn_move(move || async move { collect::collect(&core, chronicle).await })
    }

    fn compact(&self, chronicle: ChronicleId) -> BoxFuture<'_, Result<MoveCounts>> {
        let core = Arc::clone(&self.core);
        spawn_move(move || async move { collect::compact(&core, chronicle).await })
    }

    fn pieces(&self) -> Vec<PieceStatus> {
        let published = Arc::clone(&self.core.published.lock());
        let versions = published.versions.iter();
        let mut pieces: Vec<PieceStatus> =
            versions.flat_map(|(id, pinned)| status::pieces(*id, &pinned.version)).collect();
        pieces.sort_unstable_by_key(|piece| {
            (piece.chronicle, piece.tier, piece.ticks.start, piece.number)
        });
        pieces
    }

    fn moves(&self) -> Vec<MoveStatus> {
        self.core.move_history.list()
    }

    fn watermarks(&self) -> Vec<Watermarks> {
        let published = Arc::clone(&self.core.published.lock());
        let versions = published.versions.iter();
        let mut marks: Vec<Watermarks> =
            versions.map(|(id, pinned)| status::watermarks(*id, &pinned.version)).collect();
        marks.sort_unstable_by_key(|marks| marks.chronicle);
        marks
    }

    fn forget(&self, chronicle: ChronicleId) {
        let _publisher = self.core.publisher.lock();
        self.core.forgotten.write().insert(chronicle);
        let known = self.core.chronicles.write().remove(&chronicle);
        if let Some(known) = known {
            let pieces = known.forget();
            self.core.dropped.lock().insert(chronicle, pieces);
        }
        Arc::make_mut(&mut self.core.published.lock()).versions.remove(&chronicle);
    }

    fn producers(&self) -> Vec<(ProducerId, u64)> {
        self.core.producers.lock().list()
    }

    fn status(&self) -> StoreStatus {
        let published = Arc::clone(&self.core.published.lock());
        let everything = stratalog_model::TickRanges::all();
        let mut chronicles: Vec<ChronicleStatus> = published
            .versions
            .iter()
            .map(|(id, pinned)| {
                let extent = pinned.version.extent(&everything, published.gsn);
                let filed: u64 = pinned.version.pieces().iter().map(|p| p.record().rows).sum();
                let batches: u64 = pinned.version.batches().map(|batch| batch.bytes()).sum();
                ChronicleStatus {
                    id: *id,
                    rows: extent.rows + filed,
                    bytes: batches + pinned.chronicle.index_bytes(),
                    series: pinned.chronicle.series_count(),
                }
            })
            .collect();
        chronicles.sort_unstable_by_key(|status| status.id);
        let stories = self.core.files.as_ref().map(|files| &files.shelves.stories);
        StoreStatus {
            committed: published.gsn,
            memory_bytes: self.core.budget.used(),
            memory_bytes_max: self.core.budget.bytes_max(),
            story_cache_bytes: stories.map_or(0, |stories| stories.decoded_bytes()),
            chronicles,
            log: self.core.log.status(),
        }
    }
}

impl Core {
    /// The chronicle of a definition, created on first use.
    ///
    /// # Errors
    /// `UndefinedTable` after [`EventStore::forget`].
    pub fn chronicle(&self, definition: &ChronicleDefinition) -> Result<Arc<Chronicle>> {
        if let Some(known) = self.chronicles.read().get(&definition.id) {
            return Ok(Arc::clone(known));
        }
        let mut chronicles = self.chronicles.write();
        if self.forgotten.read().contains(&definition.id) {
            return Err(Error::new(
                ErrorKind::UndefinedTable,
                format!("table \"{}\" was dropped", definition.qualified_name()),
            ));
        }
        let made = || {
            let (numbers, feeds) = (&self.numbers, &self.feeds);
            Arc::new(Chronicle::new(definition, &self.budget, numbers, feeds, self.opened_ns))
        };
        Ok(Arc::clone(chronicles.entry(definition.id).or_insert_with(made)))
    }

    /// The chronicle of an id, if [`Self::chronicle`] has created it.
    pub fn known(&self, id: ChronicleId) -> Option<Arc<Chronicle>> {
        self.chronicles.read().get(&id).cloned()
    }

    /// Records the time of the latest commit.
    pub fn note_commits(&self) {
        self.commit_times.note(self.published().gsn, || self.clock.now_ns());
    }

    /// Number of sessions with an acquisition of a chronicle (F13).
    pub fn acquirers_of(&self, id: ChronicleId) -> u32 {
        self.acquirers.get().map_or(0, |acquirers| acquirers.acquirers(id))
    }

    /// The visible state now.
    pub fn published(&self) -> Arc<PublishedVersions> {
        Arc::clone(&self.published.lock())
    }

    /// A number above the number of every piece. Only for the holder of the lock `move_lock`.
    pub fn next_piece(&self, files: &EngineFiles) -> u64 {
        let named = files.manifest.state().last_piece;
        self.last_piece.fetch_max(named, Ordering::Relaxed);
        self.last_piece.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A new statement id, never used before.
    pub fn next_statement(&self) -> StatementId {
        StatementId(self.last_statement.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Highest statement id so far.
    pub fn last_statement(&self) -> StatementId {
        StatementId(self.last_statement.load(Ordering::Relaxed))
    }

    /// Marks all statement ids up to `id` as used.
    pub fn seen_statement(&self, id: StatementId) {
        self.last_statement.fetch_max(id.0, Ordering::Relaxed);
    }

    /// Gives durable events their gsn's, and makes the events and the deletes between them visible,
    /// all at once. Returns the first gsn. Called at the completion of frames, in lsn order.
    ///
    /// # Errors
    /// `UndefinedTable` for a forgotten chronicle: no reader sees the events of this chronicle.
    pub fn publish(
        &self,
        steps: Vec<Step>,
        producer: Option<(ProducerId, u64)>,
        lsn: Lsn,
    ) -> Result<u64> {
        let mut forgotten = false;
        let mut committed = self.publisher.lock();
        let first = *committed + 1;
        let mut versions = Vec::with_capacity(steps.len());
        let mut followed: Vec<(Arc<Chronicle>, Arc<MemoryBatch>)> = Vec::new();
        let mut deleted = Vec::new();
        for step in steps {
            let chunk = match step {
                Step::Events(chunk) => chunk,
                Step::Delete(deletion) => {
                    let chronicle = &deletion.chronicle;
                    match deletion.carry_out(Gsn(*committed)) {
                        Some(pinned) => versions.push(pinned),
                        None => forgotten = true,
                    }
                    // After a delete, followers read the remaining earlier events from the version.
                    followed.retain(|(known, _)| !Arc::ptr_eq(known, chronicle));
                    deleted.push(Arc::clone(chronicle));
                    continue;
                }
            };
            let rows = chunk.rows() as u64;
            let (batch, mut reserved) = chunk.into_batch(*committed + 1);
            *committed += rows;
            let chronicle = Arc::clone(&reserved.chronicle);
            let sealed = self.settings.compaction_rows_max;
            match chronicle.commit(batch, &mut reserved, sealed) {
                Some(version) => {
                    if chronicle.feed().is_active()
                        && let Some(batch) = version.batches().next_back()
                    {
                        followed.push((Arc::clone(&chronicle), Arc::clone(batch)));
                    }
                    versions.push(PinnedVersion { chronicle, version });
                }
                None => forgotten = true,
            }
        }
        if let Some((producer, number)) = producer {
            self.producers.lock().committed(producer, number);
        }
        self.floor_candidates.committed(
            lsn,
            *committed,
            self.last_statement.load(Ordering::Relaxed),
        );
        self.show(*committed, versions);
        // After `show`: a woken follower must find the commit visible.
        for (chronicle, batch) in followed {
            chronicle.feed().push(batch, Gsn(*committed));
        }
        for chronicle in deleted {
            chronicle.feed().announce();
        }
        if forgotten { Err(dropped()) } else { Ok(first) }
    }

    /// Checks that the chronicles of `steps` still exist.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn check_known<'a>(
        &self,
        steps: impl IntoIterator<Item = Step<&'a Chunk, &'a Deletion>>,
    ) -> Result<()> {
        let forgotten = self.forgotten.read();
        let is_dropped = |step: Step<&Chunk, &Deletion>| forgotten.contains(&step.chronicle().id());
        if steps.into_iter().any(is_dropped) { Err(dropped()) } else { Ok(()) }
    }

    /// Sets the highest committed gsn after recovery.
    pub fn set_committed(&self, gsn: u64) {
        *self.publisher.lock() = gsn;
    }

    /// Runs `change` under the publisher's lock. `change` receives the highest committed gsn; its
    /// result is published.
    pub fn change<T>(&self, change: impl FnOnce(Gsn) -> (Option<PinnedVersion>, T)) -> T {
        let committed = self.publisher.lock();
        let (pinned, result) = change(Gsn(*committed));
        self.show(*committed, pinned);
        result
    }

    /// Follows a chronicle from the head of the log.
    ///
    /// # Errors
    /// `Internal` outside of a runtime.
    pub fn follow(&self, chronicle: &Chronicle) -> Result<(FeedFollower, Gsn)> {
        let committed = self.publisher.lock();
        let following = chronicle.feed().follow(Gsn(*committed))?;
        Ok((following, Gsn(*committed)))
    }

    /// Seals a chronicle with clocked ticks, up to the limit of the clock. Returns the last sealed
    /// tick; `None` before the first event. Without clocked ticks, `late = 'reject'` seals ticks by
    /// the order of commits, and `late = 'accept'` returns `None`.
    ///
    /// # Errors
    /// `UndefinedTable` after [`EventStore::forget`].
    pub fn seal(&self, definition: &ChronicleDefinition) -> Result<Option<Tick>> {
        if !definition.time_source.is_clocked() {
            return match definition.late {
                LatePolicy::Reject => Ok(self.chronicle(definition)?.sealed_by_order()),
                LatePolicy::Accept => Ok(None),
            };
        }
        let chronicle = self.chronicle(definition)?;
        // Read before the locks: an earlier time seals less.
        let now = self.clock.reading();
        Ok(self.change(|_| {
            let version = chronicle.seal(definition, &now);
            let sealed = chronicle.state().version.open_from().map(before);
            let news = version.filter(|version| !self.shows(chronicle.id(), version));
            let pinned =
                news.map(|version| PinnedVersion { chronicle: Arc::clone(&chronicle), version });
            (pinned, sealed)
        }))
    }

    /// True if this version of a chronicle is the published version.
    fn shows(&self, id: ChronicleId, version: &Arc<Version>) -> bool {
        let published = self.published.lock();
        published.versions.get(&id).is_some_and(|pinned| Arc::ptr_eq(&pinned.version, version))
    }

    /// Makes versions and the head visible. A snapshot of the current state makes this function
    /// copy the list of all chronicles; without a change the function returns before the copy.
    pub fn show(&self, gsn: u64, versions: impl IntoIterator<Item = PinnedVersion>) {
        let mut versions = versions.into_iter().peekable();
        let mut untidy = Vec::new();
        let mut guard = self.published.lock();
        if versions.peek().is_none() && guard.gsn == Gsn(gsn) {
            return;
        }
        let published = Arc::make_mut(&mut guard);
        published.gsn = Gsn(gsn);
        for pinned in versions {
            let id = pinned.chronicle.id();
            if self.forgotten.read().contains(&id) {
                continue;
            }
            let many = pinned.version.tail().len() >= self.settings.compaction_fan_in;
            if many || pinned.chronicle.is_worn() {
                untidy.push(id);
            }
            published.versions.insert(id, pinned);
        }
        drop(guard);
        self.head.send_if_modified(|head| std::mem::replace(head, gsn) != gsn);
        if !untidy.is_empty() {
            self.untidy.lock().extend(untidy);
        }
    }
}

/// The tick before `tick`.
fn before(tick: Tick) -> Tick {
    Tick(tick.0.saturating_sub(1))
}

/// Runs the work of a move on a thread of its own. The work continues without a waiting caller.
fn spawn_move<T: Send + 'static, F: Future<Output = Result<T>>>(
    work: impl FnOnce() -> F + Send + 'static,
) -> BoxFuture<'static, Result<T>> {
    Box::pin(async move {
        let runtime = tokio::runtime::Handle::current();
        let done = tokio::task::spawn_blocking(move || runtime.block_on(work())).await;
        done.unwrap_or_else(|error| Err(Error::internal(format!("a move failed: {error}"))))
    })
}

fn dropped() -> Error {
    Error::new(
        ErrorKind::UndefinedTable,
        "the table was dropped before the statement was committed",
    )
    .with_detail("the statement stored no row in the table")
}

#[cfg(test)]
mod tests;
