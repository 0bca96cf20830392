//! The contract between SQL and storage: append events, pin a snapshot, scan it.

use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::{
    BoxFuture, ChronicleDefinition, ChronicleId, Durability, Gsn, ProducerId, Result, TickRange,
    TickRanges,
    batch::EventBatch,
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
/// `commit`, or nothing does. Dropping it rolls it back.
pub trait Append: Send + Sync {
    /// Takes events of one chronicle, in arrival order. `rows` has the schema
    /// [`ChronicleDefinition::arrow_schema`]. Waits under back-pressure.
    ///
    /// # Errors
    /// `UniqueViolation`, `NotNullViolation`, `DatetimeOverflow`, `DatatypeMismatch`,
    /// `OutOfMemory` (budget), `DiskFull`, `Io` (poisoned). After an error the append can
    /// only be dropped.
    fn push<'a>(
        &'a mut self,
        chronicle: &'a Arc<ChronicleDefinition>,
        rows: RecordBatch,
        on_conflict: OnConflict,
    ) -> BoxFuture<'a, Result<Admitted>>;

    /// Makes everything durable, then visible, then returns. When the returned future is
    /// dropped midway the append may or may not be stored, but never in part.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<Appended>>;
}

/// All events that were committed at one instant; never changes (CL-5).
pub trait Snapshot: Send + Sync + std::fmt::Debug {
    /// Highest gsn inside: the head of the log.
    fn gsn(&self) -> Gsn;
    /// Exact facts about the events of a chronicle; `None` when telling would need
    /// reading them.
    fn extent(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> Option<Extent>;
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

    /// Forgets a dropped chronicle; frees its memory once no snapshot needs it.
    fn forget(&self, chronicle: ChronicleId);

    /// Producers that are remembered, and the last number committed of each (F68).
    fn producers(&self) -> Vec<(ProducerId, u64)>;

    /// Numbers for operators.
    fn status(&self) -> StoreStatus;
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
