//! Pieces: the files of events (tablets and stories), and their parts (blocks and row groups).

use std::{
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use ahash::RandomState;
use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Error, ErrorKind, Gsn, GsnRange, Result, Tick, TickRange,
    TierName, invariant, values::ValueSummary,
};
use stratalog_story::{BuiltStory, Stories, Story, StoryId, StoryName};
use stratalog_tablet::{BlockHead, BuiltTablet, Tablet, TabletId, Tablets};

use crate::{
    events::{
        block::Block,
        block_cache::BlockCache,
        numbered_rows::NumberedRows,
        part_events::{ColumnSelection, PartEvents},
        runs::SeriesKeys,
        shape::Shape,
        statistics,
    },
    sabotage,
    version::{
        fence::Fence,
        manifest::{PieceFile, PieceRecord},
    },
};

/// The storage of tablets and stories.
#[derive(Debug, Clone)]
pub struct Shelves {
    /// The tablets.
    pub tablets: Arc<Tablets>,
    /// The stories.
    pub stories: Arc<Stories>,
}

impl Shelves {
    /// Removes the file of a piece that the manifest no longer names. A story is only marked,
    /// because its store may be remote: the next move removes it.
    pub fn give_up(&self, chronicle: ChronicleId, record: &PieceRecord) {
        match record.story(chronicle) {
            Some(built) => self.stories.doom(built.name()),
            None => {
                if let Err(error) = self.tablets.remove(TabletId(record.id)) {
                    tracing::warn!(%error, "cannot remove an unused tablet; the next start removes the tablet");
                }
            }
        }
    }

    /// Removes files that the manifest never named, complete or not.
    pub fn abandon(&self, tier: TierName, chronicle: ChronicleId, numbers: BTreeSet<u64>) {
        debug_assert!(!numbers.is_empty(), "there is no file to give up");
        if tier == TierName::Story {
            for id in numbers.into_iter().map(StoryId) {
                self.stories.doom(StoryName { chronicle, id });
            }
            return;
        }
        let tablets = numbers.into_iter().map(TabletId).collect();
        if let Err(error) = self.tablets.remove_all(&tablets) {
            tracing::warn!(%error, "cannot remove unused tablets; the next start removes the tablets");
        }
    }
}

/// A piece, opened at the first read. Once the manifest no longer names the piece, the drop of the
/// last reference deletes the file.
#[derive(Debug)]
pub struct OpenPiece {
    record: PieceRecord,
    chronicle: ChronicleId,
    shape: Arc<Shape>,
    shelves: Shelves,
    tablet: OnceLock<Tablet>,
    parts: OnceLock<Vec<Part>>,
    cached: Mutex<Option<Arc<BlockCache>>>,
    doomed: AtomicBool,
    /// The highest `indexes_made` of the chronicle at which the story is known to have all
    /// secondary indexes.
    indexed: AtomicU32,
    /// Largest number of series found in a part so far.
    series: AtomicU64,
    /// Cached edges of tablet blocks.
    edges: Mutex<Edges>,
    /// Cached ticks and group numbers of the rows of tablet blocks, by block number.
    numbered: Mutex<HashMap<u32, Arc<NumberedRows>, RandomState>>,
}

/// Key: block number, and true for the oldest events. Value: the edge; `None` if an edge is not
/// worthwhile.
type Edges = HashMap<(u32, bool), Option<Arc<BlockEdge>>, RandomState>;

/// The edge of a tablet block: the newest (or the oldest) event of each series. The fields are
/// parallel.
#[derive(Debug)]
pub struct BlockEdge {
    /// Row of each event in the block, ascending.
    pub rows: Vec<u32>,
    /// Tick of each event.
    pub ticks: Vec<i64>,
    /// Series key of each event.
    pub series: SeriesKeys,
}

