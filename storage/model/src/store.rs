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
    /// Durability of the acknowledgement; `None` selects the strictest default level of the
    /// chronicles in the append.
    pub durability: Option<Durability>,
    /// The producer, and the number that the producer gave to the statement. If the number is at
    /// most the producer's last committed number, the store acknowledges the statement as a
    /// duplicate and stores nothing (F68).
    pub producer: Option<(ProducerId, u64)>,
    /// For an append that combines several statements of the producer: the number of the first
    /// statement. The store refuses the append if only some of the statements were committed
    /// before. `None` for a single statement.
    pub producer_from: Option<u64>,
    /// The acceptance rule for chronicles with a clocked time source (F24).
    pub acceptance: Acceptance,
}

/// The action for a new event under `collision = 'first'` if an earlier event has the same
/// collision key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// The whole statement fails with `UniqueViolation`.
    #[default]
    Error,
    /// The event is skipped and counted.
    Skip,
}

/// The result of [`Append::push`].
#[derive(Debug, Clone)]
pub struct PushResult {
    /// The events to store: with assigned ticks, without skipped events.
    pub events: EventBatch,
    /// Number of events skipped because of a conflict.
    pub skipped: u64,
}

/// A committed append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedAppend {
    /// Gsn of the first event; later events have consecutive gsn's, in the order in which the
    /// append accepted them. `None` for an append without events.
    pub first_gsn: Option<Gsn>,
    /// Gsn of the last event; `None` for an append without events.
    pub last_gsn: Option<Gsn>,
    /// Number of stored events.
    pub rows: u64,
    /// The durability level that the append has reached (CL-1).
    pub durability: Durability,
    /// True for a retry of a statement that the producer has committed before. The store has stored
    /// nothing, and the gsn's are unknown.
    pub duplicate: bool,
}

/// One statement or transaction that appends events. `commit` makes all events visible at once. A
/// drop without a commit rolls the append back. A savepoint allows a partial rollback.
pub trait Append: Send + Sync {
    /// Sets the time at which the session acquired a chronicle, in nanoseconds since 1970; `None`
    /// if the session has not acquired the chronicle. For a clocked time source, later pushes
    /// refuse events from before this time, even if [`AppendOptions::acceptance`] allows earlier
    /// events (F24).
    fn acquired(&mut self, chronicle: ChronicleId, since_ns: Option<i64>);

    /// Sets whether the session restores a dump of a chronicle. If so, events of later pushes keep
    /// their times even under a clocked time source. Times outside of the acceptance window are
    /// kept only in a chronicle that never had a committed event (F24).
    fn restores(&mut self, chronicle: ChronicleId, restores: bool);

    /// Adds events of one chronicle, in arrival order. `rows` has the schema
    /// [`ChronicleDefinition::arrow_schema`]. Waits while the store applies back-pressure.
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

    /// Deletes the events of `range` that were committed before this append, or added to this
    /// append before this call. Events that the append adds later stay. The caller checks that the
    /// range covers a prefix or a suffix of the chronicle (F22).
    ///
    /// # Errors
    /// `LimitExceeded` for too many deletes in the append; `DataCorrupted`, `Io`,
    /// `ConnectionFailure` if tablets or stories cannot be read.
    fn delete<'a>(
        &'a mut self,
        chronicle: &'a Arc<ChronicleDefinition>,
        range: TickRange,
    ) -> BoxFuture<'a, Result<()>>;

    /// The transaction's own view of the data: `base`, a snapshot of the same store, plus the
    /// events and deletes of this append as if they were committed.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure` if keys of events in tablets or stories cannot be
    /// read.
    fn over<'a>(&'a self, base: &'a Arc<dyn Snapshot>) -> BoxFuture<'a, Result<Arc<dyn Snapshot>>>;

    /// Makes a savepoint; returns its number for [`Self::roll_back_to`].
    ///
    /// # Errors
    /// `LimitExceeded` for too many savepoints.
    fn savepoint(&mut self) -> Result<usize>;

    /// Discards all savepoints made after `savepoint`; 0 is the beginning of the append.
    fn release(&mut self, savepoint: usize);

    /// Undoes all pushes since `savepoint`, including a failed push. Afterwards the append can
    /// continue. 0 is the beginning of the append. Later savepoints are discarded; `savepoint`
    /// itself stays.
    fn roll_back_to(&mut self, savepoint: usize);

    /// Makes all events durable, then visible, then returns. If the caller drops the returned
    /// future before it completes, the store holds either the complete append or nothing.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<CommittedAppend>>;

    /// Makes all frames of the append durable on disk, whatever durability was requested, but makes
    /// nothing visible. A record in another log then decides whether the append commits (RFC 0023).
    ///
    /// # Errors
    /// Like [`Self::commit`]; after an error nothing is stored. `Internal` for an append with a
    /// producer number.
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

