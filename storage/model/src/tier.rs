//! What a tier offers to the player.

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
    newest::{Best, NewestOf},
};

/// Where an event is read from; the value of `_tier`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TierName {
    /// The keeper's journal, read from memory.
    Journal,
    /// Blocks on SSD.
    Tablet,
    /// Parquet.
    Story,
}

impl fmt::Display for TierName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TierName::Journal => "journal",
            TierName::Tablet => "tablet",
            TierName::Story => "story",
        })
    }
}

/// A stream of batches of one schema.
pub type BatchStream = Pin<Box<dyn futures_core::Stream<Item = Result<RecordBatch>> + Send>>;

/// In what order a scan returns events.
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

/// What a scan did in one tier. Counted as it goes on.
#[derive(Debug, Default)]
pub struct TierMetrics {
    /// Batches, blocks or row groups that were read.
    pub parts_read: AtomicU64,
    /// Those that were passed over, by what is known of them: ticks, keys, statistics.
    pub parts_pruned: AtomicU64,
    /// Cells that told what their events add up to.
    pub cells: AtomicU64,
    /// Events that were looked at.
    pub rows: AtomicU64,
    /// Bytes that were read, as they lie there.
    pub bytes: AtomicU64,
    /// Keys that were compared with the wanted ones: of series, or of rows whose series are not known.
    pub keys: AtomicU64,
}

impl TierMetrics {
    /// Counts a part that was read.
    pub fn read(&self, rows: u64, bytes: u64) {
        self.parts_read.fetch_add(1, Ordering::Relaxed);
        self.read_on(rows, bytes);
    }

    /// Counts more of a part that was counted.
    pub fn read_on(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts cells that told what their events add up to.
    pub fn told(&self, cells: u64) {
        self.cells.fetch_add(cells, Ordering::Relaxed);
    }

    /// Counts keys that were compared with the wanted ones.
    pub fn compared(&self, keys: u64) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
    }

    /// Counts parts that were passed over.
    pub fn pruned(&self, parts: u64) {
        self.parts_pruned.fetch_add(parts, Ordering::Relaxed);
    }
}

/// What a scan did, by tier.
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
    /// Those of a tier.
    pub fn of(&self, tier: TierName) -> &TierMetrics {
        match tier {
            TierName::Journal => &self.journal,
            TierName::Tablet => &self.tablet,
            TierName::Story => &self.story,
        }
    }
}

/// Memory of the statement that reads, beyond what it is given batch by batch.
pub trait ScanMemory: Send + Sync + fmt::Debug {
    /// From now on so many bytes are taken, until this is dropped.
    ///
    /// # Errors
    /// `OutOfMemory` when the statement may not have as many; what it had, it keeps.
    fn resize(&self, bytes: usize) -> Result<()>;
}

/// A read of one chronicle.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// The chronicle, with the columns that the reader expects. Events written with an
    /// older schema version are brought to this one.
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
    /// What is asked of other columns. Parts without such values may be passed over; what is
    /// read of the others is for the reader to look at.
    pub values: Vec<ValueFilter>,
    /// Order wanted.
    pub order: ScanOrder,
    /// Only one event of each group. In any order, in one stream.
    pub newest_of: Option<NewestOf>,
    /// Stop after about so many rows (never fewer, when there are as many).
    pub limit: Option<usize>,
    /// Rows of a batch, at most.
    pub batch_rows_max: usize,
    /// Streams wanted under `ScanOrder::Any`; a hint.
    pub streams: usize,
    /// Where the scan counts what it does.
    pub metrics: Arc<ScanMetrics>,
    /// Where it asks for memory, if it has to.
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
                let name = crate::chronicle::SYSTEM_COLUMNS
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
    /// Hull of their ticks.
    pub ticks: TickRange,
    /// Bytes in memory or on disk, about.
    pub bytes: u64,
}

impl Extent {
    /// No events.
    pub const EMPTY: Extent = Extent { rows: 0, ticks: TickRange::EMPTY, bytes: 0 };
}

/// A run of events within one tier that can be read by itself.
pub trait Piece: Send + Sync {
    /// Hull of the ticks that reading may return.
    fn ticks(&self) -> TickRange;
    /// Rows that reading returns at most.
    fn rows_max(&self) -> usize;
    /// Reads the piece: in (tick, seq) order, or its reverse, when the request orders;
    /// in any order otherwise. Columns as in [`ScanRequest::schema`], followed by `_tick`
    /// and `_seq` (Int64 each) when the request orders, for merging.
    fn read(self: Box<Self>) -> BatchStream;
    /// The best events of groups, of those that are better than what was found before: batches
    /// of the columns of [`ScanRequest::schema`], `_tick` (Int64) and the number of the group
    /// (UInt32). A later batch may have a better one of the same group.
    fn newest(self: Box<Self>, best: &Arc<Best>) -> BatchStream;
    /// Partial aggregates of the piece. What the piece was asked for projects the columns of
    /// [`AggregateRequest::projection`].
    fn aggregate(self: Box<Self>, request: &Arc<AggregateRequest>) -> BatchStream;
}

/// One level of storage. Each event of a version is owned by exactly one tier (CL-2).
pub trait Tier: Send + Sync + fmt::Debug {
    /// Which tier this is.
    fn name(&self) -> TierName;
    /// Exact facts about the events of `ranges` committed at or before `visible`; `None`
    /// when telling would need reading them.
    fn extent(
        &self,
        chronicle: &ChronicleDefinition,
        ranges: &TickRanges,
        visible: Gsn,
    ) -> Option<Extent>;
    /// The pieces that may hold events of the request committed at or before `visible`.
    fn pieces(&self, request: &Arc<ScanRequest>, visible: Gsn) -> Result<Vec<Box<dyn Piece>>>;
}
