//! Events of one shape (schema version) during a move from one owner to another.

use std::sync::Arc;

use arrow::array::{BooleanArray, UInt32Array};
use stratalog_model::{Error, Gsn, Result, Tick};

use crate::{
    events::{batch::MemoryBatch, column::Column, part_events::ColumnSelection, shape::Shape},
    sabotage,
    version::{
        Version, compact,
        fence::Fence,
        piece::{OpenPiece, Part, is_behind},
    },
};

/// Events of one shape, in any order; columns and numbers are parallel arrays.
#[derive(Debug, Clone)]
pub struct EventRows {
    /// The shape of the events.
    pub shape: Arc<Shape>,
    /// The columns of the shape.
    pub columns: Vec<Column>,
    /// Tick of each event.
    pub ticks: Vec<i64>,
    /// Arrival number of each event.
    pub seqs: Vec<i64>,
    /// Commit number of each event.
    pub gsns: Vec<i64>,
}

impl EventRows {
    /// Number of events.
    pub fn len(&self) -> usize {
        self.ticks.len()
    }

    /// Bytes of the columns.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum()
    }

    /// Collects the events of `batches` (all of the same shape) that are in force at
    /// `snapshot_gsn`; `None` if there are none.
    ///
    /// # Errors
    /// `Internal`.
    pub fn of_batches(
        batches: &[Arc<MemoryBatch>],
        fences: &[Fence],
        snapshot_gsn: Gsn,
    ) -> Result<Option<Self>> {
        let Some(first) = batches.first() else { return Ok(None) };
        let shape = Arc::clone(first.shape());
        debug_assert!(
            batches.iter().all(|batch| batch.shape().version == shape.version),
            "the batches have several shapes"
        );
        let mut parts = RowCollector::new(shape, batches.len());
        for batch in batches {
            let mask = compact::keep_mask(batch, fences, snapshot_gsn);
            debug_assert!(
                mask.as_ref().is_none_or(|mask| mask.len() == batch.rows()),
                "the mask has another length than the batch"
            );
            let numbers = batch.runs_with_rows().flat_map(|(run, rows)| {
                (0..rows).map(move |n| ((run.seq + n).cast_signed(), (run.gsn + n).cast_signed()))
            });
            for (row, (tick, (seq, gsn))) in batch.ticks().iter().zip(numbers).enumerate() {
                if mask.as_ref().and_then(|mask| mask.get(row)).is_none_or(|keep| *keep) {
                    parts.number(*tick, seq, gsn);
                }
            }
            parts.columns(batch.columns(), mask)?;
        }
        parts.rows()
    }

    /// Like [`Self::of_batches`], for one part of a piece. Appends the arrival numbers of replaced
    /// events, which the result omits, to `dropped`.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn of_part(
        piece: &OpenPiece,
        part: &Part,
        version: &Version,
        snapshot_gsn: Gsn,
        dropped: &mut Vec<u64>,
    ) -> Result<Option<Self>> {
        let fences = piece.fences_among(version.fences());
        let fences: Vec<&Fence> = fences.filter(|fence| fence.raised() <= snapshot_gsn).collect();
        let shape = piece.shape();
        debug_assert_eq!(part.hull.intersect(&piece.record().ticks), part.hull);
        let mut parts = RowCollector::new(Arc::clone(shape), 1);
        let events = piece.read(part, &ColumnSelection::all(shape)).await?;
        debug_assert!(
            [&events.ticks, &events.seqs, &events.gsns].iter().all(|of| of.len() == events.rows),
            "a part lacks numbers of its events"
        );
        let mut mask = vec![true; events.rows];
        let numbers = events.seqs.iter().zip(events.gsns.iter());
        let rows = mask.iter_mut().zip(events.ticks.iter()).zip(numbers);
        for ((keep, tick), (seq, gsn)) in rows {
            let replaced = version.pieces().is_replaced(*seq, snapshot_gsn);
            if replaced {
                dropped.push(seq.cast_unsigned());
            }
            let replaced = replaced && !sabotage::active("mark-lost-in-merge");
            *keep = !replaced && !is_behind(&fences, Tick(*tick), *gsn);
            if *keep {
                parts.number(*tick, *seq, *gsn);
            }
        }
        let all = mask.iter().all(|keep| *keep);
        parts.columns(&events.whole()?, (!all).then_some(mask))?;
        parts.rows()
    }

    /// Concatenates events of the same shape; `None` if the list is empty.
    ///
    /// # Errors
    /// `Internal`.
    pub fn concat(all: Vec<Self>) -> Result<Option<Self>> {
        let Some(first) = all.first() else { return Ok(None) };
        debug_assert!(
            all.iter().all(|rows| rows.shape.version == first.shape.version),
            "the events have several shapes"
        );
        let mut parts = RowCollector::new(Arc::clone(&first.shape), all.len());
        for rows in all {
            parts.columns(&rows.columns, None)?;
            parts.ticks.extend(rows.ticks);
            parts.seqs.extend(rows.seqs);
            parts.gsns.extend(rows.gsns);
        }
        parts.rows()
    }

    /// Selects events, in the order of `rows`.
    ///
    /// # Errors
    /// `Internal` if a row does not exist.
    pub fn pick(&self, rows: &[u32]) -> Result<Self> {
        let numbers = |values: &[i64]| -> Vec<i64> {
            rows.iter().map(|row| values.get(*row as usize).copied().unwrap_or_default()).collect()
        };
        if rows.iter().any(|row| *row as usize >= self.len()) {
            return Err(Error::internal("events are picked that are not there"));
        }
        let indices = UInt32Array::from(rows.to_vec());
        let columns = self.columns.iter().map(|column| column.pick(&indices));
        Ok(Self {
            shape: Arc::clone(&self.shape),
            columns: columns.collect::<Result<_>>()?,
            ticks: numbers(&self.ticks),
            seqs: numbers(&self.seqs),
            gsns: numbers(&self.gsns),
        })
    }
}

