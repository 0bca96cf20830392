//! The traits between the storage tiers and the player, which reads events across all tiers.

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
    /// Blocks of tablets, on SSD.
    Tablet,
    /// Parquet files (stories).
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

    /// True if the tier stores its events in files that the manifest names (tablets or stories).
    pub fn has_pieces(self) -> bool {
        self != TierName::Journal
    }

    /// True if the files of the tier have cells: precomputed aggregates.
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

/// The order in which a scan returns events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ScanOrder {
    /// Any order, and any number of streams: the fastest choice.
    #[default]
    Any,
    /// One stream, by (tick, seq) (CL-4).
    Ascending,
    /// One stream, by (tick, seq) descending: newest first.
    Descending,
}

/// The values that a key column may have, as in the condition `column IN (values)`.
#[derive(Debug, Clone)]
pub struct KeyFilter {
    /// The key column, as a position in `ChronicleDefinition::columns`.
    pub column: usize,
    /// The values, in the column's Arrow type, without NULL.
    pub values: ArrayRef,
}

/// Counters for one scan in one tier, updated during the scan.
#[derive(Debug, Default)]
pub struct TierMetrics {
    /// Batches, blocks or row groups read.
    pub parts_read: AtomicU64,
    /// Batches, blocks or row groups skipped because of their ticks, keys or statistics.
    pub parts_pruned: AtomicU64,
    /// Cells whose stored aggregates were used instead of their events.
    pub cells: AtomicU64,
    /// Events read.
    pub rows: AtomicU64,
    /// Bytes read, in their stored (compressed) form.
    pub bytes: AtomicU64,
    /// Keys compared with the keys that the scan looks for: one for each series, or one for each
    /// row if the series of the rows are unknown.
    pub keys: AtomicU64,
}

impl TierMetrics {
    /// Counts one batch, block or row group as read, with its rows and bytes.
    pub fn read(&self, rows: u64, bytes: u64) {
        self.parts_read.fetch_add(1, Ordering::Relaxed);
        self.read_on(rows, bytes);
    }

    /// Counts more rows and bytes of a batch, block or row group that [`Self::read`] has counted
    /// already.
    pub fn read_on(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts cells whose stored aggregates were used.
    pub fn answered_by_cells(&self, cells: u64) {
        self.cells.fetch_add(cells, Ordering::Relaxed);
    }

    /// Counts keys compared with the keys that the scan looks for.
    pub fn compared(&self, keys: u64) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
    }

    /// Counts skipped batches, blocks or row groups.
    pub fn pruned(&self, parts: u64) {
        self.parts_pruned.fetch_add(parts, Ordering::Relaxed);
    }
}

/// Counters for one scan, by tier.
#[derive(Debug, Default)]
pub struct ScanMetrics {
    /// The counters of the journal.
    pub journal: TierMetrics,
    /// The counters of the tablets.
    pub tablet: TierMetrics,
    /// The counters of the stories.
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

/// The memory account of a statement that reads, for memory beyond its result batches.
pub trait ScanMemory: Send + Sync + fmt::Debug {
    /// Changes the reservation to `bytes`. Dropping the account releases the reservation.
    ///
    /// # Errors
    /// `OutOfMemory` if the budget of the statement is too small; the earlier reservation stays.
    fn resize(&self, bytes: usize) -> Result<()>;
}

/// A request to read events of one chronicle.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// The chronicle, with the columns that the reader expects. Events with an older schema version
    /// are converted to this version.
    pub chronicle: Arc<ChronicleDefinition>,
    /// Columns to return, as positions: first the user's columns; positions from `columns.len()` on
    /// are the system columns in the order of `SYSTEM_COLUMNS`.
    pub projection: Vec<usize>,
    /// Return only events with these ticks. The scan applies this condition exactly.
    pub ticks: TickRanges,
    /// Return only events with these gsn's. The scan applies this condition exactly.
    pub gsns: GsnRange,
    /// Return only events whose key columns have these values. The scan applies this condition
    /// exactly.
    pub keys: Vec<KeyFilter>,
    /// Predicates on columns outside of the key. The scan uses them only to skip blocks or row
    /// groups without matching values; the caller must filter the returned events.
    pub values: Vec<ValueFilter>,
    /// The order of the returned events.
    pub order: ScanOrder,
    /// If set, return only one event of each group, in any order, in one stream.
    pub newest_of: Option<NewestOf>,
    /// The scan may stop after about this number of rows; it returns at least this number if enough
    /// rows exist.
    pub limit: Option<usize>,
    /// Maximum rows of a batch.
    pub batch_rows_max: usize,
    /// Number of streams that the caller prefers under `ScanOrder::Any`; a hint.
    pub streams: usize,
    /// The counters that the scan updates.
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

/// Exact numbers about the events of a chronicle that a snapshot sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of events.
    pub rows: u64,
    /// The smallest range that contains the ticks of the events.
    pub ticks: TickRange,
    /// Approximate bytes in memory or on disk.
    pub bytes: u64,
}

impl Extent {
    /// No events.
    pub const EMPTY: Extent = Extent { rows: 0, ticks: TickRange::EMPTY, bytes: 0 };
}

/// Some events of one tier, within a range of ticks, that a scan reads as one unit.
pub trait Split: Send + Sync {
    /// A range that contains the ticks of all events that a read may return.
    fn ticks(&self) -> TickRange;
    /// An upper bound of the number of rows. The bound holds on average over the splits of a file:
    /// the sum over all splits of a request is at least the number of its rows.
    fn rows_max(&self) -> usize;
    /// Reads the events of the split. If the request has an order, the events come in (tick, seq)
    /// order or in the reverse order; otherwise in any order. The columns are the columns of
    /// [`ScanRequest::schema`]; if the request has an order, `_tick` and `_seq` (Int64 each)
    /// follow, because the merge of the splits needs them.
    fn read(self: Box<Self>) -> BatchStream;
    /// Returns the events that are better than the best events found so far in their groups. The
    /// batches have the columns of [`ScanRequest::schema`], `_tick` (Int64) and the number of the
    /// group (UInt32). A later batch may have a better event of the same group.
    fn newest(self: Box<Self>, best: &Arc<Best>) -> BatchStream;
    /// Returns partial aggregates of the split's events. The split must have been made for a scan
    /// request whose projection is [`AggregateRequest::projection`].
    fn aggregate(self: Box<Self>, request: &Arc<AggregateRequest>) -> BatchStream;
}

/// One level of storage. In each version of the database, exactly one tier owns each event (CL-2).
pub trait Tier: Send + Sync + fmt::Debug {
    /// The name of this tier.
    fn name(&self) -> TierName;
    /// Exact numbers about the events in `ranges` with a gsn up to `visible`; `None` if the tier
    /// would have to read events to find them.
    fn extent(
        &self,
        chronicle: &ChronicleDefinition,
        ranges: &TickRanges,
        visible: Gsn,
    ) -> Option<Extent>;
    /// The splits that may contain events of the request with a gsn up to `visible`.
    fn splits(&self, request: &Arc<ScanRequest>, visible: Gsn) -> Result<Vec<Box<dyn Split>>>;
}