/// A part of a piece, the unit of reading: a block of a tablet, or a row group of a story.
#[derive(Debug, Clone)]
pub struct Part {
    /// Number of the part in the file.
    pub number: u32,
    /// Number of events.
    pub rows: u64,
    /// Smallest range that contains the ticks of the events.
    pub hull: TickRange,
    /// Smallest range that contains the gsn's of the events.
    pub gsns: GsnRange,
    /// Lowest and highest key, encoded.
    pub keys: (Bytes, Bytes),
    /// Size in the file, in bytes.
    pub bytes: u64,
    head: Option<Arc<BlockHead>>,
}

impl Part {
    /// The statistics of a column, given by its position in the shape. `None` if the part has none,
    /// or is a row group.
    pub fn values(&self, at: usize) -> Option<ValueSummary> {
        statistics::of_column(self.head.as_ref()?.summary.statistics.clone(), at, self.rows)
    }
}

impl OpenPiece {
    /// A piece for a record of the manifest; not opened yet.
    pub fn new(
        record: PieceRecord,
        chronicle: ChronicleId,
        shape: Arc<Shape>,
        shelves: Shelves,
    ) -> Self {
        debug_assert_eq!(record.schema_version, shape.version, "the shape of another version");
        let (tablet, parts, cached) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        let (doomed, indexed) = (AtomicBool::new(false), AtomicU32::new(0));
        let (series, edges, numbered) = (AtomicU64::new(0), Mutex::default(), Mutex::default());
        Self {
            record,
            chronicle,
            shape,
            shelves,
            tablet,
            parts,
            cached,
            doomed,
            indexed,
            series,
            edges,
            numbered,
        }
    }

    /// Records that a part has `series` series.
    pub fn saw_series(&self, series: usize) {
        self.series.fetch_max(series as u64, Ordering::Relaxed);
    }

    /// Largest number of series found in a part so far; 0 before the first read.
    pub fn series_seen(&self) -> u64 {
        self.series.load(Ordering::Relaxed)
    }

    /// The piece's record in the manifest.
    pub fn record(&self) -> &PieceRecord {
        &self.record
    }

    /// The chronicle of the events.
    pub fn chronicle(&self) -> ChronicleId {
        self.chronicle
    }

    /// Returns the edge of a block. If the edge is not cached, calls `find` and caches the result.
    /// `of` is the block number, and true for the oldest events.
    ///
    /// # Errors
    /// The errors of `find`.
    pub fn edge(
        &self,
        of: (u32, bool),
        find: impl FnOnce() -> Result<Option<BlockEdge>>,
    ) -> Result<Option<Arc<BlockEdge>>> {
        if let Some(known) = self.edges.lock().get(&of) {
            return Ok(known.clone());
        }
        let found = find()?.map(Arc::new);
        debug_assert!(
            found.as_ref().is_none_or(|edge| {
                edge.rows.len() == edge.ticks.len() && edge.rows.len() == edge.series.len()
            }),
            "an event of an edge lacks its tick or key"
        );
        self.edges.lock().insert(of, found.clone());
        Ok(found)
    }

    /// The cached rows of a block, if their group numbers belong to the numbering with the id `of`.
    pub fn numbered(&self, block: u32, of: u64) -> Option<Arc<NumberedRows>> {
        self.numbered.lock().get(&block).filter(|rows| rows.of == of).cloned()
    }

    /// Caches the rows of a block, and replaces rows of another numbering.
    pub fn keep_numbered(&self, block: u32, rows: &Arc<NumberedRows>) {
        self.numbered.lock().insert(block, Arc::clone(rows));
    }

