//! The contract between SQL and storage: appends, snapshots and scans.

use std::{any::Any, fmt, sync::Arc};

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::{
    Acceptance, BoxFuture, ChronicleDefinition, ChronicleId, Durability, Gsn, GsnRange, Lsn,
    ProducerId, Result, SchemaVersion, StatementId, Tick, TickRange, TickRanges, TierName,
    aggregate::AggregateRequest,
    batch::EventBatch,
    subscribe::{SubscribeRequest, Subscription},
    tier::{BatchStream, Extent, ScanRequest},
};

/// The options of an append.
#[derive(Debug, Clone, Default)]
pub struct AppendOptions {
    /// Durability of the acknowledgement; `None` takes the strictest level of the chronicles.
    pub durability: Option<Durability>,
    /// The producer, and the number of the statement. A number up to the producer's last committed
    /// number is acknowledged without a second store (F68).
    pub producer: Option<(ProducerId, u64)>,
    /// For an append of several statements of the producer: the number of the first statement. The
    /// append is refused if some of the statements were committed and others not. `None` for a
    /// single statement.
    pub producer_from: Option<u64>,
    /// The acceptance rule for chronicles with a clocked time source (F24).
    pub acceptance: Acceptance,
}

/// The action for an event whose collision key is taken, under `collision = 'first'`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// `UniqueViolation`; the whole statement fails.
    #[default]
    Error,
    /// The event is skipped and counted.
    Skip,
}

/// The result of a push.
#[derive(Debug, Clone)]
pub struct PushResult {
    /// The events to store: with assigned ticks, without skipped events.
    pub events: EventBatch,
    /// Events skipped for a conflict.
    pub skipped: u64,
}

/// A committed append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedAppend {
    /// Gsn of the first event; later events follow in the order of admission. `None` for an empty
    /// append.
    pub first_gsn: Option<Gsn>,
    /// Gsn of the last event.
    pub last_gsn: Option<Gsn>,
    /// Events stored.
    pub rows: u64,
    /// The level reached (CL-1).
    pub durability: Durability,
    /// A retry of a statement that the producer has committed before: nothing was stored again, and
    /// the gsn's are unknown.
    pub duplicate: bool,
}

/// One statement or transaction that appends. `commit` makes all events visible at once. Drop rolls
/// the append back. A savepoint allows a partial rollback.
pub trait Append: Send + Sync {
    /// States the time of the acquisition of a chronicle, in nanoseconds since 1970; `None` without
    /// an acquisition. For a clocked time source, later pushes accept no event from before the
    /// acquisition, whatever [`AppendOptions::acceptance`] allows (F24).
    fn acquired(&mut self, chronicle: ChronicleId, since_ns: Option<i64>);

    /// States whether later pushed events of a chronicle keep their times under a clocked time
    /// source, because the session restores a dump. Only a chronicle without any committed event,
    /// past or present, keeps times outside of the acceptance window (F24).
    fn restores(&mut self, chronicle: ChronicleId, restores: bool);

    /// Adds events of one chronicle, in arrival order. `rows` has the schema
    /// [`ChronicleDefinition::arrow_schema`]. Waits under back-pressure.
    ///
    /// # Errors
    /// `UniqueViolation`, `NotNullViolation`, `DatetimeOverflow`, `DatatypeMismatch`,
    /// `OutsideWindow` and `TickTaken` (clocked time sources), `OutOfMemory` (budget), `DiskFull`,
    /// `Io` (poisoned). After an error the caller may only roll back to a savepoint or drop the
    /// append.
    fn push<'a>(
        &'a mut self,
        chronicle: &'a Arc<ChronicleDefinition>,
        rows: RecordBatch,
        on_conflict: OnConflict,
    ) -> BoxFuture<'a, Result<PushResult>>;

    /// Deletes events of `range`: events committed before this append, and events of the append
    /// from before this call. Later events of the append stay. The caller checks that the range
    /// covers a prefix or a suffix of the chronicle (F22).
    ///
    /// # Errors
    /// `LimitExceeded` for too many deletes; `DataCorrupted`, `Io`, `ConnectionFailure` if pieces
    /// cannot be read.
    fn delete<'a>(
        &'a mut self,
        chronicle: &'a Arc<ChronicleDefinition>,
        range: TickRange,
    ) -> BoxFuture<'a, Result<()>>;

    /// The transaction's view: `base`, a snapshot of the same store, plus the append's events and
    /// deletes so far, as if committed.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure` if keys of events in pieces cannot be read.
    fn over<'a>(&'a self, base: &'a Arc<dyn Snapshot>) -> BoxFuture<'a, Result<Arc<dyn Snapshot>>>;

    /// Makes a savepoint; returns its number for [`Self::roll_back_to`].
    ///
    /// # Errors
    /// `LimitExceeded` for too many savepoints.
    fn savepoint(&mut self) -> Result<usize>;

    /// Forgets the savepoints after this savepoint; 0 is the beginning of the append.
    fn release(&mut self, savepoint: usize);

    /// Takes back all pushes after a savepoint, including a failed push: then the append continues.
    /// 0 is the beginning of the append. Later savepoints are gone; this savepoint stays.
    fn roll_back_to(&mut self, savepoint: usize);

    /// Makes everything durable, then visible, then returns. If the caller drops the returned
    /// future midway, the store holds either the complete append or nothing.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<CommittedAppend>>;

    /// Makes everything durable on disk, whatever the requested durability, and nothing visible: a
    /// record of another log will decide about the append (RFC 0023).
    ///
    /// # Errors
    /// Like [`Self::commit`]; then nothing is stored. `Internal` for an append with a producer
    /// number.
    fn prepare(self: Box<Self>) -> BoxFuture<'static, Result<Box<dyn PreparedAppend>>>;
}

