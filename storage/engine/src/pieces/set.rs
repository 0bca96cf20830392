//! The pieces of one version of a chronicle.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use stratalog_model::{
    ChronicleId, Error, ErrorKind, Gsn, Result, Tick, TickRange, TickRanges, tier::Extent,
};
use stratalog_tablet::{BlockHead, Built, Tablet, TabletId, Tablets};

use super::block::Block;
use crate::{manifest::PieceRecord, memtable::shape::Shape, sabotage, version::Fence};

/// A file of events, open when somebody reads it. Its file goes with the last one who
/// holds it, once the manifest names it no more.
#[derive(Debug)]
pub struct OpenPiece {
    record: PieceRecord,
    chronicle: ChronicleId,
    shape: Arc<Shape>,
    tablets: Arc<Tablets>,
    tablet: OnceLock<Tablet>,
    doomed: AtomicBool,
}

impl OpenPiece {
    /// The piece of a record.
    pub fn new(
        record: PieceRecord,
        chronicle: ChronicleId,
        shape: Arc<Shape>,
        tablets: Arc<Tablets>,
    ) -> Self {
        let (tablet, doomed) = (OnceLock::new(), AtomicBool::new(false));
        Self { record, chronicle, shape, tablets, tablet, doomed }
    }

    /// What the manifest says of it.
    pub fn record(&self) -> &PieceRecord {
        &self.record
    }

    /// Shape of its events.
    pub fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// The name of its file, below the data directory.
    pub fn file(&self) -> String {
        self.tablets.file_name(TabletId(self.record.id))
    }

    /// The manifest names it no more.
    pub fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
        if sabotage::active("pin-ignored") {
            self.tablets.remove(TabletId(self.record.id)).ok();
        }
    }

    /// What its blocks hold.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`.
    pub fn blocks(&self) -> Result<&[BlockHead]> {
        self.tablets.blocks(self.tablet()?)
    }

    /// The events of a block.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`.
    pub fn read(&self, head: &BlockHead) -> Result<Block> {
        let payload = self.tablet()?.read(head)?;
        Block::decode(&payload, &self.shape, head.summary.rows as usize).map_err(|error| {
            let place = format!("block {} of tablet {}", head.number, self.record.id);
            match error.kind() {
                ErrorKind::DataCorrupted => error.with_context(place),
                _ => Error::new(ErrorKind::DataCorrupted, "a block cannot be read")
                    .with_context(place)
                    .with_source(error),
            }
        })
    }

    fn tablet(&self) -> Result<&Tablet> {
        if let Some(open) = self.tablet.get() {
            return Ok(open);
        }
        let record = &self.record;
        let tablet = self.tablets.tablet(&Built {
            id: TabletId(record.id),
            chronicle: self.chronicle,
            schema_version: record.schema_version,
            bytes: record.bytes,
            blocks: record.blocks,
            rows: record.rows,
            checksum: record.checksum,
        })?;
        Ok(self.tablet.get_or_init(|| tablet))
    }

    /// The deletes that hide rows of it.
    pub fn fences_among<'a>(&self, fences: &'a [Fence]) -> impl Iterator<Item = &'a Fence> {
        let record = self.record;
        fences.iter().filter(move |fence| {
            fence.gsn >= record.fenced_through
                && fence.gsn >= record.gsns.0
                && fence.ticks.overlaps(&record.ticks)
        })
    }
}

impl Drop for OpenPiece {
    fn drop(&mut self) {
        if self.doomed.load(Ordering::Acquire)
            && let Err(error) = self.tablets.remove(TabletId(self.record.id))
        {
            tracing::warn!(%error, "a tablet that is of no use is left for the next start");
        }
    }
}

/// The pieces of a version, and which of their events were replaced since.
#[derive(Debug, Clone, Default)]
pub struct PieceSet {
    /// Events up to this gsn are in the pieces.
    pub through: Gsn,
    pieces: BTreeMap<u64, Arc<OpenPiece>>,
    /// Events of the pieces that later ones replaced, and the gsn's of those.
    replaced: Arc<BTreeMap<u64, u64>>,
}

impl PieceSet {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The pieces, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<OpenPiece>> {
        self.pieces.values()
    }

    /// The set with more pieces and some less, which hold all events up to `through`.
    #[must_use]
    pub fn with(&self, added: Vec<Arc<OpenPiece>>, removed: &[u64], through: Gsn) -> Self {
        let mut next = self.clone();
        next.through = through;
        next.pieces.retain(|id, _| !removed.contains(id));
        next.pieces.extend(added.into_iter().map(|piece| (piece.record.id, piece)));
        next
    }