    /// True if the piece is a story that lacks a secondary index of the chronicle.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn lacks_index(&self, definition: &ChronicleDefinition) -> Result<bool> {
        let known = self.indexed.load(Ordering::Relaxed) >= definition.indexes_made;
        if known || definition.indexes.is_empty() {
            return Ok(false);
        }
        let Some(story) = self.story().await? else { return Ok(false) };
        let mut indexes = definition.indexes.iter();
        let has_all = indexes
            .all(|index| index.columns.iter().all(|column| story.has_index(*column, index.kind)));
        if has_all {
            self.indexed.store(definition.indexes_made, Ordering::Relaxed);
        }
        Ok(!has_all)
    }

    /// Sets the decoded blocks to keep in memory; `None` drops them.
    pub fn keep(&self, cached: Option<Arc<BlockCache>>) {
        debug_assert!(
            cached.is_none() || self.tier() == TierName::Tablet,
            "a story has no blocks to keep"
        );
        *self.cached.lock() = cached;
    }

    /// Bytes of the decoded blocks in memory.
    pub fn cached_bytes(&self) -> u64 {
        self.cached.lock().as_ref().map_or(0, |cached| cached.bytes())
    }

    /// Columns and types of the events.
    pub fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// The tier: tablet or story.
    pub fn tier(&self) -> TierName {
        self.record.tier()
    }

    /// The place of the file, for messages.
    pub fn place(&self) -> String {
        match self.record.story(self.chronicle) {
            Some(built) => self.shelves.stories.place(built.name()),
            None => self.shelves.tablets.file_name(TabletId(self.record.id)),
        }
    }

    /// Marks the file for deletion, because the manifest no longer names the piece.
    pub fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
        if sabotage::active("pin-ignored") && self.tier() == TierName::Tablet {
            self.shelves.tablets.remove(TabletId(self.record.id)).ok();
        }
    }

    /// The parts of the piece: ascending by (key, tick) for a tablet, ascending by time for a
    /// story.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn parts(&self) -> Result<&[Part]> {
        if let Some(known) = self.parts_at_hand()? {
            return Ok(known);
        }
        let Some(story) = self.story().await? else { return Ok(&[]) };
        debug_assert_eq!(story.groups().len() as u64, u64::from(self.record.parts));
        let parts = story.groups().iter().map(|group| Part {
            number: group.number,
            rows: group.summary.rows,
            hull: group.summary.hull(),
            gsns: gsns_of(group.summary.gsns),
            keys: group.summary.keys.clone(),
            bytes: group.bytes,
            head: None,
        });
        Ok(self.parts.get_or_init(|| parts.collect()))
    }

    /// Like [`Self::parts`], but never waits: `None` for a story that is not open yet.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`.
    pub fn parts_at_hand(&self) -> Result<Option<&[Part]>> {
        if let Some(known) = self.parts.get() {
            return Ok(Some(known));
        }
        if self.tier() == TierName::Story {
            return Ok(None);
        }
        let heads = self.shelves.tablets.blocks(self.tablet()?)?;
        debug_assert_eq!(heads.len() as u64, u64::from(self.record.parts));
        let parts = heads.into_iter().map(|head| Part {
            number: head.number,
            rows: u64::from(head.summary.rows),
            hull: head.summary.hull(),
            gsns: gsns_of(head.summary.gsns),
            keys: head.summary.keys.clone(),
            bytes: head.bytes(),
            head: Some(Arc::new(head)),
        });
        let parts: Vec<Part> = parts.collect();
        Ok(Some(self.parts.get_or_init(|| parts)))
    }

    /// Reads the events of a part.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn read(&self, part: &Part, wanted: &ColumnSelection) -> Result<PartEvents> {
        if part.head.is_some() {
            return self.read_at_hand(part, wanted).map(|(events, _)| events);
        }
        let story = self.story().await?.ok_or_else(|| Error::internal("a part has no file"))?;
        let batch = story.read(part.number, &wanted.sources(&self.shape)?, None).await?;
        invariant!(
            NoWrongRow,
            batch.num_rows() as u64 == part.rows,
            "row group {} of story {} has {} of {} rows",
            part.number,
            self.record.id,
            batch.num_rows(),
            part.rows
        );
        PartEvents::of_batch(&batch, wanted, &self.shape)
    }

    /// Reads the events of a tablet block. Also returns the number of bytes read from the file; 0
    /// if the block is in memory.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`; `Internal` for a story.
    pub fn read_at_hand(&self, part: &Part, wanted: &ColumnSelection) -> Result<(PartEvents, u64)> {
        let head = part.head.as_ref().ok_or_else(|| Error::internal("a story is not at hand"))?;
        let cached = self.cached.lock().clone();
        if let Some(block) = cached.as_ref().and_then(|cached| cached.block(head.number)) {
            return Ok((PartEvents::of_block(block.clone()), 0));
        }
        let wanted_sections = Block::sections(wanted, &self.shape);
        let sections = self.tablet()?.read(head, &wanted_sections)?;
        let rows = head.summary.rows as usize;
        let events = Block::decode(&sections, wanted, &self.shape, rows).map_err(|error| {
            let place = format!("block {} of tablet {}", head.number, self.record.id);
            match error.kind() {
                ErrorKind::DataCorrupted => error.with_context(place),
                _ => Error::new(ErrorKind::DataCorrupted, "a block cannot be read")
                    .with_context(place)
                    .with_source(error),
            }
        })?;
        invariant!(
            NoWrongRow,
            events.rows == rows,
            "block {} of tablet {} has {} of {rows} rows",
            head.number,
            self.record.id,
            events.rows
        );
        Ok((events, head.stored_bytes(&wanted_sections)))
    }

    /// Opens the story; `None` for a tablet.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn story(&self) -> Result<Option<Arc<Story>>> {
        match self.record.story(self.chronicle) {
            Some(built) => self.shelves.stories.open_story(&built).await.map(Some),
            None => Ok(None),
        }
    }

    fn tablet(&self) -> Result<&Tablet> {
        if let Some(open) = self.tablet.get() {
            return Ok(open);
        }
        let record = &self.record;
        let tablet = self.shelves.tablets.tablet(&record.tablet(self.chronicle))?;
        Ok(self.tablet.get_or_init(|| tablet))
    }

    /// Smallest range that contains the gsn's of the events.
    pub fn gsns(&self) -> GsnRange {
        GsnRange::between(self.record.gsns.0, self.record.gsns.1)
    }

    /// The fences among `fences` that hide rows of the piece.
    pub fn fences_among<'a>(&self, fences: &'a [Fence]) -> impl Iterator<Item = &'a Fence> {
        let record = self.record;
        fences.iter().filter(move |fence| {
            fence.raised() >= record.fenced_through
                && fence.gsn >= record.gsns.0
                && fence.ticks.overlaps(&record.ticks)
        })
    }
}

