//! A pinned snapshot (CL-5).

use std::sync::Arc;

use arrow::array::RecordBatch;
use stratalog_model::{
    ChronicleDefinition, Gsn, Result, TickRange, TickRanges, Tier, TierName,
    store::Snapshot,
    tier::{BatchStream, Extent, Piece, ScanOrder, ScanRequest},
};

use super::{merge::Merge, stream, stream::Chained, tier::JournalTier};
use crate::{pieces::read::FiledTier, version::published::Published};

/// Everything that was committed at one instant.
#[derive(Debug)]
pub struct PinnedSnapshot {
    published: Arc<Published>,
}

impl PinnedSnapshot {
    /// Pins what is published.
    pub fn new(published: Arc<Published>) -> Self {
        Self { published }
    }

    /// The tiers that hold events of a chronicle; each event is in exactly one (CL-2).
    fn tiers(&self, chronicle: &ChronicleDefinition) -> Vec<Box<dyn Tier>> {
        match self.published.versions.get(&chronicle.id) {
            Some(pinned) => vec![
                Box::new(FiledTier::new(Arc::clone(&pinned.version), TierName::Story)),
                Box::new(FiledTier::new(Arc::clone(&pinned.version), TierName::Tablet)),
                Box::new(JournalTier::new(pinned.clone())),
            ],
            None => Vec::new(),
        }
    }
}

impl Snapshot for PinnedSnapshot {
    fn gsn(&self) -> Gsn {
        self.published.gsn
    }

    fn extent(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> Option<Extent> {
        let mut sum = Extent::EMPTY;
        for tier in self.tiers(chronicle) {
            let extent = tier.extent(chronicle, ranges, self.published.gsn)?;
            sum.rows += extent.rows;
            sum.bytes += extent.bytes;
            sum.ticks = sum.ticks.hull(&extent.ticks);
        }
        Some(sum)
    }

    fn hull(&self, chronicle: &ChronicleDefinition) -> TickRange {
        let Some(pinned) = self.published.versions.get(&chronicle.id) else {
            return TickRange::EMPTY;
        };
        let batches = pinned.version.batches().map(|batch| batch.hull());
        let pieces = pinned.version.pieces().iter().map(|piece| piece.record().ticks);
        batches.chain(pieces).fold(TickRange::EMPTY, |hull, ticks| hull.hull(&ticks))
    }

    fn scan(&self, request: ScanRequest) -> Result<Vec<BatchStream>> {
        let request = Arc::new(request);
        let mut pieces: Vec<Box<dyn Piece>> = Vec::new();
        if !request.ticks.is_empty() && request.limit != Some(0) {
            for tier in self.tiers(&request.chronicle) {
                pieces.extend(tier.pieces(&request, self.published.gsn)?);
            }
        }
        if request.order != ScanOrder::Any {
            return Ok(vec![Box::pin(Merge::new(pieces, &request))]);
        }
        let streams = deal(pieces, request.streams.max(1));
        if streams.is_empty() {
            return Ok(vec![stream::of_iterator(std::iter::empty::<Result<RecordBatch>>())]);
        }
        let chained = |pieces| -> BatchStream { Box::pin(Chained::new(pieces, request.limit)) };
        Ok(streams.into_iter().map(chained).collect())
    }
}

/// Deals pieces to at most `streams` streams of about equally many rows, neighbours
/// together.
fn deal(pieces: Vec<Box<dyn Piece>>, streams: usize) -> Vec<Vec<Box<dyn Piece>>> {
    let rows: usize = pieces.iter().map(|piece| piece.rows_max()).sum();
    let share = rows.div_ceil(streams).max(1);
    let mut dealt: Vec<Vec<Box<dyn Piece>>> = Vec::with_capacity(streams);
    let mut filled = share;
    for piece in pieces {
        if filled >= share && dealt.len() < streams {
            dealt.push(Vec::new());
            filled = 0;
        }
        filled += piece.rows_max();
        if let Some(last) = dealt.last_mut() {
            last.push(piece);
        }
    }
    dealt
}
