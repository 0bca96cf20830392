//! A version is an immutable view of one chronicle: the batches in memory and the pieces (files)
//! that contain its events. Each commit, each merge of batches, and each delete creates a new
//! version.
//!
//! ```text
//!   sealed: [batch][batch][batch] …       large, no longer merged, shared by all later versions
//!   tail:   [batch][b][b][b]              the latest commits; the list is copied by each commit
//!   fences: (ticks < 500, gsn ≤ 90)       deletes: reads hide the events that a fence covers
//!   lost:   gsn 1 to 70                   gsn's of deleted events, kept after the fence is gone
//!   pieces: [tablet][story] …             files with the events that left the journal
//!
//!   one publisher at a time ─► new version of each chronicle ─► PublishedVersions {gsn, versions}
//!                                                                  ▲ a snapshot clones the Arc
//! ```

use std::sync::Arc;

use stratalog_model::{Gsn, GsnRange, Tick, TickRange, TickRanges, invariant, tier::Extent};

use self::{fence::Fence, lost_positions::LostPositions};
use crate::{events::batch::MemoryBatch, sabotage, version::piece_set::PieceSet};

pub mod compact;
pub mod fence;
pub mod lost_positions;
pub mod manifest;
pub mod marks;
pub mod piece;
pub mod piece_set;
pub mod published_versions;
pub mod publisher;
pub mod status;
pub mod survey;
pub mod tidy;
pub mod untidy;

/// Maximum number of batches of the tail. If the tail is longer, its leading large batches are
/// sealed; if the first batch is small, the older half of the tail is sealed.
const TAIL_BATCHES_MAX: usize = 128;

/// An immutable view of one chronicle at one instant: the batches in memory, in commit order, and
/// the pieces (files), which together contain all its events.
#[derive(Debug, Clone, Default)]
pub struct Version {
    sealed: Arc<Vec<Arc<MemoryBatch>>>,
    tail: Vec<Arc<MemoryBatch>>,
    fences: Arc<Vec<Fence>>,
    pieces: Arc<PieceSet>,
    lost: Arc<LostPositions>,
    epoch: u64,
    /// The first tick at which events can still arrive, as of the last seal; `None` before the
    /// first seal.
    open_from: Option<Tick>,
}

impl Version {
    /// All batches, ascending by gsn.
    pub fn batches(&self) -> impl DoubleEndedIterator<Item = &Arc<MemoryBatch>> {
        self.sealed.iter().chain(&self.tail)
    }

    /// The fences: deletes that still hide rows of a batch or a piece.
    pub fn fences(&self) -> &[Fence] {
        &self.fences
    }

    /// The pieces: tablets and stories with the events that the journal no longer owns.
    pub fn pieces(&self) -> &Arc<PieceSet> {
        &self.pieces
    }

    /// The gsn's of deleted events.
    pub fn lost(&self) -> &LostPositions {
        &self.lost
    }

    /// A counter of deletes and moves. The tick index of the chronicle is valid only for versions
    /// of the current epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The batch that contains the event with this gsn.
    pub fn batch_of(&self, gsn: u64) -> Option<&Arc<MemoryBatch>> {
        let list = match self.tail.first() {
            Some(first) if first.first_gsn() <= gsn => &self.tail,
            _ => self.sealed.as_ref(),
        };
        let at = list.partition_point(|batch| batch.first_gsn() <= gsn).checked_sub(1)?;
        list.get(at).filter(|batch| gsn <= batch.last_gsn())
    }

    /// Returns a version with one more batch, whose commit is later than all batches.
    #[must_use]
    pub fn with_batch(&self, batch: Arc<MemoryBatch>, rows_sealed: usize) -> Self {
        let mut next = self.clone();
        next.push(batch, rows_sealed);
        next
    }

    /// Adds a batch, whose commit is later than all batches. Only for a version without readers.
    pub fn push(&mut self, batch: Arc<MemoryBatch>, rows_sealed: usize) {
        let last = self.batches().next_back().map_or(0, |last| last.last_gsn());
        invariant!(
            OrderedScans,
            last < batch.first_gsn(),
            "a batch from gsn {} on follows gsn {last}",
            batch.first_gsn()
        );
        self.tail.push(batch);
        if self.tail.len() > TAIL_BATCHES_MAX {
            let large = self.tail.iter().take_while(|batch| batch.weight() >= rows_sealed).count();
            let seal = if large == 0 { TAIL_BATCHES_MAX / 2 } else { large };
            let sealed = self.tail.drain(..seal);
            let mut all = Vec::with_capacity(self.sealed.len() + seal);
            all.extend(self.sealed.iter().cloned());
            all.extend(sealed);
            self.sealed = Arc::new(all);
        }
        self.assert_consistent();
    }