impl Drop for OpenPiece {
    fn drop(&mut self) {
        if !self.doomed.load(Ordering::Acquire) {
            return;
        }
        self.shelves.give_up(self.chronicle, &self.record);
    }
}

impl PieceRecord {
    /// The tier: tablet or story.
    pub fn tier(&self) -> TierName {
        match self.file {
            PieceFile::Tablet => TierName::Tablet,
            PieceFile::Story { .. } => TierName::Story,
        }
    }

    /// The expected description of the tablet, compared with the file at the first read.
    pub fn tablet(&self, chronicle: ChronicleId) -> BuiltTablet {
        debug_assert!(self.tier() == TierName::Tablet, "a story is read as a tablet");
        BuiltTablet {
            id: TabletId(self.id),
            chronicle,
            schema_version: self.schema_version,
            bytes: self.bytes,
            blocks: self.parts,
            rows: self.rows,
            checksum: self.checksum,
        }
    }

    /// The expected description of the story, compared with the file at the first read; `None` for
    /// a tablet.
    pub fn story(&self, chronicle: ChronicleId) -> Option<BuiltStory> {
        let PieceFile::Story { tail_at } = self.file else { return None };
        Some(BuiltStory {
            id: StoryId(self.id),
            chronicle,
            schema_version: self.schema_version,
            bytes: self.bytes,
            tail_at,
            rows: self.rows,
            groups: self.parts,
            ticks: (self.ticks.start.0, self.ticks.end.0 - 1),
            gsns: (self.gsns.0.0, self.gsns.1.0),
            checksum: self.checksum,
        })
    }
}

fn gsns_of((lowest, highest): (u64, u64)) -> GsnRange {
    GsnRange::between(Gsn(lowest), Gsn(highest))
}

/// True if one of the fences hides the event.
pub fn is_behind(fences: &[&Fence], tick: Tick, gsn: i64) -> bool {
    fences.iter().any(|fence| fence.gsn.0 >= gsn.cast_unsigned() && fence.ticks.contains(tick))
}
