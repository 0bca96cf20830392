//! Counts the events that a planned delete would remove, and finds the ranges of their ticks and
//! gsn's.

use stratalog_model::{Gsn, GsnRange, Result, Tick, TickRange};

use super::{Version, fence::Fence};
use crate::{
    events::{
        batch::MemoryBatch,
        part_events::{ColumnSelection, PartEvents},
    },
    version::piece::{OpenPiece, Part, is_behind},
};

/// The area of a survey: a range of ticks and a range of gsn's.
#[derive(Debug, Clone, Copy)]
pub struct SurveyArea {
    /// The ticks.
    pub ticks: TickRange,
    /// The gsn's.
    pub gsns: GsnRange,
}

/// The result of a survey: the visible events in its area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisibleEvents {
    /// Number of events.
    pub rows: u64,
    /// Smallest range that contains the ticks of the events.
    pub ticks: TickRange,
    /// Smallest range that contains the gsn's of the events.
    pub gsns: GsnRange,
}

impl VisibleEvents {
    /// The result without events.
    pub const NOTHING: VisibleEvents =
        VisibleEvents { rows: 0, ticks: TickRange::EMPTY, gsns: GsnRange::EMPTY };

    fn add(&mut self, rows: u64, ticks: TickRange, gsns: GsnRange) {
        self.rows += rows;
        self.ticks = self.ticks.hull(&ticks);
        self.gsns = self.gsns.hull(&gsns);
    }

    fn add_event(&mut self, tick: Tick, gsn: Gsn) {
        self.add(1, TickRange::at(tick), GsnRange::at(gsn));
    }
}