    /// The set in which the event of an arrival number is replaced by that of `gsn`.
    #[must_use]
    pub fn with_replaced(&self, replaced: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut next = self.clone();
        let marks = Arc::make_mut(&mut next.replaced);
        for (seq, gsn) in replaced {
            marks.entry(seq).or_insert(gsn);
        }
        next
    }

    /// The set that knows nothing of some replaced events: no piece holds them.
    #[must_use]
    pub fn without_replaced(&self, dropped: &[u64]) -> Self {
        let mut next = self.clone();
        if !dropped.is_empty() {
            let marks = Arc::make_mut(&mut next.replaced);
            for seq in dropped {
                marks.remove(seq);
            }
        }
        next
    }

    /// Whether an event is hidden from a snapshot, because another took its place.
    pub fn is_replaced(&self, seq: i64, visible: Gsn) -> bool {
        !self.replaced.is_empty()
            && self.replaced.get(&seq.cast_unsigned()).is_some_and(|gsn| *gsn <= visible.0)
    }

    /// The events that others up to `through` replaced, by arrival number, with their gsn's.
    pub fn replaced_through(&self, through: Gsn) -> Vec<(u64, u64)> {
        let marks = self.replaced.iter().map(|(seq, gsn)| (*seq, *gsn));
        marks.filter(|(_, gsn)| *gsn <= through.0).collect()
    }

    /// Whether any event is replaced.
    pub fn has_replaced(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// Exact facts about the events with ticks in `ranges`; `None` when telling would need
    /// reading them.
    pub fn extent(&self, ranges: &TickRanges, fences: &[Fence]) -> Option<Extent> {
        let mut extent = Extent::EMPTY;
        for piece in self.iter().filter(|piece| ranges.overlaps(&piece.record.ticks)) {
            if self.has_replaced() || piece.fences_among(fences).next().is_some() {
                return None;
            }
            let record = &piece.record;
            if ranges.covers(&record.ticks) {
                extent.rows += record.rows;
                extent.bytes += record.bytes;
                extent.ticks = extent.ticks.hull(&record.ticks);
                continue;
            }
            for head in piece.blocks().ok()? {
                let hull = head.summary.hull();
                if ranges.covers(&hull) {
                    extent.rows += u64::from(head.summary.rows);
                    extent.bytes += head.bytes();
                    extent.ticks = extent.ticks.hull(&hull);
                } else if ranges.overlaps(&hull) {
                    return None;
                }
            }
        }
        Some(extent)
    }

    /// As [`Self::extent`], reading what must be read.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`.
    pub fn count(&self, ranges: &TickRanges, fences: &[Fence], visible: Gsn) -> Result<Extent> {
        if let Some(extent) = self.extent(ranges, fences) {
            return Ok(extent);
        }
        let mut extent = Extent::EMPTY;
        for piece in self.iter().filter(|piece| ranges.overlaps(&piece.record.ticks)) {
            let behind: Vec<&Fence> = piece.fences_among(fences).collect();
            for head in piece.blocks()?.iter().filter(|head| ranges.overlaps(&head.summary.hull()))
            {
                let hull = head.summary.hull();
                let whole = ranges.covers(&hull)
                    && !self.has_replaced()
                    && !behind.iter().any(|fence| fence.ticks.overlaps(&hull));
                let (rows, ticks) = match whole {
                    true => (u64::from(head.summary.rows), hull),
                    false => self.count_block(&piece.read(head)?, ranges, &behind, visible),
                };
                extent.rows += rows;
                extent.ticks = extent.ticks.hull(&ticks);
                extent.bytes += head.bytes() * rows / u64::from(head.summary.rows.max(1));
            }
        }
        Ok(extent)
    }

    fn count_block(
        &self,
        block: &Block,
        ranges: &TickRanges,
        fences: &[&Fence],
        visible: Gsn,
    ) -> (u64, TickRange) {
        let (mut rows, mut hull) = (0, TickRange::EMPTY);
        let events = block.ticks.iter().zip(block.seqs.iter()).zip(block.gsns.iter());
        for ((tick, seq), gsn) in events {
            let tick = Tick(*tick);
            let seen = ranges.contains(tick)
                && !is_behind(fences, tick, *gsn)
                && !self.is_replaced(*seq, visible);
            if seen {
                rows += 1;
                hull = hull.hull(&TickRange::at(tick));
            }
        }
        (rows, hull)
    }
}

/// Whether one of the fences hides an event.
pub fn is_behind(fences: &[&Fence], tick: Tick, gsn: i64) -> bool {
    fences.iter().any(|fence| fence.gsn.0 >= gsn.cast_unsigned() && fence.ticks.contains(tick))
}
