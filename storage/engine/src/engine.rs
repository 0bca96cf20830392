//! The engine: the store of events, assembled from its parts.
//!
//! ```text
//!   publisher ◄── keeper      appends and deletes
//!       ▲   ▲       ▲
//!       │   └─── mover        moves events between the tiers
//!       └─────── followers    serves subscriptions, in commit order
//! ```

use std::sync::Arc;

use stratalog_metrics::MoveMetrics;
use stratalog_model::{
    Acquirers, Append, BoxFuture, ChronicleDefinition, ChronicleId, Clock, Decision, Error,
    ErrorKind, EventStore, Gsn, Log, ProducerId, Result, Tick, Tier,
    store::{
        AppendOptions, ChronicleStatus, DeletedArea, MoveCounts, MoveStatus, PieceStatus,
        PreparedDelete, Snapshot, StoreStatus, Watermarks,
    },
    subscribe::{SubscribeRequest, Subscription},
};

use crate::{
    events::budget::Budget,
    ingest::{
        append::OpenAppend,
        chronicles::Chronicles,
        delete::{self, trim},
        keeper::Keeper,
    },
    read::{
        follow::{self, followers::Followers},
        snapshot::PinnedSnapshot,
    },
    recovery::{self, RecoveryTarget},
    settings::EngineSettings,
    tiering::{
        collect::{self, floor},
        files::EngineFiles,
        mover::Mover,
    },
    version::{publisher::Publisher, status},
};

/// The memory for followers, in shares of `1 / FEEDS_SHARE` of the memory budget: one share for
/// recent commits that followers have not taken yet, and one share for history that was read for
/// followers.
const FEEDS_SHARE: u64 = 16;

/// The store of events: `EventStore` over a [`Log`].
#[derive(Debug)]
pub struct Engine {
    publisher: Arc<Publisher>,
    keeper: Arc<Keeper>,
    mover: Arc<Mover>,
    followers: Arc<Followers>,
}

impl Engine {
    /// Opens an engine: replays `log`, and accepts appends from then on. `definitions` returns the
    /// existing chronicles. Recovery skips the events of all other chronicles, but their gsn's stay
    /// used.
    ///
    /// # Errors
    /// The errors of [`Log::replay`]; `DataCorrupted` if a frame has a valid checksum but an
    /// invalid payload.
    pub fn open(
        log: Arc<dyn Log>,
        clock: Arc<dyn Clock>,
        settings: EngineSettings,
        definitions: &dyn Fn(ChronicleId) -> Option<Arc<ChronicleDefinition>>,
    ) -> Result<Arc<Self>> {
        Self::open_with(log, clock, settings, definitions, None)
    }

    /// Like [`Self::open`], with files for events that leave the log. The manifest among these
    /// files names the valid files.
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

    /// Like [`Self::open_with`]. `decision` is the catalog's last decision: if a crash came before
    /// its commit frame, recovery commits its append (RFC 0023). `verify` runs after all frames
    /// were read, and before recovery writes the commit frame.
    ///
    /// # Errors
    /// The errors of [`Self::open`] and of `verify`; `DataCorrupted` if the log has only a part of
    /// the append; `DiskFull` if there is no room for the commit frame.
    pub fn open_decided(
        log: Arc<dyn Log>,
        clock: Arc<dyn Clock>,
        settings: EngineSettings,
        definitions: &dyn Fn(ChronicleId) -> Option<Arc<ChronicleDefinition>>,
        files: Option<EngineFiles>,
        decision: Option<&Decision>,
        verify: &dyn Fn() -> Result<()>,
    ) -> Result<Arc<Self>> {
        let opened_ns = clock.now_ns();
        let settings = Arc::new(settings);
        let budget = Budget::new(settings.memory_bytes_max);
        let feed_bytes_max = settings.memory_bytes_max / FEEDS_SHARE;
        let chronicles = Chronicles::new(&budget, feed_bytes_max, opened_ns);
        let publisher = Arc::new(Publisher::new(chronicles, &settings, &budget));
        let followers = Followers::new(&publisher, Arc::clone(&clock), feed_bytes_max);
        let keeper = Arc::new(Keeper::new(log, clock, &settings, &budget, &publisher));
        let mover = Mover::new(&keeper, files)?;
        let (files, blocking_pool) = (mover.files.as_ref(), &mover.blocking_pool);
        let target = RecoveryTarget { keeper: &keeper, files, blocking_pool };
        recovery::recover(target, definitions, decision, verify)?;
        mover.commit_times.note(publisher.published().gsn, || opened_ns);
        let (mover, followers) = (Arc::new(mover), Arc::new(followers));
        Ok(Arc::new(Self { publisher, keeper, mover, followers }))
    }

    pub(crate) fn mover(&self) -> &Arc<Mover> {
        &self.mover
    }

    /// Keeps the events of chronicles with many acquisitions in memory longer than other events
    /// (F13). `acquirers` reports the acquisitions. The first call counts; later calls have no
    /// effect.
    pub fn steer_by(&self, acquirers: Arc<dyn Acquirers>) {
        self.mover.acquirers.get_or_init(|| acquirers);
    }

