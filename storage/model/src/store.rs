//! The contract between SQL and storage: append events, pin a snapshot, scan it.

use std::{any::Any, fmt, sync::Arc};

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::{
    Acceptance, BoxFuture, ChronicleDefinition, ChronicleId, Durability, Gsn, GsnRange, ProducerId,
    Result, SchemaVersion, StatementId, Tick, TickRange, TickRanges, TierName,
    aggregate::AggregateRequest,
    batch::EventBatch,
    subscribe::{SubscribeRequest, Subscription},
    tier::{BatchStream, Extent, ScanRequest},
};

/// What an append wants.
#[derive(Debug, Clone, Default)]
pub struct AppendOptions {
    /// Durability of the acknowledgement; `None` takes the strictest of the chronicles'.
    pub durability: Option<Durability>,
    /// Who sends, and the number of this statement: a number not above the producer's
    /// last committed one is acknowledged without being stored again (F68).
    pub producer: Option<(ProducerId, u64)>,
    /// Where the append is several of the producer's statements: the number of the first. It is refused
    /// when some of them were committed and others not; `None` for one statement.
    pub producer_from: Option<u64>,
    /// Which ticks are accepted, where they go by the clock (F24).
    pub acceptance: Acceptance,
}

/// What to do with an event whose collision key is taken, under `collision = 'first'`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// `UniqueViolation`; the whole statement fails.
    #[default]
    Error,
    /// The event is skipped and counted.
    Skip,
}

/// Events that an append took.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// What will be stored: ticks assigned, skipped events left out.
    pub events: EventBatch,
    /// Events skipped for a conflict.
    pub skipped: u64,
}

/// A committed append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Gsn of the first event; events follow in the order in which they were admitted.
    /// `None` when nothing was stored.
    pub first_gsn: Option<Gsn>,
    /// Gsn of the last event.
    pub last_gsn: Option<Gsn>,
    /// Events stored.
    pub rows: u64,
    /// The level reached (CL-1).
    pub durability: Durability,
    /// The producer had this statement acknowledged before: nothing was stored again, and
    /// the gsn's are unknown.
    pub duplicate: bool,
}

/// One statement or transaction that appends: all of it becomes visible at once, by
/// `commit`, or nothing does. Dropping it rolls it back; what follows a savepoint can be rolled
/// back alone.
pub trait Append: Send + Sync {
    /// Tells when a chronicle was acquired, in nanoseconds since 1970: of its events that are pushed from
    /// now on, where they go by the clock, none is accepted from before that, whatever
    /// [`AppendOptions::acceptance`] says (F24). `None` when it is not.
    fn acquired(&mut self, chronicle: ChronicleId, since_ns: Option<i64>);

    /// Tells whether the events of a chronicle that are pushed from now on keep their times, where ticks
    /// go by the clock: a dump is restored. Only a chronicle that never had a committed event keeps
    /// times outside of the acceptance window (F24).
    fn restores(&mut self, chronicle: ChronicleId, restores: bool);