    fn assert_consistent(&self) {
        debug_assert!(self.tail.len() <= TAIL_BATCHES_MAX, "the tail has too many batches");
        debug_assert!(
            self.sealed.last().is_none_or(|sealed| {
                self.tail.first().is_none_or(|open| sealed.last_gsn() < open.first_gsn())
            }),
            "a sealed batch follows an open batch"
        );
    }

    /// The sealed batches, ascending by gsn. Compaction touches a sealed batch only if most of its
    /// rows were replaced; the small copies are then merged.
    pub fn sealed(&self) -> &[Arc<MemoryBatch>] {
        &self.sealed
    }

    /// The batches after the sealed batches, which compaction may merge.
    pub fn tail(&self) -> &[Arc<MemoryBatch>] {
        &self.tail
    }

    /// Returns a version in which one batch (or no batch) replaces the batches `old`. Returns
    /// `None` unless all of `old` are present and adjacent.
    pub fn with_merged(
        &self,
        old: &[Arc<MemoryBatch>],
        merged: Option<Arc<MemoryBatch>>,
    ) -> Option<Self> {
        let first = old.first()?;
        debug_assert!(
            merged.as_ref().is_none_or(|merged| {
                merged.rows() <= old.iter().map(|batch| batch.rows()).sum::<usize>()
            }),
            "a merged batch has more rows than its parts"
        );
        debug_assert!(
            merged.as_ref().zip(old.last()).is_none_or(|(merged, last)| {
                first.first_gsn() <= merged.first_gsn() && merged.last_gsn() <= last.last_gsn()
            }),
            "a merged batch has gsn's outside of its parts"
        );
        let find = |list: &[Arc<MemoryBatch>]| {
            let start = list.iter().position(|batch| Arc::ptr_eq(batch, first))?;
            let there = list.get(start..start + old.len())?;
            there.iter().zip(old).all(|(a, b)| Arc::ptr_eq(a, b)).then_some(start)
        };
        let mut next = self.clone();
        if let Some(start) = find(&self.tail) {
            next.tail.splice(start..start + old.len(), merged);
        } else {
            let start = find(&self.sealed)?;
            let mut sealed = self.sealed.as_ref().clone();
            sealed.splice(start..start + old.len(), merged);
            next.sealed = Arc::new(sealed);
        }
        next.assert_consistent();
        Some(next)
    }

    /// Returns a version with one more delete: `fence` covers the deleted events, and `deleted` has
    /// their gsn's. Batches that the fence covers fully are dropped; in all other batches, the
    /// fence hides the deleted rows. Batches up to the gsn `leaving` are moving into pieces that do
    /// not know the fence: these batches stay, and the fence stays, too, to hide rows of the
    /// pieces.
    #[must_use]
    pub fn with_fence(&self, fence: Fence, deleted: GsnRange, leaving: u64) -> Self {
        debug_assert!(self.epoch < u64::MAX, "a private version changes");
        let kept = |batch: &&Arc<MemoryBatch>| {
            batch.first_gsn() <= leaving
                || !(fence.ticks.covers(&batch.hull()) && batch.last_gsn() <= fence.gsn.0)
        };
        let mut next = Self {
            sealed: Arc::new(self.sealed.iter().filter(kept).cloned().collect()),
            tail: self.tail.iter().filter(kept).cloned().collect(),
            fences: Arc::new(
                self.fences
                    .iter()
                    .copied()
                    // Drops known fences that the new fence fully covers.
                    .filter(|known| !(fence.ticks.covers(&known.ticks) && known.gsn <= fence.gsn))
                    .chain([fence])
                    .collect(),
            ),
            pieces: Arc::clone(&self.pieces),
            lost: Arc::new(self.lost.with(deleted)),
            epoch: self.epoch + 1,
            open_from: self.open_from,
        };
        next.drop_idle_fences();
        next.assert_consistent();
        next
    }

