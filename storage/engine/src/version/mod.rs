//! Versions: which batches hold the events of a chronicle. Immutable; a commit, a merge
//! of batches and a delete each make a new one.
//!
//! ```text
//!   sealed: [batch][batch][batch] …       large, shared by all later versions
//!   tail:   [batch][b][b][b]              what was committed last; copied by each commit
//!   fences: (ticks < 500, gsn ≤ 90)       deleted: no event behind one is read
//!   lost:   gsn 1 to 70                   where events were deleted, also once nothing is hidden
//!   pieces: [tablet][tablet] …            what the journal owns no more
//!
//!   one publisher at a time ─► new version of each chronicle ─► Published {gsn, versions}
//!                                                                  ▲ snapshots clone the Arc
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stratalog_model::{Gsn, GsnRange, Tick, TickRange, TickRanges, tier::Extent};

use self::lost::Lost;
use crate::{memtable::batch::MemoryBatch, pieces::set::PieceSet};

pub mod lost;
pub mod numberings;
pub mod published;
pub mod survey;

/// Tail batches after which the older half is sealed, whatever their size.
const TAIL_BATCHES_MAX: usize = 128;

/// Deleted events: those with a tick inside, committed at or before `gsn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// The ticks.
    pub ticks: TickRange,
    /// Highest gsn of the events that are deleted.
    pub gsn: Gsn,
    /// Highest gsn when the delete became durable, where that is another: of a TRIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised: Option<Gsn>,
}

impl Fence {
    /// Highest gsn when the delete became durable: pieces that were made of what was seen before
    /// that may hold events that it hides.
    pub fn raised(&self) -> Gsn {
        self.raised.unwrap_or(self.gsn)
    }
}

/// The batches of one chronicle, in commit order, at one instant.
#[derive(Debug, Clone, Default)]
pub struct Version {
    sealed: Arc<Vec<Arc<MemoryBatch>>>,
    tail: Vec<Arc<MemoryBatch>>,
    fences: Arc<Vec<Fence>>,
    pieces: Arc<PieceSet>,
    lost: Arc<Lost>,
    epoch: u64,
    /// The first tick at which events could still come, where that was asked for.
    open_from: Option<Tick>,
}

impl Version {
    /// All batches, by ascending gsn.
    pub fn batches(&self) -> impl DoubleEndedIterator<Item = &Arc<MemoryBatch>> {
        self.sealed.iter().chain(&self.tail)
    }

    /// Deletes that still hide rows of a batch.
    pub fn fences(&self) -> &[Fence] {
        &self.fences
    }

    /// What the journal owns no more.
    pub fn pieces(&self) -> &Arc<PieceSet> {
        &self.pieces
    }

    /// Positions in the log of which events were deleted.
    pub fn lost(&self) -> &Lost {
        &self.lost
    }

    /// Counts deletes and moves: the tick index serves versions of the current epoch only.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The batch that holds a gsn.
    pub fn batch_of(&self, gsn: u64) -> Option<&Arc<MemoryBatch>> {
        let list = match self.tail.first() {
            Some(first) if first.first_gsn() <= gsn => &self.tail,
            _ => self.sealed.as_ref(),
        };
        let at = list.partition_point(|batch| batch.first_gsn() <= gsn).checked_sub(1)?;
        list.get(at).filter(|batch| gsn <= batch.last_gsn())
    }

    /// The version with one more batch, committed after all others.
    #[must_use]
    pub fn with_batch(&self, batch: Arc<MemoryBatch>, rows_sealed: usize) -> Self {
        let mut next = self.clone();
        next.push(batch, rows_sealed);
        next
    }

    /// Adds a batch, committed after all others, to a version that nobody has seen.
    pub fn push(&mut self, batch: Arc<MemoryBatch>, rows_sealed: usize) {
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
    }

    /// The batches that are merged no more, by ascending gsn.
    pub fn sealed(&self) -> &[Arc<MemoryBatch>] {
        &self.sealed
    }

