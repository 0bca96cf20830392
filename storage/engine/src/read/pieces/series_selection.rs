//! Finds the wanted series of a row group of a story, and their runs (ranges of rows).
//!
//! ```text
//!   few series:    runs of all series, from cells or cache ─► series with matching keys
//!   many series:   page index of the key columns ─► key columns of these pages ─► matching rows
//!                  ─► runs of the matching rows only
//! ```
//!
//! A row group without cells has many series: reading the keys of all series costs more than
//! reading the rows of a few series. A lookup therefore decompresses only the pages that may
//! contain its keys.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef},
    compute::concat,
};
use stratalog_model::{Result, TickRanges};
use stratalog_story::{Columns, Selection, Source, Story};

use super::reader::PieceReader;
use crate::{
    events::{column::Column, runs::Runs},
    version::piece::Part,
};

/// Maximum number of series that are compared key by key if the page index could select pages
/// instead.
const SERIES_COMPARED_MAX: usize = 1 << 14;

/// Runs are computed from the matching rows only if at most `1 / SHARE` of the row group's rows
/// match.
const SHARE: usize = 2;

/// The selected series of a row group.
#[derive(Debug)]
pub struct SeriesSelection {
    /// The runs of the wanted series, and possibly of other series.
    pub runs: Arc<Runs>,
    /// Indexes of the wanted series in `runs`, ascending.
    pub series: Vec<usize>,
}

impl SeriesSelection {
    /// Selects the series with the keys `keys` (encoded, ascending), given if the request fixes all
    /// key columns. Without `keys`, selects the series that match the key filters of the request.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn find(
        reader: &PieceReader,
        story: &Arc<Story>,
        part: &Part,
        keys: Option<&[Vec<u8>]>,
    ) -> Result<Self> {
        debug_assert!(
            keys.is_none_or(|keys| keys.is_sorted_by(|a, b| a < b)),
            "the wanted keys are not in order"
        );
        let known = story.finding::<Runs>(part.number);
        let compares_few = |runs: &Arc<Runs>| keys.is_some() || runs.len() <= SERIES_COMPARED_MAX;
        let known = known.filter(compares_few);
        let filters = !reader.request().keys.is_empty();
        if known.is_none()
            && filters
            && !reader.has_cells(story, part).await?
            && let Some(runs) = of_pages(reader, story, part).await?
        {
            let series = (0..runs.len()).collect();
            return Ok(Self { runs: Arc::new(runs), series });
        }
        let runs = match known {
            Some(runs) => runs,
            None => reader.runs(story, part).await?,
        };
        let metrics = &reader.request().metrics.story;
        let series: Vec<usize> = match keys {
            Some(keys) => {
                metrics.compared(keys.len() as u64);
                keys.iter().filter_map(|key| runs.find(key)).collect()
            }
            None => {
                metrics.compared(runs.len() as u64);
                reader.matching(runs.series())?
            }
        };
        debug_assert!(series.is_sorted_by(|a, b| a < b), "the selected series are not in order");
        debug_assert!(
            series.last().is_none_or(|last| *last < runs.len()),
            "a series without a run is selected"
        );
        Ok(Self { runs, series })
    }
}

/// The runs of the series that match the key filters, computed from the pages that may contain
/// matching keys. `None` if more than `1 / SHARE` of the row group's rows match.
async fn of_pages(reader: &PieceReader, story: &Arc<Story>, part: &Part) -> Result<Option<Runs>> {
    let key = &reader.piece().shape().keys;
    let nothing = || -> Result<Option<Runs>> {
        let none = (0..key.at.len()).map(|at| reader.no_key(at).map(Column::Plain));
        Runs::of(&none.collect::<Result<Vec<_>>>()?, key, 0).map(Some)
    };
    let filters = reader.key_values();
    // Selects for all ticks: a filter on ticks would split the adjacent rows of a series.
    let all = TickRanges::all();
    let Some(selection) = story.select(part.number, &all, &filters, &[])? else {
        return nothing();
    };
    let sources: Vec<Source> = filters.iter().map(|filter| Source::Column(filter.column)).collect();
    let columns = story.columns(part.number, &sources, selection.ranges()).await?;
    let metrics = &reader.request().metrics.story;
    metrics.read_on(0, columns.read_bytes());
    metrics.compared(selection.rows() as u64);
    let found = matching(reader, &columns, &selection)?;
    let rows: usize = found.iter().map(ExactSizeIterator::len).sum();
    debug_assert!(rows <= selection.rows(), "more rows match than are selected");
    if rows == 0 {
        return nothing();
    }
    if rows * SHARE > part.rows as usize {
        return Ok(None);
    }
    let sources: Option<Vec<Source>> = key
        .at
        .iter()
        .map(|at| reader.piece().shape().columns.get(*at).map(|id| Source::Column(*id)))
        .collect();
    let columns = story.columns(part.number, &sources.unwrap_or_default(), &found).await?;
    metrics.read_on(0, columns.read_bytes());
    let keys = (0..key.at.len()).map(|at| concat_ranges(&columns, at, &found).map(Column::Plain));
    let runs = Runs::of(&keys.collect::<Result<Vec<_>>>()?, key, rows)?;
    // Estimates the number of series: all series have about as many rows as the matching series.
    reader.piece().saw_series(part.rows as usize * runs.len() / rows);
    Ok(Some(runs.placed(&found)))
}

/// The rows of a selection that match all key filters, as ranges.
fn matching(
    reader: &PieceReader,
    columns: &Columns,
    selection: &Selection,
) -> Result<Vec<Range<usize>>> {
    let sets = &reader.shared().keys;
    debug_assert!(!sets.is_empty(), "no filter selects the rows");
    let mut found: Vec<Range<usize>> = Vec::new();
    for rows in selection.ranges() {
        let mut matching: Option<Vec<u32>> = None;
        // `columns` has a column for each filter whose column the piece has, in the order of the
        // filters.
        let mut at = 0;
        for set in sets.iter() {
            let column = match reader.source(set.column) {
                Some(_) => {
                    at += 1;
                    concat_ranges(columns, at - 1, std::slice::from_ref(rows))?
                }
                None => reader.constant(set.column, rows.len())?,
            };
            let column = Column::Plain(column);
            match &mut matching {
                Some(rows) => set.retain(&column, rows)?,
                None => matching = Some(set.rows(&column)?),
            }
        }
        for row in matching.into_iter().flatten() {
            let row = rows.start + row as usize;
            match found.last_mut() {
                Some(last) if last.end == row => last.end += 1,
                _ => found.push(row..row + 1),
            }
        }
    }
    debug_assert!(found.is_sorted_by(|a, b| a.end < b.start), "the matching rows overlap");
    Ok(found)
}

/// Concatenates the values of column `at` for some ranges of rows.
fn concat_ranges(columns: &Columns, at: usize, ranges: &[Range<usize>]) -> Result<ArrayRef> {
    let mut slices: Vec<ArrayRef> = Vec::new();
    for range in ranges {
        slices.extend(columns.slices(at, range.clone())?);
    }
    debug_assert_eq!(
        slices.iter().map(|slice| slice.len()).sum::<usize>(),
        ranges.iter().map(ExactSizeIterator::len).sum::<usize>(),
        "the ranges have other rows"
    );
    if let [one] = slices.as_slice() {
        return Ok(Arc::clone(one));
    }
    let slices: Vec<&dyn Array> = slices.iter().map(AsRef::as_ref).collect();
    Ok(concat(&slices)?)
}