/// The events to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletedArea {
    /// The events with these ticks.
    Ticks(TickRange),
    /// The events with a gsn below this gsn.
    Before(Gsn),
}

/// A prepared delete: its frame is not in the log yet. The drop abandons the delete.
pub trait PreparedDelete: Send {
    /// Deletes the events of the prepared area: for a range of ticks, the events committed before
    /// the frame of the delete is durable; for a gsn, the events below the gsn. Returns the number
    /// of deleted events.
    ///
    /// # Errors
    /// The errors of the log.
    fn carry_out(self: Box<Self>) -> BoxFuture<'static, Result<u64>>;
}

/// An append with durable frames. Drop rolls a prepared append back. Once the deciding record is or
/// may be durable, the owner calls `commit` or `abandon` instead.
pub trait PreparedAppend: Send {
    /// The content of the deciding record; `None` for an append without events and deletes.
    fn decision(&self) -> Option<Decision>;

    /// The chronicles with events or deletes: each must exist in the state after the deciding
    /// record.
    fn chronicles(&self) -> Vec<ChronicleId>;

    /// Completes the commit after the decision is durable: writes the commit frame, makes
    /// everything visible, then returns. Retries until the log takes the commit frame or stops.
    ///
    /// # Errors
    /// `Io`, `Shutdown` if the log has stopped: keys and frames stay unchanged, and the next start
    /// of the store completes the commit.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<CommittedAppend>>;

    /// For a decision that may or may not be durable: keys and frames stay unchanged until the next
    /// start of the store.
    fn abandon(self: Box<Self>);
}

/// The decision to commit a prepared append, stored in another log (RFC 0023).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The statements of the append, in the order of their commit; at least one.
    pub statements: Vec<StatementId>,
    /// Events of these statements.
    pub rows: u64,
}