    /// From now on, also records each move in `metrics`.
    pub fn measure_moves(&self, metrics: MoveMetrics) {
        self.mover.move_history.measure_by(metrics);
    }

    /// The tiers that have events of a chronicle, from the oldest events to the newest (stories,
    /// tablets, journal), and the highest visible gsn. A snapshot merges these tiers.
    pub fn tiers(&self, chronicle: &ChronicleDefinition) -> (Vec<Box<dyn Tier>>, Gsn) {
        PinnedSnapshot::new(self.publisher.published()).tiers(chronicle)
    }

    /// Moves the floor (the beginning of the journal) to the first needed frame. Returns the number
    /// of bytes freed.
    ///
    /// # Errors
    /// `Io`.
    pub async fn release_journal(&self) -> Result<u64> {
        floor::raise_floor(&self.mover).await
    }
}

impl EventStore for Engine {
    fn begin(&self, options: AppendOptions) -> Result<Box<dyn Append>> {
        Ok(Box::new(OpenAppend::new(Arc::clone(&self.keeper), options)))
    }

    fn snapshot(&self) -> Arc<dyn Snapshot> {
        Arc::new(PinnedSnapshot::new(self.publisher.published()))
    }

    fn seal(&self, chronicle: &ChronicleDefinition) -> Result<Option<Tick>> {
        self.keeper.seal(chronicle)
    }

    fn prepare_delete<'a>(
        &'a self,
        chronicle: &'a Arc<ChronicleDefinition>,
        area: DeletedArea,
    ) -> BoxFuture<'a, Result<Box<dyn PreparedDelete>>> {
        let (keeper, chronicle) = (Arc::clone(&self.keeper), Arc::clone(chronicle));
        Box::pin(async move {
            Ok(match area {
                DeletedArea::Ticks(range) => {
                    Box::new(delete::prepare(keeper, chronicle, range).await?) as _
                }
                DeletedArea::Before(gsn) => {
                    Box::new(trim::prepare(keeper, chronicle, gsn).await?) as _
                }
            })
        })
    }

    fn reached(&self, gsn: Gsn) -> BoxFuture<'static, Result<()>> {
        let mut head = self.publisher.head();
        Box::pin(async move {
            let reached = head.wait_for(|head| *head >= gsn.0).await.map(drop);
            reached.map_err(|_| Error::new(ErrorKind::Shutdown, "the log was closed"))
        })
    }

    fn subscribe(&self, request: SubscribeRequest) -> Result<Subscription> {
        follow::subscribe(&self.followers, request)
    }

    fn flush(&self, chronicle: ChronicleId) -> BoxFuture<'_, Result<MoveCounts>> {
        let mover = Arc::clone(&self.mover);
        spawn_move(move || async move { collect::collect(&mover, chronicle).await })
    }

    fn compact(&self, chronicle: ChronicleId) -> BoxFuture<'_, Result<MoveCounts>> {
        let mover = Arc::clone(&self.mover);
        spawn_move(move || async move { collect::compact(&mover, chronicle).await })
    }

    fn pieces(&self) -> Vec<PieceStatus> {
        let published = self.publisher.published();
        let versions = published.versions.iter();
        let mut pieces: Vec<PieceStatus> =
            versions.flat_map(|(id, pinned)| status::pieces(*id, &pinned.version)).collect();
        pieces.sort_unstable_by_key(|piece| {
            (piece.chronicle, piece.tier, piece.ticks.start, piece.number)
        });
        pieces
    }

    fn moves(&self) -> Vec<MoveStatus> {
        self.mover.move_history.list()
    }

    fn watermarks(&self) -> Vec<Watermarks> {
        let published = self.publisher.published();
        let versions = published.versions.iter();
        let mut marks: Vec<Watermarks> =
            versions.map(|(id, pinned)| status::watermarks(*id, &pinned.version)).collect();
        marks.sort_unstable_by_key(|marks| marks.chronicle);
        marks
    }

    fn forget(&self, chronicle: ChronicleId) {
        self.publisher.forget(chronicle);
    }

    fn producers(&self) -> Vec<(ProducerId, u64)> {
        self.keeper.producers.lock().list()
    }

    fn status(&self) -> StoreStatus {
        let published = self.publisher.published();
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
        let stories = self.mover.files.as_ref().map(|files| &files.shelves.stories);
        StoreStatus {
            committed: published.gsn,
            memory_bytes: self.keeper.budget.used(),
            memory_bytes_max: self.keeper.budget.bytes_max(),
            story_cache_bytes: stories.map_or(0, |stories| stories.decoded_bytes()),
            chronicles,
            journal_needed_from: floor::needed_from(&self.mover),
            log: self.keeper.log.status(),
        }
    }
}

/// Runs the work of a move on a new thread. The work continues even if the caller no longer waits.
fn spawn_move<T: Send + 'static, F: Future<Output = Result<T>>>(
    work: impl FnOnce() -> F + Send + 'static,
) -> BoxFuture<'static, Result<T>> {
    Box::pin(async move {
        let runtime = tokio::runtime::Handle::current();
        let done = tokio::task::spawn_blocking(move || runtime.block_on(work())).await;
        done.unwrap_or_else(|error| Err(Error::internal(format!("a move failed: {error}"))))
    })
}

#[cfg(test)]
mod tests;
