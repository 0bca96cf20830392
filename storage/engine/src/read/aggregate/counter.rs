//! Computes statistics (count, sum, least, greatest) of consecutive rows, no matter how the values
//! are stored.

use std::ops::Range;

use arrow::array::ArrayRef;
use stratalog_model::{
    Error, Result,
    aggregate::{AggregateRequest, ColumnStatistic, Statistic},
};

use stratalog_story::kernel::{Column, Total};

use super::tally::GroupTally;
use crate::events::runs::Cells;

/// The values of one column, in the form for the counter.
pub enum Lane<'a> {
    /// Arrays of equal length (the last may be shorter), each with its chunk number, ascending; and
    /// the number of rows per chunk. Some chunks may be missing.
    Chunks(Vec<(usize, Column<'a>)>, usize),
    /// All rows have the same value. The column is an array of copies of this value, and the number
    /// is the length of the array.
    Constant(Column<'a>, usize),
}

impl<'a> Lane<'a> {
    /// A column in chunks of `chunk_rows` rows; `chunks` has chunk numbers and values.
    pub fn chunks(chunks: &'a [(u32, ArrayRef)], chunk_rows: usize) -> Self {
        debug_assert!(chunk_rows > 0, "a chunk has no rows");
        debug_assert!(chunks.is_sorted_by(|a, b| a.0 < b.0), "the chunks are not in order");
        let columns = chunks.iter().map(|(number, array)| (*number as usize, Column::of(array)));
        Self::Chunks(columns.collect(), chunk_rows)
    }

    /// A column in a single array.
    pub fn whole(array: &'a ArrayRef) -> Self {
        Self::Chunks(vec![(0, Column::of(array))], usize::MAX)
    }

    /// A constant column; `array` has one or more copies of the value.
    pub fn constant(array: &'a ArrayRef) -> Self {
        Self::Constant(Column::of(array), array.len().max(1))
    }

    /// Calls `found` for each array of the column that overlaps `rows`, with the overlapping rows
    /// as a range within the array.
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
            debug_assert!(len > 0, "a lane stands still at row {at}");
            found(column, start..start + len)?;
            at += len;
        }
        debug_assert_eq!(at, rows.end.max(rows.start), "a lane ends at another row");
        Ok(())
    }
}

/// Computes the statistics of groups of rows, and adds them to a [`GroupTally`].
pub struct Counter<'a> {
    lanes: Vec<Lane<'a>>,
    /// The wanted statistics, each with the index of its column in `lanes`; `None` for a count of
    /// rows.
    statistics: Vec<(ColumnStatistic, Option<usize>)>,
}

impl<'a> Counter<'a> {
    /// A counter for `request`. `lanes` has the columns of [`AggregateRequest::columns`], in the
    /// same order.
    pub fn new(request: &AggregateRequest, lanes: Vec<Lane<'a>>) -> Self {
        let columns = request.columns();
        let lane =
            |wanted: &ColumnStatistic| columns.iter().position(|column| *column == wanted.column);
        let statistics = request.statistics.iter().map(|wanted| (*wanted, lane(wanted)));
        let statistics: Vec<(ColumnStatistic, Option<usize>)> = statistics.collect();
        debug_assert_eq!(lanes.len(), columns.len(), "the lanes are not the wanted columns");
        debug_assert!(
            statistics
                .iter()
                .all(|(wanted, lane)| lane.is_some() || wanted.statistic == Statistic::Rows),
            "a statistic has no column"
        );
        Self { lanes, statistics }
    }

    /// True if the statistic at position `at` has a constant column.
    fn is_constant(&self, at: usize) -> bool {
        let lane = self.statistics.get(at).and_then(|(_, lane)| *lane);
        lane.and_then(|lane| self.lanes.get(lane))
            .is_some_and(|lane| matches!(lane, Lane::Constant(..)))
    }

    /// Adds the consecutive rows `rows` to the current group of `tally`.
    ///
    /// # Errors
    /// `Internal` if a column is missing.
    pub fn count(&self, rows: Range<usize>, tally: &mut GroupTally) -> Result<()> {
        (0..self.statistics.len()).try_for_each(|at| self.count_one(at, &rows, tally))
    }

    /// Like [`Self::count`], for the statistic at position `at` of the request.
    fn count_one(&self, at: usize, rows: &Range<usize>, tally: &mut GroupTally) -> Result<()> {
        let missing = || Error::internal("rows to aggregate lack a column");
        let (wanted, lane) = self.statistics.get(at).ok_or_else(missing)?;
        let lane = || lane.and_then(|lane| self.lanes.get(lane)).ok_or_else(missing);
        match wanted.statistic {
            Statistic::Rows => tally.count(at, rows.len() as i64),
            Statistic::Count => {
                let mut count = 0;
                lane()?.each(rows, |column, rows| {
                    count += column.count(rows);
                    Ok(())
                })?;
                debug_assert!(
                    usize::try_from(count).is_ok_and(|count| count <= rows.len()),
                    "a column has more values than rows"
                );
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

/// Adds up the statistics of cells, which are aggregates stored in a story.
pub struct CellCounter<'a> {
    counter: &'a Counter<'a>,
    cells: &'a Cells,
    /// For each wanted statistic, the column of the cells that has it; `None` if the number of rows
    /// of the cells is enough.
    cell_values: Vec<Option<Column<'a>>>,
}

impl<'a> CellCounter<'a> {
    /// `cell_values` has, for each statistic of `counter`, the column of the cells that has it.
    pub fn new(
        counter: &'a Counter<'a>,
        cells: &'a Cells,
        cell_values: &[Option<&'a ArrayRef>],
    ) -> Self {
        debug_assert_eq!(
            cell_values.len(),
            counter.statistics.len(),
            "the cells have other statistics"
        );
        Self {
            counter,
            cells,
            cell_values: cell_values.iter().map(|array| array.map(Column::of)).collect(),
        }
    }

    /// Adds the consecutive cells `cells` to the current group of `tally`.
    ///
    /// # Errors
    /// `Internal` if a column is missing.
    pub fn count(&self, cells: Range<usize>, tally: &mut GroupTally) -> Result<()> {
        if cells.is_empty() {
            return Ok(());
        }
        let rows = self.cells.rows(cells.start).start..self.cells.rows(cells.end - 1).end;
        debug_assert!(rows.start <= rows.end, "the rows of cells are reversed");
        for (at, ((wanted, _), cell_values)) in
            self.counter.statistics.iter().zip(&self.cell_values).enumerate()
        {
            let Some(cell_values) = cell_values else {
                // No cell column: the column has no NULL, and its count is the number of rows.
                match wanted.statistic {
                    Statistic::Count if !self.counter.is_constant(at) => {
                        tally.count(at, rows.len() as i64);
                    }
                    _ => self.counter.count_one(at, &rows, tally)?,
                }
                continue;
            };
            match wanted.statistic {
                Statistic::Rows | Statistic::Count => match cell_values.sum(cells.clone())? {
                    Some(Total::Whole(count)) => tally.count(at, count as i64),
                    _ => return Err(Error::internal("cells that count no values")),
                },
                Statistic::Sum => tally.sum(at, cell_values.sum(cells.clone())?),
                Statistic::Min => tally.number(at, cell_values.extreme(cells.clone(), false)),
                Statistic::Max => tally.number(at, cell_values.extreme(cells.clone(), true)),
            }
        }
        Ok(())
    }
}
