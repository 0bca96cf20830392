//! The pieces of one version of a chronicle.

use std::{collections::BTreeMap, sync::Arc};

use stratalog_model::{Gsn, Tick, TickRanges, TierName, invariant, tier::Extent};

use super::{marks::Marks, piece::OpenPiece};
use crate::version::fence::Fence;

/// The pieces of a version, and the marks of replaced events.
#[derive(Debug, Clone, Default)]
pub struct PieceSet {
    /// The pieces contain the events up to this gsn.
    pub through: Gsn,
    /// The tick after the last tick of all present and past pieces.
    ticks_end: Option<Tick>,
    pieces: BTreeMap<u64, Arc<OpenPiece>>,
    /// Events of the pieces replaced by later events, with the gsns of the later events.
    replaced: Marks,
}

impl PieceSet {
    /// True if the set has no pieces.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The pieces, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<OpenPiece>> {
        self.pieces.values()
    }

    /// The piece with a number.
    pub fn get(&self, id: u64) -> Option<&Arc<OpenPiece>> {
        self.pieces.get(&id)
    }

    /// A copy with `added` pieces and without `removed` pieces. The copy contains all events up to
    /// `through`.
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

    /// Raises the end of the ticks; `end` includes the pieces that no longer exist.
    #[must_use]
    pub fn with_ticks_end(mut self, end: Option<Tick>) -> Self {
        self.ticks_end = self.ticks_end.max(end);
        self
    }

    /// The tick after the last tick of all present and past pieces; `i64::MIN` without a piece.
    pub fn ticks_end(&self) -> i64 {
        self.ticks_end.map_or(i64::MIN, |tick| tick.0)
    }

    /// A copy with additional marks: arrival number of the replaced event, and gsn of the replacing
    /// event.
    #[must_use]
    pub fn with_replaced(&self, replaced: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut next = self.clone();
        next.replaced.extend(replaced);
        next
    }

    /// A copy without the marks of `dropped`, because no piece contains these events.
    #[must_use]
    pub fn without_replaced(&self, dropped: &[u64]) -> Self {
        let mut next = self.clone();
        next.replaced.remove(dropped);
        next
    }

    /// True if another event replaced the event at or before `visible`.
    pub fn is_replaced(&self, seq: i64, visible: Gsn) -> bool {
        !self.replaced.is_empty()
            && self.replaced.get(seq.cast_unsigned()).is_some_and(|gsn| gsn <= visible)
    }

    /// The marks up to `through`: arrival number and gsn of the replacing event.
    pub fn replaced_through(&self, through: Gsn) -> Vec<(u64, u64)> {
        self.replaced.iter().filter(|(_, gsn)| *gsn <= through.0).collect()
    }

    /// True if the pieces have a replaced event.
    pub fn has_replaced(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// Exact totals for the events of a tier with ticks in `ranges`; `None` if the answer would
    /// need reads of events.
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
