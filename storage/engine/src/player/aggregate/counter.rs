//! What is wanted of neighbouring rows, wherever their values lie.

use std::ops::Range;

use arrow::array::ArrayRef;
use stratalog_model::{
    Error, Result,
    aggregate::{AggregateRequest, Statistic, Wanted},
};

use super::{
    kernel::{Column, Number, Total},
    tally::Tally,
};

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

    /// Adds some neighbouring rows to the group that is counted.
    ///
    /// # Errors
    /// `Internal` for a column that is not there.
    pub fn count(&self, rows: Range<usize>, tally: &mut Tally) -> Result<()> {
        let missing = || Error::internal("rows to aggregate lack a column");
        for (at, (wanted, lane)) in self.wanted.iter().enumerate() {
            let lane = || lane.and_then(|lane| self.lanes.get(lane)).ok_or_else(missing);
            match wanted.statistic {
                Statistic::Rows => tally.count(at, rows.len() as i64),
                Statistic::Count => {
                    let mut count = 0;
                    lane()?.each(&rows, |column, rows| {
                        count += column.count(rows);
                        Ok(())
                    })?;
                    tally.count(at, count);
                }
                Statistic::Sum => {
                    let mut sum: Option<Total> = None;
                    lane()?.each(&rows, |column, rows| {
                        if let Some(more) = column.sum(rows)? {
                            sum = Some(sum.map_or(more, |sum| sum.plus(more)));
                        }
                        Ok(())
                    })?;
                    tally.sum(at, sum);
                }
                Statistic::Min | Statistic::Max => {
                    let greatest = wanted.statistic == Statistic::Max;
                    let mut best: Option<Number> = None;
                    lane()?.each(&rows, |column, rows| {
                        if let Some(found) = column.extreme(rows, greatest) {
                            best = Some(best.map_or(found, |best| best.better(found, greatest)));
                        }
                        Ok(())
                    })?;
                    tally.number(at, best);
                }
            }
        }
        Ok(())
    }
}