    /// Takes events of one chronicle, in arrival order. `rows` has the schema
    /// [`ChronicleDefinition::arrow_schema`]. Waits under back-pressure.
    ///
    /// # Errors
    /// `UniqueViolation`, `NotNullViolation`, `DatetimeOverflow`, `DatatypeMismatch`,
    /// `OutsideWindow`, `TickTaken` (times of the clock), `OutOfMemory` (budget), `DiskFull`, `Io`
    /// (poisoned). After an error the append can
    /// only be dropped.
    fn push<'a>(
        &'a mut self,
        chronicle: &'a Arc<ChronicleDefinition>,
        rows: RecordBatch,
        on_conflict: OnConflict,
    ) -> BoxFuture<'a, Result<Admitted>>;

    /// Deletes the events of `range` that are committed before this append, and events of the append
    /// from before this call. Later events of the append stay. The caller checks that the range covers
    /// a prefix or a suffix of the chronicle (F22).
    ///
    /// # Errors
    /// `LimitExceeded` for too many deletes; `DataCorrupted`, `Io`, `ConnectionFailure` when pieces
    /// cannot be read.
    fn delete<'a>(
        &'a mut self,
        chronicle: &'a Arc<ChronicleDefinition>,
        range: TickRange,
    ) -> BoxFuture<'a, Result<()>>;

    /// What the transaction sees that this append belongs to: `base`, a snapshot of the same
    /// store, with the events and deletes of the append so far, as if committed.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure` when keys of events in pieces cannot be read.
    fn over<'a>(&'a self, base: &'a Arc<dyn Snapshot>) -> BoxFuture<'a, Result<Arc<dyn Snapshot>>>;

    /// Marks a place to come back to; returns its name for [`Self::roll_back_to`].
    ///
    /// # Errors
    /// `LimitExceeded` when there are too many.
    fn savepoint(&mut self) -> Result<usize>;

    /// Forgets the savepoints after this one; 0 is its beginning.
    fn release(&mut self, savepoint: usize);

    /// Takes back what was pushed after a savepoint, also a push that failed: then the append
    /// goes on. 0 is its beginning. Savepoints that came later are gone; this one stays.
    fn roll_back_to(&mut self, savepoint: usize);

    /// Makes everything durable, then visible, then returns. When the returned future is
    /// dropped midway the append may or may not be stored, but never in part.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<Appended>>;

    /// Makes everything durable on disk, whatever durability was asked for, and nothing visible: a
    /// record of another log is to decide about the append (RFC 0023).
    ///
    /// # Errors
    /// As [`Self::commit`]; then nothing is stored. `Internal` for an append that a producer numbers.
    fn prepare(self: Box<Self>) -> BoxFuture<'static, Result<Box<dyn PreparedAppend>>>;
}

/// An append with durable frames. Dropping a prepared append rolls the append back. Once the deciding
/// record is or may be durable, the owner calls `commit` or `abandon` instead.
pub trait PreparedAppend: Send {
    /// The content of the deciding record; `None` for an append without events and deletes.
    fn decision(&self) -> Option<Decision>;

    /// The chronicles with events or deletes: each must exist in the state that the record leaves.
    fn chronicles(&self) -> Vec<ChronicleId>;

    /// Completes the commit, once the decision is durable: writes the commit frame, makes everything
    /// visible, then returns. Retries until the log takes the commit frame or stops.
    ///
    /// # Errors
    /// `Io`, `Shutdown` when the log has stopped: keys and frames stay as they are, and the next start of
    /// the store completes the commit.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<Appended>>;