    /// The batches that may still be merged.
    pub fn tail(&self) -> &[Arc<MemoryBatch>] {
        &self.tail
    }

    /// The version in which the neighbours `old` are one batch (or none); `None` when they
    /// are not all there, next to each other.
    pub fn with_merged(
        &self,
        old: &[Arc<MemoryBatch>],
        merged: Option<Arc<MemoryBatch>>,
    ) -> Option<Self> {
        let first = old.first()?;
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

    /// The version without the events that `fence` deletes, whose positions are `gone`: batches
    /// wholly behind it are dropped, the rest is hidden by it. Batches up to the gsn `leaving` are on their way into
    /// pieces that know nothing of the fence: they stay, and with them the fence, which will hide
    /// the rows of the pieces.
    #[must_use]
    pub fn with_fence(&self, fence: Fence, gone: GsnRange, leaving: u64) -> Self {
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
                    // It hides all that those hid.
                    .filter(|known| !(fence.ticks.covers(&known.ticks) && known.gsn <= fence.gsn))
                    .chain([fence])
                    .collect(),
            ),
            pieces: Arc::clone(&self.pieces),
            lost: Arc::new(self.lost.with(gone)),
            epoch: self.epoch + 1,
            open_from: self.open_from,
        };
        next.drop_idle_fences();
        next
    }

    /// The version without the fences behind which no batch has a row.
    #[must_use]
    pub fn without_idle_fences(&self) -> Self {
        let mut next = self.clone();
        next.drop_idle_fences();
        next
    }

    /// The version whose events up to the gsn `pieces.through` are in pieces, and no more in
    /// batches.
    #[must_use]
    pub fn with_moved(&self, pieces: PieceSet) -> Self {
        let through = pieces.through.0;
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
        next.drop_idle_fences();
        next
    }

    /// The version with other pieces, which hold the same events.
    #[must_use]
    pub fn with_pieces(&self, pieces: PieceSet) -> Self {
        Self { pieces: Arc::new(pieces), ..self.clone() }
    }

    /// The first tick at which events could still come when it was asked for last (CL-5): nothing
    /// before it changes any more but by a delete.
    pub fn open_from(&self) -> Option<Tick> {
        self.open_from
    }

    /// The version that tells up to where nothing comes any more.
    #[must_use]
    pub fn with_open_from(&self, open_from: Tick) -> Self {
        Self { open_from: Some(open_from), ..self.clone() }
    }

    /// The version with these fences, and of which events were deleted before.
    #[must_use]
    pub fn with_fences(&self, fences: Vec<Fence>, lost: Lost) -> Self {
        Self { fences: Arc::new(fences), lost: Arc::new(lost), ..self.clone() }
    }

    /// The version with other batches, pieces and fences, for one transaction alone. The tick index does
    /// not serve such a version.
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
            if rows > 0 {
                extent.rows += rows as u64;
                extent.ticks = extent.ticks.hull(&ticks);
            }
            // Its share of the batch's bytes.
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

/// The rows that are seen, one by one: for batches at the edge of a range or a fence.
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
    (rows - replaced, hull)
}

/// How many of `ticks` lie in `range`, and the hull of those.
fn count_ticks(ticks: &[i64], sorted: bool, range: &TickRange) -> (usize, TickRange) {
    let (start, end) = (range.start.0, range.end.0);
    if sorted {
        let from = ticks.partition_point(|tick| *tick < start);
        let to = ticks.partition_point(|tick| *tick < end);
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
        // Without branches: whole registers of ticks at a time.
        let inside = start <= *tick && *tick < end;
        count += usize::from(inside);
        low = low.min(if inside { *tick } else { i64::MAX });
        high = high.max(if inside { *tick } else { i64::MIN });
    }
    let hull =
        if count == 0 { TickRange::EMPTY } else { TickRange::new(Tick(low), Tick(high).next()) };
    (count, hull)
}

#[cfg(test)]
mod tests;
