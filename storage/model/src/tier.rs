//! The contract between a tier and the player.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::SchemaRef,
};

use crate::{
    ChronicleDefinition, Gsn, GsnRange, Result, TickRange, TickRanges, ValueFilter,
    aggregate::AggregateRequest,
    chronicle::SYSTEM_COLUMNS,
    newest::{Best, NewestOf},
};

/// The tier that owns an event; the value of `_tier`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TierName {
    /// The keeper's journal, read from memory.
    Journal,
    /// Blocks on SSD.
    Tablet,
    /// Parquet.
    Story,
}

impl TierName {
    /// Every tier, from the newest events to the oldest.
    pub const ALL: [TierName; 3] = [TierName::Journal, TierName::Tablet, TierName::Story];

    /// The value of `_tier`.
    pub fn name(self) -> &'static str {
        debug_assert!(Self::ALL.contains(&self), "the list of all tiers lacks a tier");
        match self {
            TierName::Journal => "journal",
            TierName::Tablet => "tablet",
            TierName::Story => "story",
        }
    }

    /// True if the tier keeps its events in pieces: files that a manifest names.
    pub fn has_pieces(self) -> bool {
        self != TierName::Journal
    }

    /// True if the pieces have cells: precomputed aggregates.
    pub fn has_cells(self) -> bool {
        let has_cells = self == TierName::Story;
        debug_assert!(!has_cells || self.has_pieces(), "cells without pieces");
        has_cells
    }
}

impl fmt::Display for TierName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A stream of batches of one schema.
pub type BatchStream = Pin<Box<dyn futures_core::Stream<Item = Result<RecordBatch>> + Send>>;

/// The order of the events of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ScanOrder {
    /// Any order, any number of streams: the fastest.
    #[default]
    Any,
    /// One stream, by (tick, seq) (CL-4).
    Ascending,
    /// One stream, by (tick, seq) descending: newest first.
    Descending,
}

/// Values that a key column may have: a conjunct `column IN (values)`.
#[derive(Debug, Clone)]
pub struct KeyFilter {
    /// Position in `ChronicleDefinition::columns` of a key column.
    pub column: usize,
    /// The values, in the column's Arrow type, without NULL.
    pub values: ArrayRef,
}

/// Counters of a scan in one tier, updated during the scan.
#[derive(Debug, Default)]
pub struct TierMetrics {
    /// Batches, blocks or row groups read.
    pub parts_read: AtomicU64,
    /// Batches, blocks or row groups skipped because of their ticks, keys or statistics.
    pub parts_pruned: AtomicU64,
    /// Cells that supplied stored aggregates of their events.
    pub cells: AtomicU64,
    /// Events read.
    pub rows: AtomicU64,
    /// Bytes read, in stored form.
    pub bytes: AtomicU64,
    /// Keys compared with the wanted keys: keys of series, or of rows with unknown series.
    pub keys: AtomicU64,
}

impl TierMetrics {
    /// Counts a part read.
    pub fn read(&self, rows: u64, bytes: u64) {
        self.parts_read.fetch_add(1, Ordering::Relaxed);
        self.read_on(rows, bytes);
    }

    /// Counts more rows and bytes of a part already counted.
    pub fn read_on(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts cells that supplied aggregates.
    pub fn answered_by_cells(&self, cells: u64) {
        self.cells.fetch_add(cells, Ordering::Relaxed);
    }

    /// Counts keys compared with the wanted keys.
    pub fn compared(&self, keys: u64) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
    }

    /// Counts skipped parts.
    pub fn pruned(&self, parts: u64) {
        self.parts_pruned.fetch_add(parts, Ordering::Relaxed);
    }
}

/// Counters of a scan, by tier.
#[derive(Debug, Default)]
pub struct ScanMetrics {
    /// In the journal.
    pub journal: TierMetrics,
    /// In tablets.
    pub tablet: TierMetrics,
    /// In stories.
    pub story: TierMetrics,
}

impl ScanMetrics {
    /// The counters of a tier.
    pub fn of(&self, tier: TierName) -> &TierMetrics {
        match tier {
            TierName::Journal => &self.journal,
            TierName::Tablet => &self.tablet,
            TierName::Story => &self.story,
        }
    }
}

/// Memory of the reading statement, beyond its batches.
pub trait ScanMemory: Send + Sync + fmt::Debug {
    /// Changes the reservation to `bytes`, held until drop.
    ///
    /// # Errors
    /// `OutOfMemory` if the budget of the statement is too small; the earlier reservation stays.
    fn resize(&self, bytes: usize) -> Result<()>;
}

