//! Compares the events read from a piece with the summaries that the piece stores: counts, ticks,
//! gsn's, keys and order. Also finds events that were already read elsewhere.

use std::sync::Arc;

use stratalog_model::{Error, ErrorKind, Result, Tick, TickRange};

use super::seqs::Seqs;
use crate::{
    events::{column::Column, keys::Groups, part_events::PartEvents, shape::Shape},
    version::manifest::PieceRecord,
};

/// A comparison of one piece: totals of the events read so far.
pub struct PieceComparison<'a> {
    pub record: &'a PieceRecord,
    /// Columns and types; `None` if unknown: the check then compares only bytes.
    pub shape: Option<Arc<Shape>>,
    pub rows: u64,
    pub hull: TickRange,
    pub gsns: (u64, u64),
    /// Number of events that have a second owner.
    pub twice: u64,
    /// Key, tick and arrival number of the previous event, to check the order.
    pub before: Option<(Box<[u8]>, i64, i64)>,
}

/// The summary of a block or row group, as stored in the piece. Ranges are (lowest, highest).
pub struct StoredSummary<'a> {
    pub rows: u64,
    pub ticks: (i64, i64),
    pub gsns: (u64, u64),
    pub keys: (&'a [u8], &'a [u8]),
}

impl<'a> PieceComparison<'a> {
    /// A new comparison, for the record of a piece in the manifest.
    pub fn new(record: &'a PieceRecord, shape: Option<Arc<Shape>>) -> Self {
        let (hull, gsns) = (TickRange::EMPTY, (u64::MAX, 0));
        Self { record, shape, rows: 0, hull, gsns, twice: 0, before: None }
    }

    /// Counts an unreadable block or row group by its stored summary, so that the totals can still
    /// be compared with the record.
    pub fn count_by_summary(&mut self, stored_summary: &StoredSummary<'_>) {
        self.rows += stored_summary.rows;
        self.hull = self.hull.hull(&hull(stored_summary.ticks));
        self.gsns =
            (self.gsns.0.min(stored_summary.gsns.0), self.gsns.1.max(stored_summary.gsns.1));
    }

    /// Compares the events of a block or row group with its stored summary.
    pub fn part(
        &mut self,
        parts: &[PartEvents],
        stored_summary: &StoredSummary<'_>,
        seqs: &mut Seqs,
    ) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::DataCorrupted, what));
        let Some(shape) = self.shape.clone() else { return Ok(()) };
        let mut found = ObservedSummary::default();
        for events in parts {
            let numbers = [&events.ticks, &events.seqs, &events.gsns];
            if numbers.iter().any(|numbers| numbers.len() != events.rows) {
                return wrong("numbers of events are missing".to_string());
            }
            let columns: Vec<Column> = events.columns.iter().flatten().cloned().collect();
            let groups = Groups::of(&columns, &shape.keys, events.rows)?;
            let rows = events.ticks.iter().zip(events.seqs.iter().zip(events.gsns.iter()));
            for (row, (tick, (seq, gsn))) in rows.enumerate() {
                let key = groups.keys.get(groups.group(row)).map_or(&[][..], |key| key);
                let ordered = self.before.as_ref().is_none_or(|(before, at, number)| {
                    (before.as_ref(), *at, *number) < (key, *tick, *seq)
                });
                if !ordered {
                    return wrong(format!("row {} is out of order", found.rows));
                }
                match &mut self.before {
                    Some((before, at, number)) if before.as_ref() == key => {
                        (*at, *number) = (*tick, *seq);
                    }
                    before => *before = Some((key.into(), *tick, *seq)),
                }
                if found.rows == 0 {
                    found.first_key = key.into();
                }
                found.rows += 1;
                found.ticks = (found.ticks.0.min(*tick), found.ticks.1.max(*tick));
                let gsn = gsn.cast_unsigned();
                found.gsns = (found.gsns.0.min(gsn), found.gsns.1.max(gsn));
                self.twice += u64::from(seqs.insert(seq.cast_unsigned()));
            }
        }
        debug_assert_eq!(
            found.rows,
            parts.iter().map(|events| events.rows as u64).sum::<u64>(),
            "an event is not compared"
        );
        let last_key = self.before.as_ref().map_or(&[][..], |(key, ..)| key);
        if (found.rows, found.ticks, found.gsns)
            != (stored_summary.rows, stored_summary.ticks, stored_summary.gsns)
        {
            return wrong(format!(
                "the data contains {} events of ticks {:?} and gsn's {:?}, but the statistics declare {}, {:?} and {:?}",
                found.rows,
                found.ticks,
                found.gsns,
                stored_summary.rows,
                stored_summary.ticks,
                stored_summary.gsns
            ));
        }
        if (found.first_key.as_ref(), last_key) != stored_summary.keys {
            return wrong(
                "the keys in the data differ from the keys in the statistics".to_string(),
            );
        }
        self.count_by_summary(stored_summary);
        Ok(())
    }
}

/// The summary of a block or row group, computed from its events.
struct ObservedSummary {
    rows: u64,
    ticks: (i64, i64),
    gsns: (u64, u64),
    first_key: Box<[u8]>,
}

impl Default for ObservedSummary {
    fn default() -> Self {
        let nothing = (i64::MAX, i64::MIN);
        Self { rows: 0, ticks: nothing, gsns: (u64::MAX, 0), first_key: Box::default() }
    }
}

fn hull(ticks: (i64, i64)) -> TickRange {
    TickRange::new(Tick(ticks.0), Tick(ticks.1).next())
}

#[cfg(test)]
mod tests;