/// All events committed at one instant; never changes (CL-5).
pub trait Snapshot: Any + Send + Sync + std::fmt::Debug {
    /// Highest gsn inside: the head of the log.
    fn gsn(&self) -> Gsn;
    /// The seal of the chronicle: all events up to this tick are in the snapshot, and no later
    /// event will have such a tick. [`EventStore::seal`] found the seal before this snapshot.
    /// `None` without an earlier call of `seal`, and for a time source without a clock.
    fn sealed(&self, chronicle: &ChronicleDefinition) -> Option<Tick> {
        let _ = chronicle;
        None
    }
    /// Exact facts about the events of a chronicle; `None` if the facts would need reading events.
    fn extent(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> Option<Extent>;
    /// Bounds of the ticks of a chronicle, found without reading events. [`Self::extent`] has the
    /// exact bounds.
    fn hull(&self, chronicle: &ChronicleDefinition) -> TickRange {
        self.extent(chronicle, &TickRanges::all()).map_or(TickRange::ALL, |extent| extent.ticks)
    }
    /// The ticks of a chronicle that this reader may see: all ticks, unless the snapshot is
    /// confined to an acquired range.
    fn within(&self, chronicle: ChronicleId) -> TickRange {
        let _ = chronicle;
        TickRange::ALL
    }
    /// An estimate of the number of events that a scan reads: the events of its ranges, or a share
    /// of them for a scan with key filters.
    fn estimate(&self, request: &ScanRequest) -> u64 {
        self.extent(&request.chronicle, &request.ticks).map_or(u64::MAX, |extent| extent.rows)
    }
    /// An estimate of the number of series with ticks in `ranges`, from earlier reads: the maximum
    /// of any part. 0 without earlier reads.
    fn series(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> u64 {
        let _ = (chronicle, ranges);
        0
    }
    /// A range of positions inside `gsns` with deleted events of the chronicle, perhaps with other
    /// events between them; `None` without deleted events.
    fn deleted(&self, chronicle: &ChronicleDefinition, gsns: GsnRange) -> Option<GsnRange>;
    /// Starts a scan for partial aggregates. The batches of the streams have the schema
    /// [`AggregateRequest::schema`]; the streams together count each event once. `None` if a window
    /// would begin before the smallest tick.
    fn aggregate(&self, request: AggregateRequest) -> Result<Option<Vec<BatchStream>>>;
    /// Starts a scan: the streams together return each event once. One stream if the request
    /// orders. Equal requests distribute the events over the streams in the same way.
    fn scan(&self, request: ScanRequest) -> Result<Vec<BatchStream>>;
}

/// The event store for SQL.
pub trait EventStore: Send + Sync + std::fmt::Debug {
    /// Starts an append.
    fn begin(&self, options: AppendOptions) -> Result<Box<dyn Append>>;

    /// Pins all events committed so far.
    fn snapshot(&self) -> Arc<dyn Snapshot>;

    /// Seals the chronicle: ends the time for new events, within the limits of its clock. Returns
    /// the last sealed tick S (F24); no new event can have a tick up to S. Later snapshots have all
    /// events up to S, and return S from [`Snapshot::sealed`]. For a chronicle that refuses late
    /// events, returns the last tick closed to new events; snapshots do not return this tick.
    /// `None` for a chronicle that accepts events of any time.
    ///
    /// # Errors
    /// `UndefinedTable` after [`Self::forget`].
    fn seal(&self, chronicle: &ChronicleDefinition) -> Result<Option<Tick>> {
        let _ = chronicle;
        Ok(None)
    }

    /// Prepares a delete. [`PreparedDelete::carry_out`] decides which events the delete removes.
    /// Waits for uncommitted merges with events of `area` (`collision = 'merge'`); later merges with
    /// these events wait until the prepared delete ends.
    ///
    /// # Errors
    /// `FeatureNotSupported` for events on both sides of a range of ticks: the range must cover a
    /// prefix or a suffix of the chronicle (F22). `InvalidParameterValue` for a position beyond the
    /// end of the log. `DeadlockDetected`. `DataCorrupted`, `Io`, `ConnectionFailure` when pieces
    /// cannot be read.
    fn prepare_delete<'a>(
        &'a self,
        chronicle: &'a Arc<ChronicleDefinition>,
        area: DeletedArea,
    ) -> BoxFuture<'a, Result<Box<dyn PreparedDelete>>>;

    /// Deletes the events of `range` that are committed before the frame of the delete is durable.
    /// Returns the number of deleted events.
    ///
    /// # Errors
    /// The errors of [`Self::prepare_delete`] and [`PreparedDelete::carry_out`].
    fn delete<'a>(
        &'a self,
        chronicle: &'a Arc<ChronicleDefinition>,
        range: TickRange,
    ) -> BoxFuture<'a, Result<u64>> {
        let prepared = self.prepare_delete(chronicle, DeletedArea::Ticks(range));
        Box::pin(async move { prepared.await?.carry_out().await })
    }

    /// Deletes the events of a chronicle with a gsn below `before` (F103): the beginning of the
    /// chronicle in the order of commits. Returns the number of deleted events.
    ///
    /// # Errors
    /// Like [`Self::delete`].
    fn trim<'a>(
        &'a self,
        chronicle: &'a Arc<ChronicleDefinition>,
        before: Gsn,
    ) -> BoxFuture<'a, Result<u64>> {
        let prepared = self.prepare_delete(chronicle, DeletedArea::Before(before));
        Box::pin(async move { prepared.await?.carry_out().await })
    }

    /// Returns when everything up to `gsn` is ordered and visible to later snapshots (F56, F108).
    ///
    /// # Errors
    /// `Shutdown`.
    fn reached(&self, gsn: Gsn) -> BoxFuture<'static, Result<()>>;

    /// Reads a chronicle in the order of commits, from a given position on, without an end (F104).
    ///
    /// # Errors
    /// `UndefinedTable` for a dropped chronicle.
    fn subscribe(&self, request: SubscribeRequest) -> Result<Subscription>;

    /// Moves all committed events of a chronicle out of the journal (F29–F33). Returns after the
    /// durable move. Readers see no change except `_tier`.
    /// # Errors
    /// `DiskFull`, `Io`: earlier moves stay in effect. If the caller drops the returned future
    /// midway, the current move happens completely or not at all.
    fn flush(&self, chronicle: ChronicleId) -> BoxFuture<'_, Result<MoveCounts>>;

    /// Like [`Self::flush`], and then merges all pieces of the chronicle into the minimum number of
    /// large, disjoint pieces of the lowest tier, without deleted and replaced events.
    ///
    /// # Errors
    /// Like [`Self::flush`].
    fn compact(&self, chronicle: ChronicleId) -> BoxFuture<'_, Result<MoveCounts>>;

    /// The owners of the visible events, by chronicle, tier and ticks.
    fn pieces(&self) -> Vec<PieceStatus>;

    /// The current moves of this process, and the last ended moves; by number.
    fn moves(&self) -> Vec<MoveStatus>;

    /// The progress of each chronicle's events down the tiers, by chronicle.
    fn watermarks(&self) -> Vec<Watermarks>;

    /// Forgets a dropped chronicle; frees its memory after the last snapshot has released the
    /// chronicle.
    fn forget(&self, chronicle: ChronicleId);

    /// The known producers, and the last committed number of each producer (F68).
    fn producers(&self) -> Vec<(ProducerId, u64)>;

    /// The status for operators.
    fn status(&self) -> StoreStatus;
}