/// A read of one chronicle.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// The chronicle, with the columns that the reader expects. Events with an older schema version
    /// are converted to this version.
    pub chronicle: Arc<ChronicleDefinition>,
    /// Columns to return, by position: first the user's columns, then, from
    /// `columns.len()` on, the system columns in the order of `SYSTEM_COLUMNS`.
    pub projection: Vec<usize>,
    /// Only events with these ticks. Applied exactly.
    pub ticks: TickRanges,
    /// Only events with these gsn's. Applied exactly.
    pub gsns: GsnRange,
    /// Only events whose key columns have these values. Applied exactly.
    pub keys: Vec<KeyFilter>,
    /// Predicates on other columns. The scan may skip parts without matching values; the reader
    /// filters the events of the other parts.
    pub values: Vec<ValueFilter>,
    /// Order wanted.
    pub order: ScanOrder,
    /// Only one event of each group; any order, one stream.
    pub newest_of: Option<NewestOf>,
    /// Stop after about this number of rows (never fewer, if enough rows exist).
    pub limit: Option<usize>,
    /// Maximum rows of a batch.
    pub batch_rows_max: usize,
    /// Streams wanted under `ScanOrder::Any`; a hint.
    pub streams: usize,
    /// The counters of the scan.
    pub metrics: Arc<ScanMetrics>,
    /// The memory account of the scan, if any.
    pub memory: Option<Arc<dyn ScanMemory>>,
}

impl ScanRequest {
    /// The schema of the batches that the scan returns.
    pub fn schema(&self) -> SchemaRef {
        use arrow::datatypes::{DataType, Field, Schema};
        let user = self.chronicle.arrow_schema();
        let fields = self.projection.iter().map(|at| match user.fields().get(*at) {
            Some(field) => Arc::clone(field),
            None => {
                let name = SYSTEM_COLUMNS
                    .get(at.saturating_sub(user.fields().len()))
                    .copied()
                    .unwrap_or("_tick");
                let data_type = crate::batch::system_column_type(name).unwrap_or(DataType::Int64);
                Arc::new(Field::new(name, data_type, false))
            }
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// Exact facts about the events of a chronicle that a snapshot sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of events.
    pub rows: u64,
    /// Hull of the ticks.
    pub ticks: TickRange,
    /// Approximate bytes in memory or on disk.
    pub bytes: u64,
}

impl Extent {
    /// No events.
    pub const EMPTY: Extent = Extent { rows: 0, ticks: TickRange::EMPTY, bytes: 0 };
}

/// Events of one tier, with a range of ticks: the unit of reading.
pub trait Split: Send + Sync {
    /// Hull of the ticks that a read may return.
    fn ticks(&self) -> TickRange;
    /// Maximum number of rows, on average over the splits of a piece: the sum over all splits of a
    /// request is at least the number of its rows.
    fn rows_max(&self) -> usize;
    /// Reads the split: in (tick, seq) order, or in reverse order, if the request orders; otherwise
    /// in any order. The columns are the columns of [`ScanRequest::schema`]; if the request orders,
    /// `_tick` and `_seq` (Int64 each) follow for the merge.
    fn read(self: Box<Self>) -> BatchStream;
    /// The best events of groups that improve on the best events found so far: batches with the
    /// columns of [`ScanRequest::schema`], `_tick` (Int64) and the number of the group (UInt32). A
    /// later batch may hold a better event of the same group.
    fn newest(self: Box<Self>, best: &Arc<Best>) -> BatchStream;
    /// Partial aggregates of the split. The scan request of the split projects the columns of
    /// [`AggregateRequest::projection`].
    fn aggregate(self: Box<Self>, request: &Arc<AggregateRequest>) -> BatchStream;
}

/// One level of storage. Each event of a version is owned by exactly one tier (CL-2).
pub trait Tier: Send + Sync + fmt::Debug {
    /// The name of this tier.
    fn name(&self) -> TierName;
    /// Exact facts about the events of `ranges` committed at or before `visible`; `None` if the
    /// facts would need reading events.
    fn extent(
        &self,
        chronicle: &ChronicleDefinition,
        ranges: &TickRanges,
        visible: Gsn,
    ) -> Option<Extent>;
    /// The splits that may hold events of the request committed at or before `visible`.
    fn splits(&self, request: &Arc<ScanRequest>, visible: Gsn) -> Result<Vec<Box<dyn Split>>>;
}