    /// Returns a version without idle fences, which cover no row of a batch or a piece any more.
    #[must_use]
    pub fn without_idle_fences(&self) -> Self {
        let mut next = self.clone();
        next.drop_idle_fences();
        next
    }

    /// Returns the version after a move: pieces own the events up to the gsn `pieces.through`, and
    /// batches with these events are dropped.
    #[must_use]
    pub fn with_moved(&self, pieces: PieceSet) -> Self {
        let through = pieces.through.0;
        debug_assert!(self.epoch < u64::MAX, "a private version changes");
        debug_assert!(self.pieces.through <= pieces.through, "the border goes back");
        let kept = |batch: &&Arc<MemoryBatch>| batch.last_gsn() > through;
        let mut next = Self {
            sealed: Arc::new(self.sealed.iter().filter(kept).cloned().collect()),
            tail: self.tail.iter().filter(kept).cloned().collect(),
            fences: Arc::clone(&self.fences),
            pieces: Arc::new(pieces),
            lost: Arc::clone(&self.lost),
            epoch: self.epoch + 1,
            open_from: self.open_from,
        };
        invariant!(
            OneOwner,
            next.batches().next().is_none_or(|batch| batch.first_gsn() > through)
                || sabotage::active("border-off"),
            "the journal and the pieces own events before gsn {through}"
        );
        next.assert_consistent();
        next.drop_idle_fences();
        next
    }

    /// Returns a version with other pieces that contain the same events.
    #[must_use]
    pub fn with_pieces(&self, pieces: PieceSet) -> Self {
        debug_assert!(self.pieces.through <= pieces.through, "the border goes back");
        Self { pieces: Arc::new(pieces), ..self.clone() }
    }

    /// The first tick at which events can still arrive, as of the last seal (CL-5); `None` before
    /// the first seal. Only a delete can change events before this tick.
    pub fn open_from(&self) -> Option<Tick> {
        self.open_from
    }

    /// Returns a version with a new first open tick, see [`Self::open_from`].
    #[must_use]
    pub fn with_open_from(&self, open_from: Tick) -> Self {
        Self { open_from: Some(open_from), ..self.clone() }
    }

    /// Returns a version with these fences, and these gsn's of deleted events.
    #[must_use]
    pub fn with_fences(&self, fences: Vec<Fence>, lost: LostPositions) -> Self {
        Self { fences: Arc::new(fences), lost: Arc::new(lost), ..self.clone() }
    }

    /// Returns a version with the given batches, pieces and fences that is private to one
    /// transaction. The tick index is not valid for a private version.
    #[must_use]
    pub fn private(
        &self,
        batches: Vec<Arc<MemoryBatch>>,
        pieces: PieceSet,
        fences: Vec<Fence>,
    ) -> Self {
        Self {
            sealed: Arc::new(batches),
            tail: Vec::new(),
            fences: Arc::new(fences),
            pieces: Arc::new(pieces),
            lost: Arc::clone(&self.lost),
            epoch: u64::MAX,
            open_from: self.open_from,
        }
    }

    fn drop_idle_fences(&mut self) {
        let fences: Vec<Fence> = self
            .fences
            .iter()
            .filter(|fence| {
                let mut pieces = self.pieces.iter();
                pieces.any(|piece| piece.fences_among(&[**fence]).next().is_some())
                    || self.batches().any(|batch| {
                        batch.hull().overlaps(&fence.ticks) && rows_behind(batch, fence) > 0
                    })
            })
            .copied()
            .collect();
        if fences.len() != self.fences.len() {
            self.fences = Arc::new(fences);
        }
    }