/// A prepared delete: its frame is not in the log yet. Dropping the value abandons the delete.
pub trait PreparedDelete: Send {
    /// Deletes the events of the prepared area, and returns their number. For a range of ticks, the
    /// area has all events committed before the frame of the delete is durable. For a gsn, the area
    /// has all events with a lower gsn.
    ///
    /// # Errors
    /// The errors of the log.
    fn carry_out(self: Box<Self>) -> BoxFuture<'static, Result<u64>>;
}

/// An append whose frames are durable, but that is not committed yet. A drop rolls the append back.
/// Once the deciding record is durable, or may be durable, the owner must call `commit` or
/// `abandon` instead of a drop.
pub trait PreparedAppend: Send {
    /// The content of the record that decides about the commit; `None` for an append without events
    /// and deletes.
    fn decision(&self) -> Option<Decision>;

    /// The chronicles in which the append stores or deletes events. After the deciding record, each
    /// of these chronicles must exist.
    fn chronicles(&self) -> Vec<ChronicleId>;

    /// Completes the commit after the deciding record is durable: writes the commit frame, makes
    /// all events visible, then returns. Retries until the log accepts the commit frame or stops.
    ///
    /// # Errors
    /// `Io`, `Shutdown` if the log has stopped. Then the collision keys stay locked and the frames
    /// stay in the log; the next start of the store completes the commit.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<CommittedAppend>>;

    /// Ends an append whose deciding record may or may not be durable. The collision keys stay
    /// locked and the frames stay in the log until the next start of the store, which finds the
    /// decision.
    fn abandon(self: Box<Self>);
}

/// The decision to commit a prepared append, stored in another log (RFC 0023).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The statements of the append, in commit order; at least one.
    pub statements: Vec<StatementId>,
    /// Number of events in these statements.
    pub rows: u64,
}