/// Collects the events of several sources.
struct RowCollector {
    shape: Arc<Shape>,
    stored: Vec<Vec<Column>>,
    ticks: Vec<i64>,
    seqs: Vec<i64>,
    gsns: Vec<i64>,
}

impl RowCollector {
    fn new(shape: Arc<Shape>, parts: usize) -> Self {
        let stored = vec![Vec::with_capacity(parts); shape.columns.len()];
        Self { shape, stored, ticks: Vec::new(), seqs: Vec::new(), gsns: Vec::new() }
    }

    fn number(&mut self, tick: i64, seq: i64, gsn: i64) {
        self.ticks.push(tick);
        self.seqs.push(seq);
        self.gsns.push(gsn);
    }

    /// Adds the columns of one source; `mask` selects the rows, and `None` selects all.
    fn columns(&mut self, columns: &[Column], mask: Option<Vec<bool>>) -> Result<()> {
        debug_assert_eq!(columns.len(), self.stored.len(), "a source lacks a column");
        let mask = mask.map(BooleanArray::from);
        for (stored, column) in self.stored.iter_mut().zip(columns) {
            stored.push(match &mask {
                Some(mask) => column.filter(mask)?,
                None => column.clone(),
            });
        }
        Ok(())
    }

    fn rows(self) -> Result<Option<EventRows>> {
        if self.ticks.is_empty() {
            return Ok(None);
        }
        let columns = self.stored.iter().map(|parts| Column::concat(parts));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let Self { shape, ticks, seqs, gsns, .. } = self;
        debug_assert!(ticks.len() == seqs.len() && ticks.len() == gsns.len());
        debug_assert_eq!(columns.len(), shape.columns.len());
        debug_assert!(
            columns.iter().all(|column| column.len() == ticks.len()),
            "the columns have other rows than the numbers"
        );
        Ok(Some(EventRows { shape, columns, ticks, seqs, gsns }))
    }
}