impl Version {
    /// Counts the events in an area that are visible at `visible`. Reads parts of pieces only where
    /// the records of the pieces are not exact enough.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn survey(&self, area: SurveyArea, visible: Gsn) -> Result<VisibleEvents> {
        let mut found = self.survey_memory(area, visible);
        for piece in self.pieces().iter() {
            let record = piece.record();
            if !area.ticks.overlaps(&record.ticks) || !area.gsns.overlaps(&piece.gsns()) {
                continue;
            }
            let behind: Vec<&Fence> = piece.fences_among(self.fences()).collect();
            let plain = behind.is_empty() && !self.pieces().has_replaced();
            if plain && area.ticks.covers(&record.ticks) && area.gsns.covers(&piece.gsns()) {
                found.add(record.rows, record.ticks, piece.gsns());
                continue;
            }
            for part in piece.parts().await? {
                self.survey_part(piece, part, area, &behind, visible, &mut found).await?;
            }
        }
        debug_assert!(area.ticks.covers(&found.ticks), "a tick outside of the area is found");
        debug_assert!(area.gsns.covers(&found.gsns), "a gsn outside of the area is found");
        Ok(found)
    }

    async fn survey_part(
        &self,
        piece: &OpenPiece,
        part: &Part,
        area: SurveyArea,
        behind: &[&Fence],
        visible: Gsn,
        found: &mut VisibleEvents,
    ) -> Result<()> {
        if !area.ticks.overlaps(&part.hull) || !area.gsns.overlaps(&part.gsns) {
            return Ok(());
        }
        let plain = !self.pieces().has_replaced()
            && !behind.iter().any(|fence| fence.ticks.overlaps(&part.hull));
        if plain && area.ticks.covers(&part.hull) && area.gsns.covers(&part.gsns) {
            found.add(part.rows, part.hull, part.gsns);
            return Ok(());
        }
        let PartEvents { ticks, seqs, gsns, .. } =
            piece.read(part, &ColumnSelection::numbers()).await?;
        for ((tick, seq), gsn) in ticks.iter().zip(seqs.iter()).zip(gsns.iter()) {
            let (tick, number) = (Tick(*tick), Gsn(gsn.cast_unsigned()));
            let counts = area.ticks.contains(tick)
                && area.gsns.contains(number)
                && !is_behind(behind, tick, *gsn)
                && !self.pieces().is_replaced(*seq, visible);
            if counts {
                found.add_event(tick, number);
            }
        }
        Ok(())
    }

    /// Finds the lowest gsn among the visible events at or after `tick`. Reads parts of pieces only
    /// where the records of the pieces are not exact enough.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn first_at(&self, tick: Tick, visible: Gsn) -> Result<Option<Gsn>> {
        let ticks = TickRange::new(tick, Tick::END);
        let gsns = GsnRange::between(Gsn(0), visible);
        let mut found = self.survey_memory(SurveyArea { ticks, gsns }, visible);
        let mut pieces: Vec<&OpenPiece> = self.pieces().iter().map(AsRef::as_ref).collect();
        pieces.sort_by_key(|piece| piece.gsns().start);
        for piece in pieces {
            let behind: Vec<&Fence> = piece.fences_among(self.fences()).collect();
            if !ticks.overlaps(&piece.record().ticks) {
                continue;
            }
            for part in piece.parts().await? {
                // Surveys only gsn's below the lowest gsn found so far.
                let end = if found.rows > 0 { found.gsns.start } else { gsns.end };
                let area = SurveyArea { ticks, gsns: GsnRange::new(gsns.start, end) };
                self.survey_part(piece, part, area, &behind, visible, &mut found).await?;
            }
        }
        debug_assert!(ticks.covers(&found.ticks), "an earlier tick is found");
        debug_assert!(gsns.covers(&found.gsns), "an invisible event is found");
        Ok((found.rows > 0).then_some(found.gsns.start))
    }

    /// Like [`Self::survey`], for the events in memory.
    pub fn survey_memory(&self, area: SurveyArea, visible: Gsn) -> VisibleEvents {
        let mut found = VisibleEvents::NOTHING;
        for batch in self.batches() {
            let gsns = batch.gsns();
            if batch.first_gsn() > visible.0
                || !area.ticks.overlaps(&batch.hull())
                || !area.gsns.overlaps(&gsns)
            {
                continue;
            }
            let fenced = self.fences().iter().any(|fence| {
                fence.ticks.overlaps(&batch.hull()) && batch.first_gsn() <= fence.gsn.0
            });
            let whole = area.ticks.covers(&batch.hull())
                && area.gsns.covers(&gsns)
                && batch.last_gsn() <= visible.0;
            if whole && !fenced && batch.superseded_through(visible.0) == 0 {
                found.add(batch.rows() as u64, batch.hull(), gsns);
            } else {
                survey_batch(batch, self.fences(), area, visible, &mut found);
            }
        }
        debug_assert!(area.ticks.covers(&found.ticks), "a tick outside of the area is found");
        debug_assert!(area.gsns.covers(&found.gsns), "a gsn outside of the area is found");
        found
    }
}

fn survey_batch(
    batch: &MemoryBatch,
    fences: &[Fence],
    area: SurveyArea,
    visible: Gsn,
    found: &mut VisibleEvents,
) {
    let fences: Vec<&Fence> = fences.iter().collect();
    let replaced = batch.superseded();
    let replaced = replaced.iter().filter(|mark| mark.gsn <= visible.0);
    let replaced: ahash::HashSet<u32> = replaced.map(|mark| mark.row).collect();
    let gsns = batch.runs_with_rows().flat_map(|(run, rows)| (0..rows).map(move |n| run.gsn + n));
    for (row, (tick, gsn)) in (0..).zip(batch.ticks().iter().zip(gsns)) {
        let tick = Tick(*tick);
        let counts = gsn <= visible.0
            && area.ticks.contains(tick)
            && area.gsns.contains(Gsn(gsn))
            && !is_behind(&fences, tick, gsn.cast_signed())
            && !replaced.contains(&row);
        if counts {
            found.add_event(tick, Gsn(gsn));
        }
    }
}