/// All events committed at one instant; never changes (CL-5).
pub trait Snapshot: Any + Send + Sync + std::fmt::Debug {
    /// Highest gsn visible in this snapshot.
    fn gsn(&self) -> Gsn;
    /// The sealed tick S of the chronicle: the snapshot has all events with ticks up to S, and no
    /// event with such a tick can arrive later. The last call of [`EventStore::seal`] before this
    /// snapshot determined S. `None` if `seal` was never called, and for a time source without a
    /// clock.
    fn sealed(&self, chronicle: &ChronicleDefinition) -> Option<Tick> {
        let _ = chronicle;
        None
    }
    /// Exact row count, tick range and size of the events in `ranges`; `None` if the store would
    /// have to read events to find them.
    fn extent(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> Option<Extent>;
    /// A range that contains all ticks of a chronicle, found without reading events; may be larger
    /// than necessary. [`Self::extent`] has the exact bounds.
    fn hull(&self, chronicle: &ChronicleDefinition) -> TickRange {
        self.extent(chronicle, &TickRanges::all()).map_or(TickRange::ALL, |extent| extent.ticks)
    }
    /// The ticks of a chronicle that this reader may see: all ticks, unless the session has
    /// acquired only a range of the chronicle.
    fn within(&self, chronicle: ChronicleId) -> TickRange {
        let _ = chronicle;
        TickRange::ALL
    }
    /// An estimate of the number of events that a scan reads: the events in the ranges of the
    /// request, reduced if the request has key filters.
    fn estimate(&self, request: &ScanRequest) -> u64 {
        self.extent(&request.chronicle, &request.ticks).map_or(u64::MAX, |extent| extent.rows)
    }
    /// An estimate of the number of series with ticks in `ranges`, remembered from earlier reads:
    /// the maximum over the blocks and row groups. 0 without earlier reads.
    fn series(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> u64 {
        let _ = (chronicle, ranges);
        0
    }
    /// The first range inside `gsns` in which events of the chronicle were deleted; the range may
    /// also contain events that still exist. `None` if `gsns` has no deleted events.
    fn deleted(&self, chronicle: &ChronicleDefinition, gsns: GsnRange) -> Option<GsnRange>;
    /// Starts a scan that returns partial aggregates. The batches have the schema
    /// [`AggregateRequest::schema`]; all streams together count each event once. `None` if a window
    /// would begin before the smallest tick.
    fn aggregate(&self, request: AggregateRequest) -> Result<Option<Vec<BatchStream>>>;
    /// Starts a scan. All streams together return each event once. A request with an order gets one
    /// stream. Equal requests distribute the events over the streams in the same way.
    fn scan(&self, request: ScanRequest) -> Result<Vec<BatchStream>>;
}

/// The event store, as the SQL layer sees it.
pub trait EventStore: Send + Sync + std::fmt::Debug {
    /// Starts an append.
    fn begin(&self, options: AppendOptions) -> Result<Box<dyn Append>>;

    /// Makes a snapshot of all events committed so far.
    fn snapshot(&self) -> Arc<dyn Snapshot>;

    /// Stops the arrival of events with old ticks, as far as the clock allows. Returns the last
    /// sealed tick S (F24): no new event can have a tick up to S. Later snapshots have all events
    /// up to S, and return S from [`Snapshot::sealed`]. For a chronicle that refuses late events,
    /// returns the last tick closed to new events; snapshots do not return this tick. `None` for a
    /// chronicle that accepts events of any time.
    ///
    /// # Errors
    /// `UndefinedTable` after [`Self::forget`] for the chronicle.
    fn seal(&self, chronicle: &ChronicleDefinition) -> Result<Option<Tick>> {
        let _ = chronicle;
        Ok(None)
    }

    /// Prepares a delete; [`PreparedDelete::carry_out`] decides which events the delete removes.
    /// Under `collision = 'merge'`, an uncommitted event may need the values of an event in `area`:
    /// this call waits for these uncommitted events, and later ones wait until the prepared delete
    /// ends.
    ///
    /// # Errors
    /// `FeatureNotSupported` if `area` is a range of ticks with events on both sides: the range
    /// must cover a prefix or a suffix of the chronicle (F22). `InvalidParameterValue` for a gsn
    /// beyond the end of the log. `DeadlockDetected`. `DataCorrupted`, `Io`, `ConnectionFailure` if
    /// tablets or stories cannot be read.
    fn prepare_delete<'a>(
        &'a self,
        chronicle: &'a Arc<ChronicleDefinition>,
        area: DeletedArea,
    ) -> BoxFuture<'a, Result<Box<dyn PreparedDelete>>>;

    /// Deletes the events of `range` that are committed before the delete's frame is durable.
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

    /// Deletes the events of a chronicle with a gsn below `before`: the oldest events in commit
    /// order (F103). Returns the number of deleted events.
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

    /// Returns when all events up to `gsn` are visible to later snapshots (F56, F108).
    ///
    /// # Errors
    /// `Shutdown` if the store stops before.
    fn reached(&self, gsn: Gsn) -> BoxFuture<'static, Result<()>>;

    /// Reads a chronicle in commit order, from a given position on; the stream does not end at the
    /// newest event, but waits for new events (F104).
    ///
    /// # Errors
    /// `UndefinedTable` for a dropped chronicle.
    fn subscribe(&self, request: SubscribeRequest) -> Result<Subscription>;

    /// Moves all committed events of a chronicle out of the journal into tablets (F29–F33). Returns
    /// after the move is durable. Readers see no change except `_tier`.
    /// # Errors
    /// `DiskFull`, `Io`: moves that completed before the error stay in effect. If the caller drops
    /// the returned future before it completes, the current move happens completely or not at all.
    fn flush(&self, chronicle: ChronicleId) -> BoxFuture<'_, Result<MoveCounts>>;

    /// Like [`Self::flush`], but then merges all tablets and stories of the chronicle into as few
    /// and as disjoint stories as possible, without deleted and replaced events.
    ///
    /// # Errors
    /// Like [`Self::flush`].
    fn compact(&self, chronicle: ChronicleId) -> BoxFuture<'_, Result<MoveCounts>>;

    /// The tablets, stories and journal parts that own visible events, sorted by chronicle, tier
    /// and ticks.
    fn pieces(&self) -> Vec<PieceStatus>;

    /// The running moves of this process, and the most recently ended moves, sorted by number.
    fn moves(&self) -> Vec<MoveStatus>;

    /// For each chronicle, how far its events have moved down the tiers; sorted by chronicle.
    fn watermarks(&self) -> Vec<Watermarks>;

    /// Removes a dropped chronicle from memory. The memory is freed when the last snapshot with the
    /// chronicle is dropped.
    fn forget(&self, chronicle: ChronicleId);

    /// The known producers, and the last committed number of each producer (F68).
    fn producers(&self) -> Vec<(ProducerId, u64)>;

    /// The status for operators.
    fn status(&self) -> StoreStatus;
}

/// Reports how many sessions use a chronicle: storage keeps popular chronicles in higher tiers
/// (F13).
pub trait Acquirers: Send + Sync + fmt::Debug {
    /// The number of sessions that have acquired the chronicle now.
    fn acquirers(&self, chronicle: ChronicleId) -> u32;
}

/// The work that one or more moves have done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MoveCounts {
    /// Number of events in the new tablets and stories.
    pub rows: u64,
    /// Number of new tablets and stories.
    pub pieces_added: u64,
    /// Number of tablets and stories that the moves replaced.
    pub pieces_removed: u64,
    /// Bytes of the new tablets and stories.
    pub bytes: u64,
}