    /// The decision may or may not be durable: keys and frames stay as they are until the next start of the
    /// store.
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

/// All events that were committed at one instant; never changes (CL-5).
pub trait Snapshot: Any + Send + Sync + std::fmt::Debug {
    /// Highest gsn inside: the head of the log.
    fn gsn(&self) -> Gsn;
    /// The last tick up to which no event of the chronicle came after this snapshot, or will, as
    /// [`EventStore::seal`] found before it; `None` when nobody asked, and where ticks do not go by
    /// the clock.
    fn sealed(&self, chronicle: &ChronicleDefinition) -> Option<Tick> {
        let _ = chronicle;
        None
    }
    /// Exact facts about the events of a chronicle; `None` when telling would need
    /// reading them.
    fn extent(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> Option<Extent>;
    /// Ticks outside of which a chronicle has no event, told without reading any: where the
    /// ends lie exactly, [`Self::extent`] says.
    fn hull(&self, chronicle: &ChronicleDefinition) -> TickRange {
        self.extent(chronicle, &TickRanges::all()).map_or(TickRange::ALL, |extent| extent.ticks)
    }
    /// The ticks of a chronicle that whoever reads this sees: all, unless it is confined to a part.
    fn within(&self, chronicle: ChronicleId) -> TickRange {
        let _ = chronicle;
        TickRange::ALL
    }
    /// About how many events a scan looks at: those of its ranges, or a share of them where it names
    /// series.
    fn estimate(&self, request: &ScanRequest) -> u64 {
        self.extent(&request.chronicle, &request.ticks).map_or(u64::MAX, |extent| extent.rows)
    }
    /// How many series a chronicle has among some ticks, as far as was seen while it was read: the
    /// most of one part. 0 where nothing was seen.
    fn series(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> u64 {
        let _ = (chronicle, ranges);
        0
    }
    /// Positions among `gsns` of which events of a chronicle were deleted, with others between
    /// them perhaps; `None` for none.
    fn deleted(&self, chronicle: &ChronicleDefinition, gsns: GsnRange) -> Option<GsnRange>;
    /// Starts a scan that tells partial aggregates of its events: streams whose batches have
    /// [`AggregateRequest::schema`], and which together count each event once. `None` when a
    /// window would begin before all ticks.
    fn aggregate(&self, request: AggregateRequest) -> Result<Option<Vec<BatchStream>>>;
    /// Starts a scan: streams that together return each event once. One stream when the
    /// request orders. The same request is dealt to streams in the same way every time.
    fn scan(&self, request: ScanRequest) -> Result<Vec<BatchStream>>;
}

/// The store as SQL sees it.
pub trait EventStore: Send + Sync + std::fmt::Debug {
    /// Starts an append.
    fn begin(&self, options: AppendOptions) -> Result<Box<dyn Append>>;

    /// Pins everything committed so far.
    fn snapshot(&self) -> Arc<dyn Snapshot>;

    /// Ends the time in which events of a chronicle can come, as far as its clock allows: returns
    /// the last tick of which none can come any more, S (F24). Snapshots that are pinned from now
    /// on have all events up to there, and tell it. Where late events are refused instead, the last tick
    /// of which none can come; snapshots do not tell that one. `None` where events of any time can come.
    ///
    /// # Errors
    /// `UndefinedTable` after [`Self::forget`].
    fn seal(&self, chronicle: &ChronicleDefinition) -> Result<Option<Tick>> {
        let _ = chronicle;
        Ok(None)
    }

    /// Deletes the events of `range` that are committed now. The range must cover a prefix
    /// or a suffix of the chronicle (F22); returns how many events that were.
    ///
    /// # Errors
    /// `FeatureNotSupported` when events lie on both sides of the range.
    fn delete<'a>(
        &'a self,
        chronicle: &'a Arc<ChronicleDefinition>,
        range: TickRange,
    ) -> BoxFuture<'a, Result<u64>>;

    /// Deletes the events of a chronicle with a gsn below `before` (F103): its beginning in the
    /// order of commits. Returns how many that were.
    ///
    /// # Errors
    /// `InvalidParameterValue` when the log does not reach as far.
    fn trim<'a>(
        &'a self,
        chronicle: &'a Arc<ChronicleDefinition>,
        before: Gsn,
    ) -> BoxFuture<'a, Result<u64>>;

    /// Returns when everything up to `gsn` is ordered, and visible to snapshots that are taken
    /// then (F56, F108).
    ///
    /// # Errors
    /// `Shutdown`.
    fn reached(&self, gsn: Gsn) -> BoxFuture<'static, Result<()>>;

    /// Reads a chronicle in the order of commits, from some place on and without an end (F104).
    ///
    /// # Errors
    /// `UndefinedTable` for a chronicle that was dropped.
    fn subscribe(&self, request: SubscribeRequest) -> Result<Subscription>;

    /// Moves everything that a chronicle has committed out of the journal (F29–F33). Returns
    /// when it has moved, durably. Nothing changes for readers but `_tier`.
    ///
    /// # Errors
    /// `DiskFull`, `Io`: what had moved before stays so. When the returned future is dropped
    /// midway, the move under way happens or does not, whole.
    fn flush(&self, chronicle: ChronicleId) -> BoxFuture<'_, Result<Moved>>;

    /// As [`Self::flush`], and then brings all pieces of the chronicle into as few, large and
    /// disjoint ones of the lowest tier as there can be, without deleted and replaced events.
    ///
    /// # Errors
    /// As [`Self::flush`].
    fn compact(&self, chronicle: ChronicleId) -> BoxFuture<'_, Result<Moved>>;

    /// Who owns the events that are visible now, by chronicle, tier and ticks.
    fn pieces(&self) -> Vec<PieceStatus>;

    /// The moves of this process that are under way, and the last that ended; by number.
    fn moves(&self) -> Vec<MoveStatus>;

    /// How far each chronicle's events have come down, by chronicle.
    fn watermarks(&self) -> Vec<Watermarks>;