/// Counts the acquirers of a chronicle: storage keeps popular chronicles in higher tiers (F13).
pub trait Acquirers: Send + Sync + fmt::Debug {
    /// The current number of acquirers.
    fn acquirers(&self, chronicle: ChronicleId) -> u32;
}

/// The result of moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MoveCounts {
    /// Events in the new pieces.
    pub rows: u64,
    /// Pieces made.
    pub pieces_added: u64,
    /// Pieces made obsolete.
    pub pieces_removed: u64,
    /// Bytes of the new pieces.
    pub bytes: u64,
}

impl MoveCounts {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: MoveCounts) -> MoveCounts {
        MoveCounts {
            rows: self.rows + other.rows,
            pieces_added: self.pieces_added + other.pieces_added,
            pieces_removed: self.pieces_removed + other.pieces_removed,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// An owner of events: a piece, or the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceStatus {
    /// The chronicle of the events.
    pub chronicle: ChronicleId,
    /// The tier.
    pub tier: TierName,
    /// Number of the tablet or story; `None` for the journal.
    pub number: Option<u64>,
    /// The file; `None` for the journal, whose segments hold events of many chronicles.
    pub file: Option<String>,
    /// Hull of the ticks.
    pub ticks: TickRange,
    /// Events, including deleted or replaced events still in the piece.
    pub rows: u64,
    /// Bytes in the file; for the journal, in memory.
    pub bytes: u64,
    /// Bytes in memory, if the events can be read without the file.
    pub memory_bytes: u64,
    /// Lowest and highest gsn.
    pub gsns: (Gsn, Gsn),
    /// Schema version of the events; `None` for the journal, which may hold several versions.
    pub schema_version: Option<SchemaVersion>,
}

/// The purpose of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveKind {
    /// From the journal into tablets.
    Flush,
    /// From tablets into fewer, disjoint tablets.
    Merge,
    /// From tablets into stories.
    Archive,
    /// Removal of events after their retention time.
    Retention,
    /// Stories rewritten with the current indexes of their chronicle.
    Index,
}

impl fmt::Display for MoveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MoveKind::Flush => "flush",
            MoveKind::Merge => "merge",
            MoveKind::Archive => "archive",
            MoveKind::Retention => "retention",
            MoveKind::Index => "index",
        })
    }
}

/// A current or ended move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveStatus {
    /// The number of the move within this process.
    pub number: u64,
    /// The chronicle of the events.
    pub chronicle: ChronicleId,
    /// The purpose.
    pub kind: MoveKind,
    /// The start, in nanoseconds since 1970.
    pub started_ns: i64,
    /// The end, in nanoseconds since 1970; `None` for a current move.
    pub ended_ns: Option<i64>,
    /// The result so far.
    pub moved: MoveCounts,
    /// The error of a failed move.
    pub error: Option<String>,
}

/// The progress of a chronicle's events down the tiers. No value ever decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// The chronicle.
    pub chronicle: ChronicleId,
    /// All events committed up to this gsn are in pieces, durable and verified by reading.
    pub through: Gsn,
    /// Highest tick that ever left the journal: T of the design.
    pub tablets: Option<Tick>,
    /// Highest tick in stories: P of the design.
    pub stories: Option<Tick>,
}

/// The status of a store.
#[derive(Debug, Clone, Default)]
pub struct StoreStatus {
    /// Highest committed gsn.
    pub committed: Gsn,
    /// Bytes of events in memory.
    pub memory_bytes: u64,
    /// The budget for events in memory.
    pub memory_bytes_max: u64,
    /// Bytes of the cache of decoded story columns.
    pub story_cache_bytes: u64,
    /// The chronicles.
    pub chronicles: Vec<ChronicleStatus>,
    /// First frame of the journal with an event or a delete that no piece has.
    pub journal_needed_from: Lsn,
    /// The journal's numbers.
    pub log: crate::log::LogStatus,
}

/// The status of a chronicle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChronicleStatus {
    /// The chronicle.
    pub id: ChronicleId,
    /// Events visible now.
    pub rows: u64,
    /// Bytes in memory.
    pub bytes: u64,
    /// Distinct key values.
    pub series: u64,
}
