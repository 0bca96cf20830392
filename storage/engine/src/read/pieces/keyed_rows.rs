//! Reads the rows of a few series of a story. The rows of a series form a run in each row group;
//! the columns are read in chunks that stay decoded in memory.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions},
    compute::concat,
    datatypes::{Field, Schema},
};
use stratalog_model::{Result, TickRanges};
use stratalog_story::{Source, Story};

use super::{edge, reader::PieceReader, series_selection::SeriesSelection};
use crate::{events::part_events::PartEvents, version::piece::Part};

/// Only the runs are read if they have at most `1 / SHARE` of the rows of a row group.
const SHARE: usize = 8;

/// The rows of a row group that have the wanted keys and ticks.
#[derive(Debug)]
pub struct KeyedRows {
    ranges: Vec<Range<usize>>,
}

impl KeyedRows {
    /// Finds the rows with the keys `keys` (encoded, ascending), or, without `keys`, the rows that
    /// match the key filters of the request. Returns `None` if many rows match, so that reading
    /// whole pages is equally good.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn find(
        reader: &PieceReader,
        story: &Arc<Story>,
        part: &Part,
        keys: Option<&[Vec<u8>]>,
    ) -> Result<Option<Self>> {
        let SeriesSelection { runs, series } =
            SeriesSelection::find(reader, story, part, keys).await?;
        let found: Vec<Range<usize>> = series.into_iter().map(|run| runs.rows(run)).collect();
        debug_assert!(found.is_sorted_by(|a, b| a.end <= b.start), "the runs of series overlap");
        debug_assert!(
            found.last().is_none_or(|last| last.end as u64 <= part.rows),
            "a run lies behind its row group"
        );
        if rows_of(&found) * SHARE > part.rows as usize {
            return Ok(None);
        }
        let wanted = &reader.request().ticks;
        if found.is_empty() || wanted.covers(&part.hull) {
            return Ok(Some(Self { ranges: found }));
        }
        let columns = story.columns(part.number, &[Source::Tick], &found).await?;
        reader.request().metrics.story.read(0, columns.read_bytes());
        let mut ranges = Vec::new();
        for rows in found {
            within(columns.chunks(0), &rows, wanted, &mut ranges)?;
        }
        Ok(Some(Self { ranges }))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        rows_of(&self.ranges)
    }

    /// Reads the columns that the request needs.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn events(
        &self,
        reader: &PieceReader,
        story: &Arc<Story>,
        part: &Part,
    ) -> Result<PartEvents> {
        debug_assert!(self.rows() > 0, "a read without rows");
        let sources = reader.sources(&part.hull)?;
        let columns = story.columns(part.number, &sources, &self.ranges).await?;
        reader.request().metrics.story.read(self.rows() as u64, columns.read_bytes());
        let arrays = (0..sources.len()).map(|at| -> Result<ArrayRef> {
            let mut slices = Vec::new();
            for range in &self.ranges {
                slices.extend(columns.slices(at, range.clone())?);
            }
            if let [one] = slices.as_slice() {
                return Ok(Arc::clone(one));
            }
            let slices: Vec<&dyn Array> = slices.iter().map(AsRef::as_ref).collect();
            Ok(concat(&slices)?)
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let fields = arrays.iter().map(|array| Field::new("", array.data_type().clone(), true));
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows()));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
        reader.events(&batch, &part.hull)
    }
}

fn rows_of(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

/// Appends the rows of one run that have wanted ticks.
fn within(
    ticks: &[(u32, ArrayRef)],
    rows: &Range<usize>,
    wanted: &TickRanges,
    ranges: &mut Vec<Range<usize>>,
) -> Result<()> {
    for range in wanted.as_slice() {
        let start = edge::bisect(ticks, rows, range.start.0)?;
        let end = edge::bisect(ticks, rows, range.end.0)?;
        debug_assert!(rows.start <= start && end <= rows.end, "{start}..{end} outside of {rows:?}");
        if start < end {
            ranges.push(start..end);
        }
    }
    Ok(())
}
