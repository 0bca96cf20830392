//! Aggregates over the slices (row groups) of a story. In a slice, the rows of each series are
//! consecutive (a run), in tick order. Bisection finds the windows in each run, and the counter
//! reads the values in place. If the story has cells, the statistics of whole cells replace the
//! count of their rows.
//!
//! ```text
//!   slice 1 ─► run of a series     ─► windows │ 10:00 │ 11:00 …
//!   slice 2 ─► run of the same key ─► windows         │ 11:00 │ 12:00 …     11:00 is one group
//! ```

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::interleave,
    datatypes::Int64Type,
};
use stratalog_model::{
    Error, Result,
    aggregate::{AggregateRequest, ColumnStatistic, Statistic},
};
use stratalog_story::{CHUNK_ROWS, CellColumn, Source, Story};

use super::{
    counter::{CellCounter, Counter, Lane},
    plan::{self, Span},
    rows::before_all,
    tally::GroupTally,
};
use crate::{
    events::runs::Runs,
    read::pieces::{reader::PieceReader, series_selection::SeriesSelection},
    version::piece::Part,
};

/// Number of groups at which the tally becomes a result batch.
const GROUPS_MAX: usize = 1 << 16;

/// Aggregates the slices of a story, slice by slice.
pub struct Slices {
    request: Arc<AggregateRequest>,
    reader: Arc<PieceReader>,
    /// Encoded keys of the wanted series, ascending; `None` unless the request fixes all key
    /// columns.
    keys: Option<Arc<[Vec<u8>]>>,
    tally: GroupTally,
    /// For each group, the place of its key: index in `visited`, and index of the series there.
    places: Vec<(usize, usize)>,
    visited: Vec<Arc<Runs>>,
    /// For each series of the previous slice: the number of the group at the end of its run. The
    /// first window of the next slice may continue this group.
    last: Vec<Option<usize>>,
}

impl Slices {
    /// A new aggregation. `reader` reads the slices.
    pub fn new(
        request: &Arc<AggregateRequest>,
        reader: &Arc<PieceReader>,
        keys: Option<&Arc<[Vec<u8>]>>,
    ) -> Self {
        Self {
            request: Arc::clone(request),
            reader: Arc::clone(reader),
            keys: keys.cloned(),
            tally: GroupTally::new(request),
            places: Vec::new(),
            visited: Vec::new(),
            last: Vec::new(),
        }
    }

