//! What is wanted of neighbouring rows, wherever their values lie.

use std::ops::Range;

use arrow::array::ArrayRef;
use stratalog_model::{
    Error, Result,
    aggregate::{AggregateRequest, Statistic, Wanted},
};

use stratalog_story::kernel::{Column, Total};

use super::tally::Tally;
use crate::pieces::runs::Cells;

/// The values of a column.
pub enum Lane<'a> {
    /// In chunks of so many rows each but the last, by number, ascending.
    Chunks(Vec<(usize, Column<'a>)>, usize),
    /// All rows are alike: so many of them.
    Constant(Column<'a>, usize),
}

impl<'a> Lane<'a> {
    /// A column in chunks.
    pub fn chunks(chunks: &'a [(u32, ArrayRef)], chunk_rows: usize) -> Self {
        let columns = chunks.iter().map(|(number, array)| (*number as usize, Column::of(array)));
        Self::Chunks(columns.collect(), chunk_rows)
    }

    /// A column in one piece.
    pub fn whole(array: &'a ArrayRef) -> Self {
        Self::Chunks(vec![(0, Column::of(array))], usize::MAX)
    }

    /// A column whose rows are all alike, of which an array has some.
    pub fn constant(array: &'a ArrayRef) -> Self {
        Self::Constant(Column::of(array), array.len().max(1))
    }

    /// Calls `found` with each part of the column that has some of the rows, and those rows of it.
    fn each(
        &self,
        rows: &Range<usize>,
        mut found: impl FnMut(&Column<'a>, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let mut at = rows.start;
        while at < rows.end {
            let (column, start, end) = match self {
                Self::Constant(column, len) => (Some(column), 0, *len),
                Self::Chunks(chunks, chunk_rows) => {
                    let number = at / chunk_rows;
                    let place = chunks.binary_search_by_key(&number, |(chunk, _)| *chunk);
                    let chunk = place.ok().and_then(|place| chunks.get(place));
                    (chunk.map(|(_, column)| column), at % chunk_rows, *chunk_rows)
                }
            };
            let column = column.ok_or_else(|| Error::internal("a chunk was not read"))?;
            let len = (rows.end - at).min(end - start);
            found(column, start..start + len)?;
            at += len;
        }
        Ok(())
    }
}

/// Counts groups of rows.
pub struct Counter<'a> {
    lanes: Vec<Lane<'a>>,
    /// What is wanted, and of which lane.
    wanted: Vec<(Wanted, Option<usize>)>,
}

impl<'a> Counter<'a> {
    /// Over the columns of [`AggregateRequest::columns`], in their order.
    pub fn new(request: &AggregateRequest, lanes: Vec<Lane<'a>>) -> Self {
        let columns = request.columns();
        let lane = |wanted: &Wanted| columns.iter().position(|column| *column == wanted.column);
        let wanted = request.wanted.iter().map(|wanted| (*wanted, lane(wanted)));
        Self { lanes, wanted: wanted.collect() }
    }

    /// Whether all rows are alike in the column of the statistic at a place.
    fn is_constant(&self, at: usize) -> bool {
        let lane = self.wanted.get(at).and_then(|(_, lane)| *lane);
        lane.and_then(|lane| self.lanes.get(lane))
            .is_some_and(|lane| matches!(lane, Lane::Constant(..)))
    }

    /// Adds some neighbouring rows to the group that is counted.
    ///
    /// # Errors
    /// `Internal` for a column that is not there.
    pub fn count(&self, rows: Range<usize>, tally: &mut Tally) -> Result<()> {
        (0..self.wanted.len()).try_for_each(|at| self.count_one(at, &rows, tally))
    }

    /// As [`Self::count`], the statistic at a place of the request.
    fn count_one(&self, at: usize, rows: &Range<usize>, tally: &mut Tally) -> Result<()> {
        let missing = || Error::internal("rows to aggregate lack a column");
        let (wanted, lane) = self.wanted.get(at).ok_or_else(missing)?;
        let lane = || lane.and_then(|lane| self.lanes.get(lane)).ok_or_else(missing);
        match wanted.statistic {
            Statistic::Rows => tally.count(at, rows.len() as i64),
            Statistic::Count => {
                let mut count = 0;
                lane()?.each(rows, |column, rows| {
                    count += column.count(rows);
                    Ok(())
                })?;
                tally.count(at, count);
            }
            Statistic::Sum => lane()?.each(rows, |column, rows| {
                tally.sum(at, column.sum(rows)?);
                Ok(())
            })?,
            Statistic::Min | Statistic::Max => {
                let greatest = wanted.statistic == Statistic::Max;
                lane()?.each(rows, |column, rows| {
                    tally.number(at, column.extreme(rows, greatest));
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

/// Adds up what cells tell.
pub struct CellCounter<'a> {
    counter: &'a Counter<'a>,
    cells: &'a Cells,
    /// For each statistic that is wanted, what the cells say; `None` where their rows are enough
    /// to know.
    told: Vec<Option<Column<'a>>>,
}

impl<'a> CellCounter<'a> {
    /// Over the columns that tell what `counter` counts.
    pub fn new(counter: &'a Counter<'a>, cells: &'a Cells, told: &[Option<&'a ArrayRef>]) -> Self {
        Self { counter, cells, told: told.iter().map(|array| array.map(Column::of)).collect() }
    }

    /// Adds some neighbouring cells to the group that is counted.
    ///
    /// # Errors
    /// `Internal` for a column that is not there.
    pub fn count(&self, cells: Range<usize>, tally: &mut Tally) -> Result<()> {
        if cells.is_empty() {
            return Ok(());
        }
        let rows = self.cells.rows(cells.start).start..self.cells.rows(cells.end - 1).end;
        for (at, ((wanted, _), told)) in self.counter.wanted.iter().zip(&self.told).enumerate() {
            let Some(told) = told else {
                // A column that may not be NULL has as many values as there are rows.
                match wanted.statistic {
                    Statistic::Count if !self.counter.is_constant(at) => {
                        tally.count(at, rows.len() as i64);
                    }
                    _ => self.counter.count_one(at, &rows, tally)?,
                }
                continue;
            };
            match wanted.statistic {
                Statistic::Rows | Statistic::Count => match told.sum(cells.clone())? {
                    Some(Total::Whole(count)) => tally.count(at, count as i64),
                    _ => return Err(Error::internal("cells that count no values")),
                },
                Statistic::Sum => tally.sum(at, told.sum(cells.clone())?),
                Statistic::Min => tally.number(at, told.extreme(cells.clone(), false)),
                Statistic::Max => tally.number(at, told.extreme(cells.clone(), true)),
            }
        }
        Ok(())
    }
}
