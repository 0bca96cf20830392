//! Versions: the batches with the events of a chronicle. A version is immutable; a commit, a merge
//! of batches and a delete each make a new version.
//!
//! ```text
//!   sealed: [batch][batch][batch] …       large, shared by all later versions
//!   tail:   [batch][b][b][b]              the latest commits; copied by each commit
//!   fences: (ticks < 500, gsn ≤ 90)       deleted: reads hide the events behind a fence
//!   lost:   gsn 1 to 70                   positions of deleted events, kept without a fence
//!   pieces: [tablet][tablet] …            events no longer owned by the journal
//!
//!   one publisher at a time ─► new version of each chronicle ─► PublishedVersions {gsn, versions}
//!                                                                  ▲ snapshots clone the Arc
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

/// Maximum number of batches of the tail. Beyond this number, the leading large batches are sealed;
/// if the first batch is small, the older half of the tail is sealed.
const TAIL_BATCHES_MAX: usize = 128;

/// The batches of one chronicle, in commit order, at one instant.
#[derive(Debug, Clone, Default)]
pub struct Version {
    sealed: Arc<Vec<Arc<MemoryBatch>>>,
    tail: Vec<Arc<MemoryBatch>>,
    fences: Arc<Vec<Fence>>,
    pieces: Arc<PieceSet>,
    lost: Arc<LostPositions>,
    epoch: u64,
    /// The first tick still open for events, at the last seal; `None` before a seal.
    open_from: Option<Tick>,
}

impl Version {
    /// All batches, by ascending gsn.
    pub fn batches(&self) -> impl DoubleEndedIterator<Item = &Arc<MemoryBatch>> {
        self.sealed.iter().chain(&self.tail)
    }

    /// Deletes still hiding rows of a batch or a piece.
    pub fn fences(&self) -> &[Fence] {
        &self.fences
    }

    /// The pieces: files with the events no longer owned by the journal.
    pub fn pieces(&self) -> &Arc<PieceSet> {
        &self.pieces
    }

    /// Positions in the log of deleted events.
    pub fn lost(&self) -> &LostPositions {
        &self.lost
    }

    /// Counts deletes and moves: the tick index serves only versions of the current epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The batch with the event of a gsn.
    pub fn batch_of(&self, gsn: u64) -> Option<&Arc<MemoryBatch>> {
        let list = match self.tail.first() {
            Some(first) if first.first_gsn() <= gsn => &self.tail,
            _ => self.sealed.as_ref(),
        };
        let at = list.partition_point(|batch| batch.first_gsn() <= gsn).checked_sub(1)?;
        list.get(at).filter(|batch| gsn <= batch.last_gsn())
    }

    /// The version with one more batch, committed after all batches of this version.
    #[must_use]
    pub fn with_batch(&self, batch: Arc<MemoryBatch>, rows_sealed: usize) -> Self {
        let mut next = self.clone();
        next.push(batch, rows_sealed);
        next
    }

    /// Adds a batch, committed after all batches of this version. Only for a version without
    /// readers.
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
        debug_assert!(self.tail.len() <= TAIL_BATCHES_MAX, "the tail is too long");
    }

    /// The sealed batches, by ascending gsn. Only worn sealed batches and their small copies are
    /// merged again.
    pub fn sealed(&self) -> &[Arc<MemoryBatch>] {
        &self.sealed
    }

    /// The batches still open to merges.
    pub fn tail(&self) -> &[Arc<MemoryBatch>] {
        &self.tail
    }

    /// The version with the neighbours `old` replaced by one batch (or by no batch); `None` unless
    /// all of `old` are present, next to each other.
    pub fn with_merged(
        &self,
        old: &[Arc<MemoryBatch>],
        merged: Option<Arc<MemoryBatch>>,
    ) -> Option<Self> {
        let first = old.first()?;
        debug_assert!(
            merged.as_ref().is_none_or(|merged| {
                first.first_gsn() <= merged.first_gsn()
                    && old.last().is_some_and(|last| merged.last_gsn() <= last.last_gsn())
            }),
            "the merged batch has other events"
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
        Some(next)
    }

    /// The version without the events deleted by `fence`; `deleted` are the positions of these
    /// events. A batch entirely behind the fence is dropped; the fence hides the deleted rows of
    /// all other batches. Batches up to the gsn `leaving` are moving into pieces written without
    /// knowledge of the fence: these batches stay, and the fence stays with them to hide the rows
    /// of the pieces.
    #[must_use]
    pub fn with_fence(&self, fence: Fence, deleted: GsnRange, leaving: u64) -> Self {
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
                    // The new fence hides all events hidden by the known fence.
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
        next
    }

    /// The version without idle fences: fences with no row of a batch or a piece behind them.
    #[must_use]
    pub fn without_idle_fences(&self) -> Self {
        let mut next = self.clone();
        next.drop_idle_fences();
        next
    }

    /// The version after a move: events up to the gsn `pieces.through` are in pieces, and no longer
    /// in batches.
    #[must_use]
    pub fn with_moved(&self, pieces: PieceSet) -> Self {
        let through = pieces.through.0;
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
        next.drop_idle_fences();
        next
    }

    /// The version with other pieces for the same events.
    #[must_use]
    pub fn with_pieces(&self, pieces: PieceSet) -> Self {
        debug_assert!(self.pieces.through <= pieces.through, "the border goes back");
        Self { pieces: Arc::new(pieces), ..self.clone() }
    }

    /// The first tick still open for events, at the last seal (CL-5). After the seal, only a delete
    /// changes events before this tick.
    pub fn open_from(&self) -> Option<Tick> {
        self.open_from
    }

    /// The version with a new first open tick.
    #[must_use]
    pub fn with_open_from(&self, open_from: Tick) -> Self {
        debug_assert!(self.open_from.is_none_or(|known| known <= open_from), "the seal goes back");
        Self { open_from: Some(open_from), ..self.clone() }
    }

    /// The version with the fences and with the positions of deleted events.
    #[must_use]
    pub fn with_fences(&self, fences: Vec<Fence>, lost: LostPositions) -> Self {
        Self { fences: Arc::new(fences), lost: Arc::new(lost), ..self.clone() }
    }

    /// The version with the given batches, pieces and fences, for one transaction alone. The tick
    /// index does not serve a private version.
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

    /// Exact facts about the events in batches with ticks in `ranges`, committed at or before
    /// `visible`.
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
            debug_assert!(rows <= batch.rows(), "more rows than the batch has");
            if rows > 0 {
                extent.rows += rows as u64;
                extent.ticks = extent.ticks.hull(&ticks);
            }
            // The visible rows' share of the batch's bytes.
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

/// Counts the visible rows row by row: for batches at the edge of a range or a fence.
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
    (rows - replaced, hull)
}

/// The number of `ticks` in `range`, and the hull of these ticks.
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
    debug_assert!(range.covers(&hull), "a tick outside of the range");
    (count, hull)
}

#[cfg(test)]
mod tests;
