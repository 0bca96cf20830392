//! Events read from a part (block or row group) of a piece, with only the wanted columns.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, RecordBatch},
    buffer::ScalarBuffer,
    datatypes::Int64Type,
};
use stratalog_model::{Error, Result};
use stratalog_story::Source;

use super::block::Block;
use crate::events::{column::Column, shape::Shape};

/// The columns and event numbers to read from a part.
#[derive(Debug, Clone, Default)]
pub struct ColumnSelection {
    /// Columns, by position in the shape.
    pub columns: Vec<usize>,
    /// True to read the ticks.
    pub ticks: bool,
    /// True to read the arrival numbers.
    pub seqs: bool,
    /// True to read the commit numbers.
    pub gsns: bool,
}

impl ColumnSelection {
    /// All columns and numbers of a shape.
    pub fn all(shape: &Shape) -> Self {
        Self { columns: (0..shape.columns.len()).collect(), ..Self::numbers() }
    }

    /// The key columns of a shape, and the event numbers.
    pub fn keys(shape: &Shape) -> Self {
        Self { columns: shape.keys.at.clone(), ..Self::numbers() }
    }

    /// Only the event numbers.
    pub fn numbers() -> Self {
        Self { columns: Vec::new(), ticks: true, seqs: true, gsns: true }
    }

    /// The selected columns and numbers, as sources of a story.
    ///
    /// # Errors
    /// `Internal` if the shape lacks a selected column.
    pub fn sources(&self, shape: &Shape) -> Result<Vec<Source>> {
        let id = |at: &usize| shape.columns.get(*at).map(|id| Source::Column(*id));
        let sources: Option<Vec<Source>> = self.columns.iter().map(id).collect();
        let mut sources = sources.ok_or_else(|| Error::internal("a shape lacks a column"))?;
        sources.extend(self.ticks.then_some(Source::Tick));
        sources.extend(self.seqs.then_some(Source::Seq));
        sources.extend(self.gsns.then_some(Source::Gsn));
        Ok(sources)
    }
}

/// Events of a part. Columns and numbers that were not selected may be missing.
#[derive(Debug, Clone)]
pub struct PartEvents {
    /// Number of events.
    pub rows: usize,
    /// Columns, by position in the shape.
    pub columns: Vec<Option<Column>>,
    /// Tick of each event; empty if not read.
    pub ticks: ScalarBuffer<i64>,
    /// Arrival number of each event; empty if not read.
    pub seqs: ScalarBuffer<i64>,
    /// Commit number of each event; empty if not read.
    pub gsns: ScalarBuffer<i64>,
}

impl PartEvents {
    /// All events of a block.
    pub fn of_block(block: Block) -> Self {
        let rows = block.rows();
        let Block { columns, ticks, seqs, gsns } = block;
        debug_assert!(seqs.len() == rows && gsns.len() == rows);
        debug_assert!(columns.iter().all(|column| column.len() == rows), "a column lacks rows");
        Self { rows, columns: columns.into_iter().map(Some).collect(), ticks, seqs, gsns }
    }

    /// Converts the events into a block.
    ///
    /// # Errors
    /// `Internal` if a column was not read.
    pub fn into_block(self) -> Result<Block> {
        debug_assert!(
            [&self.ticks, &self.seqs, &self.gsns].iter().all(|of| of.len() == self.rows),
            "a block lacks numbers of its events"
        );
        let (ticks, seqs, gsns) = (self.ticks.clone(), self.seqs.clone(), self.gsns.clone());
        Ok(Block { ticks, seqs, gsns, columns: self.whole()? })
    }

    /// Converts a batch that a story has returned. `wanted` is the selection that was passed to the
    /// story.
    ///
    /// # Errors
    /// `Internal` if the batch does not have the selected columns.
    pub fn of_batch(batch: &RecordBatch, wanted: &ColumnSelection, shape: &Shape) -> Result<Self> {
        debug_assert!(
            wanted.columns.iter().all(|at| *at < shape.columns.len()),
            "a wanted column is not in the shape"
        );
        let missing = || Error::internal("a story gave other columns than were wanted");
        let mut columns = vec![None; shape.columns.len()];
        let mut arrays = batch.columns().iter();
        for at in &wanted.columns {
            let array = arrays.next().ok_or_else(missing)?;
            if let Some(slot) = columns.get_mut(*at) {
                *slot = Some(Column::Plain(Arc::clone(array)));
            }
        }
        let mut numbers = |wanted: bool| -> Result<ScalarBuffer<i64>> {
            if !wanted {
                return Ok(Vec::new().into());
            }
            let array = arrays.next().and_then(|array| array.as_primitive_opt::<Int64Type>());
            let array = array.filter(|array| array.null_count() == 0);
            Ok(array.ok_or_else(missing)?.values().clone())
        };
        let (ticks, seqs) = (numbers(wanted.ticks)?, numbers(wanted.seqs)?);
        let gsns = numbers(wanted.gsns)?;
        debug_assert!(
            [&ticks, &seqs, &gsns].iter().all(|of| of.is_empty() || of.len() == batch.num_rows()),
            "an event has no number"
        );
        Ok(Self { rows: batch.num_rows(), columns, ticks, seqs, gsns })
    }

    /// The columns at the positions `places` of the shape.
    ///
    /// # Errors
    /// `Internal` if a column was not read.
    pub fn columns_at(&self, places: &[usize]) -> Result<Vec<Column>> {
        let column = |at: &usize| self.columns.get(*at).cloned().flatten();
        let columns: Option<Vec<Column>> = places.iter().map(column).collect();
        columns.ok_or_else(|| Error::internal("a column was not read"))
    }

    /// All columns of the shape.
    ///
    /// # Errors
    /// `Internal` if a column was not read.
    pub fn whole(self) -> Result<Vec<Column>> {
        let columns: Option<Vec<Column>> = self.columns.into_iter().collect();
        columns.ok_or_else(|| Error::internal("a column was not read"))
    }
}