impl MoveCounts {
    /// The sum of the counts of both values.
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

/// A file that owns events (a tablet or a story), or the journal's events of one chronicle.
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
    /// The smallest range that contains the ticks of the events.
    pub ticks: TickRange,
    /// Number of events, including deleted or replaced events that are still stored.
    pub rows: u64,
    /// Bytes of the file; for the journal, bytes in memory.
    pub bytes: u64,
    /// Bytes in memory; 0 if the events must be read from the file.
    pub memory_bytes: u64,
    /// Lowest and highest gsn of the events.
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
    /// Removal of events that are older than the retention time.
    Retention,
    /// Rewrite of stories, to add the current indexes of the chronicle.
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

/// A move that is running or has ended.
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
    /// The end, in nanoseconds since 1970; `None` while the move runs.
    pub ended_ns: Option<i64>,
    /// The work done so far.
    pub moved: MoveCounts,
    /// The error of a failed move.
    pub error: Option<String>,
}

/// How far a chronicle's events have moved down the tiers. No value ever decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// The chronicle.
    pub chronicle: ChronicleId,
    /// All events committed up to this gsn are in tablets or stories, durable, and verified by
    /// reading them back.
    pub through: Gsn,
    /// Highest tick of any event that has left the journal (T in the design).
    pub tablets: Option<Tick>,
    /// Highest tick of any event in stories (P in the design).
    pub stories: Option<Tick>,
}

/// The status of a store.
#[derive(Debug, Clone, Default)]
pub struct StoreStatus {
    /// Highest committed gsn.
    pub committed: Gsn,
    /// Bytes of event data in memory.
    pub memory_bytes: u64,
    /// The limit of `memory_bytes`.
    pub memory_bytes_max: u64,
    /// Bytes of the cache of decoded story columns.
    pub story_cache_bytes: u64,
    /// The chronicles.
    pub chronicles: Vec<ChronicleStatus>,
    /// Lsn of the first journal frame with an event or a delete that is not yet in a tablet or
    /// story.
    pub journal_needed_from: Lsn,
    /// The status of the journal.
    pub log: crate::log::LogStatus,
}

/// Memory and row counts of a chronicle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChronicleStatus {
    /// The chronicle.
    pub id: ChronicleId,
    /// Number of visible events.
    pub rows: u64,
    /// Bytes of the chronicle's events in memory.
    pub bytes: u64,
    /// Number of distinct key values (series).
    pub series: u64,
}
