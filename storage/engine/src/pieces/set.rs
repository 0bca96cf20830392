//! The pieces of one version of a chronicle.

use std::{collections::BTreeMap, sync::Arc};

use stratalog_model::{Gsn, Tick, TickRanges, TierName, tier::Extent};

use super::{marks::Marks, piece::OpenPiece};
use crate::version::Fence;

/// The pieces of a version, and which of their events were replaced since.
#[derive(Debug, Clone, Default)]
pub struct PieceSet {
    /// Events up to this gsn are in the pieces.
    pub through: Gsn,
    /// No event in a piece has, or ever had, this tick or a later one.
    sealed: Option<Tick>,
    pieces: BTreeMap<u64, Arc<OpenPiece>>,
    /// Events of the pieces that later ones replaced, and the gsn's of those.
    replaced: Marks,
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
        let ends = added.iter().map(|piece| piece.record().ticks.end);
        next.sealed = next.sealed.max(ends.max());
        next.pieces.retain(|id, _| !removed.contains(id));
        next.pieces.extend(added.into_iter().map(|piece| (piece.record().id, piece)));
        next
    }

    /// The set that knows of pieces that are gone: `sealed` was behind the last of them.
    #[must_use]
    pub fn with_sealed(mut self, sealed: Option<Tick>) -> Self {
        self.sealed = self.sealed.max(sealed);
        self
    }

    /// No event in a piece has, or ever had, this tick or a later one: events before it are
    /// late.
    pub fn sealed(&self) -> i64 {
        self.sealed.map_or(i64::MIN, |tick| tick.0)
    }

    /// The set in which the event of an arrival number is replaced by that of `gsn`.
    #[must_use]
    pub fn with_replaced(&self, replaced: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut next = self.clone();
        next.replaced.extend(replaced);
        next
    }

    /// The set that knows nothing of some replaced events: no piece holds them.
    #[must_use]
    pub fn without_replaced(&self, dropped: &[u64]) -> Self {
        let mut next = self.clone();
        next.replaced.remove(dropped);
        next
    }

    /// Whether an event is hidden from a snapshot, because another took its place.
    pub fn is_replaced(&self, seq: i64, visible: Gsn) -> bool {
        !self.replaced.is_empty()
            && self.replaced.get(seq.cast_unsigned()).is_some_and(|gsn| gsn <= visible)
    }

    /// The events that others up to `through` replaced, by arrival number, with their gsn's.
    pub fn replaced_through(&self, through: Gsn) -> Vec<(u64, u64)> {
        self.replaced.iter().filter(|(_, gsn)| *gsn <= through.0).collect()
    }

    /// Whether any event is replaced.
    pub fn has_replaced(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// Exact facts about the events of a tier with ticks in `ranges`; `None` when telling
    /// would need reading them.
    pub fn extent(&self, tier: TierName, ranges: &TickRanges, fences: &[Fence]) -> Option<Extent> {
        let mut extent = Extent::EMPTY;
        for piece in self.iter().filter(|piece| piece.tier() == tier) {
            let record = piece.record();
            if !ranges.overlaps(&record.ticks) {
                continue;
            }
            if self.has_replaced() || piece.fences_among(fences).next().is_some() {
                return None;
            }
            if ranges.covers(&record.ticks) {
                extent.rows += record.rows;
                extent.bytes += record.bytes;
                extent.ticks = extent.ticks.hull(&record.ticks);
                continue;
            }
            for part in piece.parts_at_hand().ok()?? {
                if ranges.covers(&part.hull) {
                    extent.rows += part.rows;
                    extent.bytes += part.bytes;
                    extent.ticks = extent.ticks.hull(&part.hull);
                } else if ranges.overlaps(&part.hull) {
                    return None;
                }
            }
        }
        Some(extent)
    }
}
