//! The pieces (tablets and stories) of one version of a chronicle.

use std::{collections::BTreeMap, sync::Arc};

use stratalog_model::{Gsn, Tick, TickRanges, TierName, invariant, tier::Extent};

use super::{marks::Marks, piece::OpenPiece};
use crate::version::fence::Fence;

/// The pieces of a version, and the marks of replaced events in them.
#[derive(Debug, Clone, Default)]
pub struct PieceSet {
    /// The pieces own the events with a gsn up to this gsn.
    pub through: Gsn,
    /// The tick after the last tick of all pieces, including pieces that no longer exist; `None`
    /// without a piece.
    ticks_end: Option<Tick>,
    pieces: BTreeMap<u64, Arc<OpenPiece>>,
    /// Marks of the events in the pieces that later events replaced.
    replaced: Marks,
}

impl PieceSet {
    /// True if the set has no pieces.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The pieces, ascending by number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<OpenPiece>> {
        self.pieces.values()
    }

    /// The piece with a number.
    pub fn get(&self, id: u64) -> Option<&Arc<OpenPiece>> {
        self.pieces.get(&id)
    }

    /// Returns a copy with the pieces `added`, and without the pieces `removed`. The copy owns all
    /// events up to `through`.
    #[must_use]
    pub fn with(&self, added: Vec<Arc<OpenPiece>>, removed: &[u64], through: Gsn) -> Self {
        invariant!(
            OneOwner,
            self.through <= through && added.iter().all(|piece| piece.record().gsns.1 <= through),
            "the border goes from gsn {} to {through}, and a new piece has later events",
            self.through
        );
        let mut next = self.clone();
        next.through = through;
        let ends = added.iter().map(|piece| piece.record().ticks.end);
        next.ticks_end = next.ticks_end.max(ends.max());
        next.pieces.retain(|id, _| !removed.contains(id));
        debug_assert!(added.iter().all(|piece| !next.pieces.contains_key(&piece.record().id)));
        let count = next.pieces.len() + added.len();
        next.pieces.extend(added.into_iter().map(|piece| (piece.record().id, piece)));
        debug_assert_eq!(next.pieces.len(), count, "two new pieces have one number");
        next
    }

    /// Raises the end of the ticks to `end`, which also covers pieces that no longer exist.
    #[must_use]
    pub fn with_ticks_end(mut self, end: Option<Tick>) -> Self {
        self.ticks_end = self.ticks_end.max(end);
        self
    }

    /// The tick after the last tick of all pieces, including pieces that no longer exist;
    /// `i64::MIN` if there never was a piece.
    pub fn ticks_end(&self) -> i64 {
        self.ticks_end.map_or(i64::MIN, |tick| tick.0)
    }

    /// Returns a copy with more marks: arrival number of the replaced event, and gsn of the
    /// replacement.
    #[must_use]
    pub fn with_replaced(&self, replaced: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut next = self.clone();
        next.replaced.extend(replaced);
        next
    }

    /// Returns a copy without the marks of the events `dropped`, which no piece contains any more.
    #[must_use]
    pub fn without_replaced(&self, dropped: &[u64]) -> Self {
        let mut next = self.clone();
        next.replaced.remove(dropped);
        next
    }

    /// True if an event with a gsn up to `visible` has replaced the event `seq`.
    pub fn is_replaced(&self, seq: i64, visible: Gsn) -> bool {
        !self.replaced.is_empty()
            && self.replaced.get(seq.cast_unsigned()).is_some_and(|gsn| gsn <= visible)
    }

    /// The marks with a gsn up to `through`: arrival number of the replaced event, and gsn of the
    /// replacement.
    pub fn replaced_through(&self, through: Gsn) -> Vec<(u64, u64)> {
        self.replaced.iter().filter(|(_, gsn)| *gsn <= through.0).collect()
    }

    /// True if there is a mark: some event in the pieces may be replaced.
    pub fn has_replaced(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// Exact totals for the events of one tier with ticks in `ranges`; `None` if the totals cannot
    /// be computed without reading events.
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