    /// Returns the groups collected so far as a batch, and begins an empty tally; `None` without
    /// groups.
    ///
    /// # Errors
    /// `Internal`.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        let tally = std::mem::replace(&mut self.tally, GroupTally::new(&self.request));
        let (places, visited) =
            (std::mem::take(&mut self.places), std::mem::take(&mut self.visited));
        self.last.clear();
        debug_assert_eq!(places.len(), tally.rows(), "a group has no place of its key");
        debug_assert!(
            places.iter().all(|(at, _)| *at < visited.len()),
            "a key belongs to no visited slice"
        );
        if tally.rows() == 0 {
            return Ok(None);
        }
        let keys = self.request.keys.iter().map(|key| -> Result<ArrayRef> {
            let values = visited.iter().map(|runs| self.reader.key_column(runs.series(), *key));
            let values = values.collect::<Result<Vec<_>>>()?;
            let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
            Ok(interleave(&values, &places)?)
        });
        let keys = keys.collect::<Result<_>>()?;
        tally.batch(&self.request, keys).map(Some)
    }

    /// Number of the group at which the series of `run` ended in the previous slice; `None` if the
    /// series was not there.
    fn ended_with(&self, runs: &Runs, run: usize) -> Option<usize> {
        let before = self.visited.last()?;
        debug_assert_eq!(self.last.len(), before.len(), "the ends belong to another slice");
        let key = runs.keys().get(run)?;
        // Mostly, both slices have the same series, and the index is the same.
        let same = before.keys().get(run).is_some_and(|known| known == key);
        let at = if same { run } else { before.find(key)? };
        self.last.get(at).copied().flatten()
    }

    /// Adds a row group of a story. The snapshot must see all events of the row group. Returns a
    /// batch once the tally has many groups.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn add(&mut self, story: &Arc<Story>, part: &Part) -> Result<Option<RecordBatch>> {
        let chosen = SeriesSelection::find(&self.reader, story, part, self.keys.as_deref()).await?;
        let SeriesSelection { runs, series: chosen } = chosen;
        let metrics = &self.request.scan.metrics.story;
        if chosen.is_empty() {
            metrics.pruned(1);
            return Ok(None);
        }
        let segments = |cells| plan::segments(&self.request, &part.hull, &runs, &chosen, cells);
        let mut found = segments(true)?;
        let mut cell_arrays = None;
        if found.iter().any(|segment| matches!(segment.span, Span::Cells(_))) {
            cell_arrays = story.cells(part.number, &self.cell_columns()).await?;
            if cell_arrays.is_none() {
                found = segments(false)?;
            }
        }
        let ticks = found.iter().any(|segment| segment.window.is_none());
        let ranges: Vec<Range<usize>> = found
            .iter()
            .filter_map(|segment| match &segment.span {
                Span::Rows(rows) => Some(rows.clone()),
                Span::Cells(_) => None,
            })
            .collect();
        let (sources, places) = self.sources(ticks);
        let columns = story.columns(part.number, &sources, &ranges).await?;
        let rows: usize = ranges.iter().map(ExactSizeIterator::len).sum();
        metrics.read(rows as u64, columns.read_bytes());

        let constants = self.constants(&places)?;
        let lanes = places
            .iter()
            .zip(&constants)
            .map(|(place, constant)| match (place, constant) {
                (Some(at), _) => Lane::chunks(columns.chunks(*at), CHUNK_ROWS),
                (None, Some(constant)) => Lane::constant(constant),
                (None, None) => Lane::chunks(&[], CHUNK_ROWS),
            })
            .collect();
        let counter = Counter::new(&self.request, lanes);
        let of_cells = match (&cell_arrays, runs.cells()) {
            (Some(cell_arrays), Some(cells)) => {
                Some(CellCounter::new(&counter, cells, &self.cell_arrays(cell_arrays)?))
            }
            _ => None,
        };
        let ticks = if ticks { columns.chunks(sources.len() - 1) } else { &[] };
        let mut last: Vec<Option<usize>> = vec![None; runs.len()];
        let visited = self.visited.len();
        let mut tally = std::mem::replace(&mut self.tally, GroupTally::new(&self.request));
        let mut places = std::mem::take(&mut self.places);
        let mut scratch = Vec::new();
        let (mut run, mut known) = (None, None);
        for segment in found {
            if run != Some(segment.run) {
                (run, known) = (Some(segment.run), self.ended_with(&runs, segment.run));
            }
            let mut begin = |window: i64, tally: &mut GroupTally| {
                let group = match known.filter(|known| tally.window(*known) == Some(window)) {
                    Some(known) => {
                        tally.resume(known);
                        known
                    }
                    None => {
                        places.push((visited, segment.run));
                        tally.group(window)
                    }
                };
                known = Some(group);
                if let Some(last) = last.get_mut(segment.run) {
                    *last = known;
                }
            };
            match (segment.span, segment.window) {
                (Span::Cells(cells), Some(window)) => {
                    let of_cells = of_cells.as_ref();
                    let of_cells =
                        of_cells.ok_or_else(|| Error::internal("cells were not read"))?;
                    metrics.answered_by_cells(cells.len() as u64);
                    begin(window, &mut tally);
                    of_cells.count(cells, &mut tally)?;
                }
                (Span::Cells(_), None) => return Err(Error::internal("cells of no window")),
                (Span::Rows(rows), Some(window)) => {
                    begin(window, &mut tally);
                    counter.count(rows, &mut tally)?;
                }
                (Span::Rows(rows), None) => {
                    let ticks = run_ticks(ticks, rows.clone(), &mut scratch)?;
                    self.windows(ticks, |window, part| {
                        begin(window, &mut tally);
                        counter.count(rows.start + part.start..rows.start + part.end, &mut tally)
                    })?;
                }
            }
        }
        debug_assert_eq!(places.len(), tally.rows(), "a group without a key");
        (self.tally, self.places, self.last) = (tally, places, last);
        self.visited.push(runs);
        if self.tally.rows() > GROUPS_MAX {
            return self.finish();
        }
        Ok(None)
    }

    /// Calls `found` for each window that contains wanted ticks. `ticks` are the ticks of a run,
    /// ascending. `found` receives the window, and the range of positions in `ticks` that are
    /// wanted.
    fn windows(
        &self,
        ticks: &[i64],
        mut found: impl FnMut(i64, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        for wanted in self.request.scan.ticks.as_slice() {
            let mut at = ticks.partition_point(|tick| *tick < wanted.start.0);
            let end = ticks.partition_point(|tick| *tick < wanted.end.0);
            while at < end {
                let (window, next) = match (self.request.windows, ticks.get(at)) {
                    (Some(windows), Some(tick)) => {
                        let window = windows.start(*tick).ok_or_else(before_all)?;
                        (window, i128::from(window) + i128::from(windows.width))
                    }
                    _ => (0, i128::MAX),
                };
                let rest = ticks.get(at..end).unwrap_or(&[]);
                let len = rest.partition_point(|tick| i128::from(*tick) < next).max(1);
                debug_assert!(len <= end - at, "a window has unwanted ticks");
                found(window, at..at + len)?;
                at += len;
            }
        }
        Ok(())
    }

    /// The column of the cells that has a statistic. `None` if no column is needed: for counts of
    /// events, for counts of columns without NULL, and for columns that the story lacks.
    fn cell_column(&self, wanted: &ColumnStatistic) -> Option<CellColumn> {
        let Some(Source::Column(id)) = self.reader.source(wanted.column) else { return None };
        match wanted.statistic {
            Statistic::Rows => None,
            Statistic::Count => {
                let column = self.reader.piece().shape().position(id)?;
                let fields = self.reader.piece().shape().schema.fields();
                fields.get(column)?.is_nullable().then_some(CellColumn::Count(id))
            }
            Statistic::Sum => Some(CellColumn::Sum(id)),
            Statistic::Min => Some(CellColumn::Min(id)),
            Statistic::Max => Some(CellColumn::Max(id)),
        }
    }

    /// The columns of the cells to read, without duplicates.
    fn cell_columns(&self) -> Vec<CellColumn> {
        self.request.statistics.iter().filter_map(|wanted| self.cell_column(wanted)).collect()
    }

    /// For each wanted statistic, the array in `read` that has its cell column.
    fn cell_arrays<'a>(&self, read: &'a [ArrayRef]) -> Result<Vec<Option<&'a ArrayRef>>> {
        let mut read = read.iter();
        let of = self.request.statistics.iter().map(|wanted| match self.cell_column(wanted) {
            Some(_) => read.next().map(Some).ok_or_else(|| Error::internal("cells lack a column")),
            None => Ok(None),
        });
        let found = of.collect();
        debug_assert!(read.as_slice().is_empty(), "a cell column belongs to no statistic");
        found
    }

    /// Returns the sources to read from the story; and for each column of the request, its position
    /// among the sources (`None` if the story lacks the column). With `ticks`, the last source is
    /// the tick column.
    fn sources(&self, ticks: bool) -> (Vec<Source>, Vec<Option<usize>>) {
        let mut sources = Vec::new();
        let mut places = Vec::new();
        for column in self.request.columns() {
            places.push(self.reader.source(column).map(|source| {
                sources.push(source);
                sources.len() - 1
            }));
        }
        sources.extend(ticks.then_some(Source::Tick));
        debug_assert_eq!(
            places.iter().flatten().count() + usize::from(ticks),
            sources.len(),
            "a source belongs to no column"
        );
        (sources, places)
    }

    /// The constant values of the columns that the story lacks.
    fn constants(&self, places: &[Option<usize>]) -> Result<Vec<Option<ArrayRef>>> {
        let columns = self.request.columns();
        debug_assert_eq!(columns.len(), places.len(), "the places are those of other columns");
        columns
            .into_iter()
            .zip(places)
            .map(|(column, place)| match place {
                Some(_) => Ok(None),
                None => self.reader.constant(column, CHUNK_ROWS).map(Some),
            })
            .collect()
    }
}

/// The ticks of a run: borrowed from one chunk if possible, otherwise copied into `scratch`.
fn run_ticks<'a>(
    chunks: &'a [(u32, ArrayRef)],
    rows: Range<usize>,
    scratch: &'a mut Vec<i64>,
) -> Result<&'a [i64]> {
    let missing = || Error::internal("ticks of a slice were not read");
    scratch.clear();
    let mut at = rows.start;
    loop {
        let number = at / CHUNK_ROWS;
        let found = chunks.binary_search_by_key(&number, |(chunk, _)| *chunk as usize);
        let (_, array) = found.ok().and_then(|at| chunks.get(at)).ok_or_else(missing)?;
        let values: &'a [i64] = array.as_primitive_opt::<Int64Type>().ok_or_else(missing)?.values();
        let start = at - number * CHUNK_ROWS;
        let len = (rows.end - at).min(CHUNK_ROWS - start);
        let ticks = values.get(start..start + len).ok_or_else(missing)?;
        if len == rows.len() {
            return Ok(ticks);
        }
        scratch.extend_from_slice(ticks);
        at += len;
        if at >= rows.end {
            debug_assert_eq!(scratch.len(), rows.len(), "a run lacks ticks");
            return Ok(scratch);
        }
    }
}