    /// Forgets a dropped chronicle; frees its memory once no snapshot needs it.
    fn forget(&self, chronicle: ChronicleId);

    /// Producers that are remembered, and the last number committed of each (F68).
    fn producers(&self) -> Vec<(ProducerId, u64)>;

    /// Numbers for operators.
    fn status(&self) -> StoreStatus;
}

/// Tells how many have acquired a chronicle, so that storage can keep those of many higher (F13).
pub trait Acquirers: Send + Sync + fmt::Debug {
    /// How many there are now.
    fn acquirers(&self, chronicle: ChronicleId) -> u32;
}

/// What moves did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Events in the new pieces.
    pub rows: u64,
    /// Pieces made.
    pub pieces_added: u64,
    /// Pieces that are of no use any more.
    pub pieces_removed: u64,
}

impl Moved {
    /// What both did.
    #[must_use]
    pub fn and(self, other: Moved) -> Moved {
        Moved {
            rows: self.rows + other.rows,
            pieces_added: self.pieces_added + other.pieces_added,
            pieces_removed: self.pieces_removed + other.pieces_removed,
        }
    }
}

/// An owner of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceStatus {
    /// Whose events.
    pub chronicle: ChronicleId,
    /// Where they are.
    pub tier: TierName,
    /// Number of the tablet or story; `None` for the journal.
    pub number: Option<u64>,
    /// The file; `None` for the journal, whose segments hold events of many chronicles.
    pub file: Option<String>,
    /// Hull of their ticks.
    pub ticks: TickRange,
    /// Events, with those that were deleted or replaced and still lie there.
    pub rows: u64,
    /// Bytes in the file; for the journal, in memory.
    pub bytes: u64,
    /// Bytes in memory, where events may be read without the file.
    pub memory_bytes: u64,
    /// Lowest and highest gsn.
    pub gsns: (Gsn, Gsn),
    /// Shape of the events; `None` for the journal, where they may have several.
    pub schema_version: Option<SchemaVersion>,
}

/// What a move is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveKind {
    /// From the journal into tablets.
    Flush,
    /// Tablets into fewer, disjoint ones.
    Merge,
    /// Tablets into stories.
    Archive,
    /// Events that are older than they are kept.
    Retention,
    /// Stories anew, with the indexes that their chronicle has now.
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

/// A move that is under way or has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveStatus {
    /// Counts the moves of this process.
    pub number: u64,
    /// Whose events.
    pub chronicle: ChronicleId,
    /// What for.
    pub kind: MoveKind,
    /// Nanoseconds since 1970 of its begin.
    pub started_ns: i64,
    /// Nanoseconds since 1970 of its end; `None` while it is under way.
    pub ended_ns: Option<i64>,
    /// What it did, so far.
    pub moved: Moved,
    /// Why it failed; `None` for one that did not.
    pub error: Option<String>,
}

/// How far a chronicle's events have come down. None of it ever goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// Whose.
    pub chronicle: ChronicleId,
    /// Events committed up to this gsn are in pieces, durably and read back.
    pub through: Gsn,
    /// Highest tick that ever left the journal: T of the design.
    pub tablets: Option<Tick>,
    /// Highest tick in stories: P of the design.
    pub stories: Option<Tick>,
}

/// A store's numbers.
#[derive(Debug, Clone, Default)]
pub struct StoreStatus {
    /// Highest committed gsn.
    pub committed: Gsn,
    /// Bytes of events in memory.
    pub memory_bytes: u64,
    /// The budget for them.
    pub memory_bytes_max: u64,
    /// Bytes of decoded columns of stories that are kept in memory.
    pub story_cache_bytes: u64,
    /// Per chronicle: id, events visible now, bytes in memory, series.
    pub chronicles: Vec<ChronicleStatus>,
    /// The journal's numbers.
    pub log: crate::log::LogStatus,
}

/// A chronicle's numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChronicleStatus {
    /// Which.
    pub id: ChronicleId,
    /// Events visible now.
    pub rows: u64,
    /// Bytes in memory.
    pub bytes: u64,
    /// Distinct key values.
    pub series: u64,
}