    /// Exact totals for the events in batches with ticks in `ranges` and a gsn up to `visible`.
    pub fn extent(&self, ranges: &TickRanges, visible: Gsn) -> Extent {
        let mut extent = Extent::EMPTY;
        for batch in self.batches() {
            if batch.first_gsn() > visible.0 || !ranges.overlaps(&batch.hull()) {
                continue;
            }
            let fenced = self.fences.iter().any(|fence| {
                fence.ticks.overlaps(&batch.hull()) && batch.first_gsn() <= fence.gsn.0
            });
            let (rows, ticks) =
                if !fenced && ranges.covers(&batch.hull()) && batch.last_gsn() <= visible.0 {
                    (batch.rows() - batch.superseded_through(visible.0), batch.hull())
                } else {
                    count_rows(batch, ranges, &self.fences, visible)
                };
            debug_assert!(rows <= batch.rows(), "more rows are visible than the batch has");
            if rows > 0 {
                extent.rows += rows as u64;
                extent.ticks = extent.ticks.hull(&ticks);
            }
            // The part of the batch's bytes that corresponds to the visible rows.
            let all = batch.rows().max(1) as u128;
            let share = u128::from(batch.bytes()) * rows as u128 / all;
            extent.bytes += u64::try_from(share).unwrap_or(u64::MAX);
        }
        extent
    }
}

fn rows_behind(batch: &MemoryBatch, fence: &Fence) -> usize {
    let before = batch.rows_through(fence.gsn.0);
    batch.ticks().iter().take(before).filter(|tick| fence.ticks.contains(Tick(**tick))).count()
}

/// Counts the visible rows one by one, for batches that a range or a fence covers only partly.
fn count_rows(
    batch: &MemoryBatch,
    ranges: &TickRanges,
    fences: &[Fence],
    visible: Gsn,
) -> (usize, TickRange) {
    let seen = batch.rows_through(visible.0);
    let fences: Vec<(usize, TickRange)> = fences
        .iter()
        .filter(|fence| fence.ticks.overlaps(&batch.hull()))
        .map(|fence| (batch.rows_through(fence.gsn.0), fence.ticks))
        .collect();
    let counts = |row: usize, tick: Tick| {
        row < seen
            && ranges.contains(tick)
            && !fences.iter().any(|(before, ticks)| row < *before && ticks.contains(tick))
    };
    let ticks = batch.ticks().get(..seen).unwrap_or(&[]);
    let mut rows = 0;
    let mut hull = TickRange::EMPTY;
    if fences.is_empty() {
        for range in ranges.as_slice().iter().filter(|range| range.overlaps(&batch.hull())) {
            let (count, within) = count_ticks(ticks, batch.ordered(), range);
            rows += count;
            hull = hull.hull(&within);
        }
    } else {
        for (row, tick) in ticks.iter().enumerate() {
            if counts(row, Tick(*tick)) {
                rows += 1;
                hull = hull.hull(&TickRange::at(Tick(*tick)));
            }
        }
    }
    let replaced = batch
        .superseded()
        .iter()
        .filter(|mark| mark.gsn <= visible.0)
        .filter(|mark| {
            let row = mark.row as usize;
            batch.ticks().get(row).is_some_and(|tick| counts(row, Tick(*tick)))
        })
        .count();
    debug_assert!(replaced <= rows, "more rows are replaced than visible");
    debug_assert!(rows <= seen, "a row counts twice");
    (rows - replaced, hull)
}

/// Counts the ticks in `range`; returns the number, and the smallest range that contains them.
fn count_ticks(ticks: &[i64], sorted: bool, range: &TickRange) -> (usize, TickRange) {
    let (start, end) = (range.start.0, range.end.0);
    if sorted {
        let from = ticks.partition_point(|tick| *tick < start);
        let to = ticks.partition_point(|tick| *tick < end);
        debug_assert!(from <= to, "the range is reversed");
        let within = ticks.get(from..to).unwrap_or(&[]);
        return match (within.first(), within.last()) {
            (Some(first), Some(last)) => {
                (within.len(), TickRange::new(Tick(*first), Tick(*last).next()))
            }
            _ => (0, TickRange::EMPTY),
        };
    }
    let (mut count, mut low, mut high) = (0, i64::MAX, i64::MIN);
    for tick in ticks {
        // Branch-free: the compiler can vectorize the loop.
        let inside = start <= *tick && *tick < end;
        count += usize::from(inside);
        low = low.min(if inside { *tick } else { i64::MAX });
        high = high.max(if inside { *tick } else { i64::MIN });
    }
    let hull =
        if count == 0 { TickRange::EMPTY } else { TickRange::new(Tick(low), Tick(high).next()) };
    debug_assert!(range.covers(&hull), "a tick outside of the range counts");
    (count, hull)
}

#[cfg(test)]
mod tests;
