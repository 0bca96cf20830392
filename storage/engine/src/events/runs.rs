//! The runs of a row group. Its rows are sorted by (key, tick): the rows of each series form a run
//! of consecutive rows.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, UInt32Array},
    compute::{partition, take},
};
use stratalog_model::{Error, Result, Tick, TickRange};
use stratalog_story::{Finding, FindingKey};

use crate::events::{column::Column, keys::KeyBytes, numberings::SeriesNumbers, shape::KeyColumns};

/// The series of a row group, and the rows of each.
#[derive(Debug, Clone)]
pub struct Runs {
    /// Encoded key of each series, ascending.
    keys: Vec<Box<[u8]>>,
    /// First row of each series; the last entry is the number of rows.
    starts: Vec<u32>,
    /// End of the rows of each series (exclusive). Empty if the rows of each series end where the
    /// next series starts.
    ends: Vec<u32>,
    series: SeriesKeys,
    cells: Option<Cells>,
}

/// The cells of a row group: which rows and ticks each cell covers. A cell is a part of a series
/// with stored aggregates; the story has the aggregates.
#[derive(Debug, Clone)]
pub struct Cells {
    /// First cell of each series; the last entry is the number of cells.
    starts: Vec<u32>,
    /// First row of each cell; the last entry is the number of rows.
    rows: Vec<u32>,
    /// Lowest and highest tick of each cell.
    ticks: Vec<(i64, i64)>,
}

impl Cells {
    /// The cells of the series at position `at`.
    pub fn of_series(&self, at: usize) -> Range<usize> {
        between(&self.starts, at)
    }

    /// The rows of a cell.
    pub fn rows(&self, cell: usize) -> Range<usize> {
        between(&self.rows, cell)
    }

    /// The tick range of a cell, which has at least a row.
    pub fn hull(&self, cell: usize) -> TickRange {
        let (first, last) = self.ticks.get(cell).copied().unwrap_or((0, -1));
        TickRange::new(Tick(first), Tick(last).next())
    }
}

/// The range from `starts[at]` to the next entry.
fn between(starts: &[u32], at: usize) -> Range<usize> {
    match (starts.get(at), starts.get(at + 1)) {
        (Some(start), Some(end)) => {
            debug_assert!(start <= end, "a range ends before its start");
            *start as usize..*end as usize
        }
        _ => 0..0,
    }
}

/// The key columns of some series.
#[derive(Debug, Clone)]
pub struct SeriesKeys {
    /// The values of each key column, in key order, with a row for each series.
    values: Vec<ArrayRef>,
    len: usize,
    /// The group numbers of the series, if computed.
    pub numbered: SeriesNumbers,
}

impl SeriesKeys {
    /// The keys of `len` series. Arrays that point into larger buffers are copied.
    pub fn new(values: Vec<ArrayRef>, len: usize) -> Self {
        debug_assert!(values.iter().all(|of| of.len() == len), "a series has no key value");
        let values = values.iter().map(compacted).collect();
        Self { values, len, numbered: SeriesNumbers::default() }
    }

    /// Number of series.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The values of each key column, with a row for each series.
    pub fn values(&self) -> &[ArrayRef] {
        &self.values
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        let values = self.values.iter().map(|values| values.get_array_memory_size());
        values.sum::<usize>() + self.len * size_of::<u32>()
    }
}

impl Finding for Runs {
    /// The cache has one entry per row group, by its number.
    type Key = u32;

    fn cache_key(group: u32) -> FindingKey {
        FindingKey::Runs { group }
    }
}

impl Runs {
    /// Computes the runs of rows that are sorted by key. `columns` are the key columns, in key
    /// order.
    ///
    /// # Errors
    /// `Internal` if the rows are not sorted.
    pub fn of(columns: &[Column], key: &KeyColumns, rows: usize) -> Result<Self> {
        debug_assert_eq!(columns.len(), key.at.len(), "a key column is missing");
        let arrays: Vec<ArrayRef> =
            columns.iter().map(|column| column.slice(0, rows)).collect::<Result<_>>()?;
        let ranges: Vec<Range<usize>> = match rows {
            0 => Vec::new(),
            _ if arrays.is_empty() => std::iter::once(0..rows).collect(),
            _ => partition(&arrays)?.ranges(),
        };
        let mut keys: Vec<Box<[u8]>> = Vec::with_capacity(ranges.len());
        let mut starts = Vec::with_capacity(ranges.len() + 1);
        let mut bytes = KeyBytes::new(key.fixed);
        for range in ranges {
            bytes.clear(key.fixed);
            for array in &arrays {
                bytes.push(array, range.start)?;
            }
            let bytes = bytes.as_bytes();
            if keys.last().is_some_and(|last| last.as_ref() >= bytes) {
                return Err(Error::internal("the rows of a story are not sorted by their key"));
            }
            keys.push(bytes.into());
            starts.push(range.start as u32);
        }
        let firsts = UInt32Array::from(starts.clone());
        debug_assert_eq!(keys.len(), starts.len());
        debug_assert!(starts.is_sorted_by(|a, b| a < b), "a series has no rows");
        debug_assert!(
            starts.last().is_none_or(|start| (*start as usize) < rows),
            "a series begins behind the last row"
        );
        let values = arrays.iter().map(|array| Ok(take(array, &firsts, None)?));
        let series = SeriesKeys::new(values.collect::<Result<_>>()?, keys.len());
        starts.push(rows as u32);
        Ok(Self { keys, starts, ends: Vec::new(), series, cells: None })
    }

    /// Computes the runs from the cells of a row group. `columns` has the key of each cell. The
    /// slices have the first tick, the last tick and the number of rows of each cell.
    ///
    /// # Errors
    /// `Internal` if the cells are not sorted.
    pub fn of_cells(
        columns: &[Column],
        key: &KeyColumns,
        (firsts, lasts, counts): (&[i64], &[i64], &[i64]),
    ) -> Result<Self> {
        let mut runs = Self::of(columns, key, counts.len())?;
        let mut rows = Vec::with_capacity(counts.len() + 1);
        let mut sum: u32 = 0;
        for count in counts {
            rows.push(sum);
            let count = u32::try_from(*count).ok();
            let next = count.and_then(|count| sum.checked_add(count));
            sum = next.ok_or_else(|| Error::internal("cells of more rows than a group has"))?;
        }
        rows.push(sum);
        let row = |cell: &u32| rows.get(*cell as usize).copied().unwrap_or(sum);
        let starts = runs.starts.iter().map(row).collect();
        let cells = std::mem::replace(&mut runs.starts, starts);
        debug_assert_eq!(runs.starts.last(), Some(&sum), "the series end before the last row");
        debug_assert_eq!(cells.len(), runs.starts.len(), "a series has no cells");
        let ticks = firsts.iter().copied().zip(lasts.iter().copied()).collect();
        runs.cells = Some(Cells { starts: cells, rows, ticks });
        Ok(runs)
    }

    /// The cells; `None` if the row group has none.
    pub fn cells(&self) -> Option<&Cells> {
        self.cells.as_ref()
    }

    /// Number of series.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys of the series, by column.
    pub fn series(&self) -> &SeriesKeys {
        &self.series
    }

    /// The key bytes of each series, ascending.
    pub fn keys(&self) -> &[Box<[u8]>] {
        &self.keys
    }

    /// Converts runs of selected rows into runs of the whole row group. `ranges` are the selected
    /// rows: ascending and disjoint, with all rows of each series. Row 0 of the runs is the first
    /// row of `ranges`.
    #[must_use]
    pub fn placed(mut self, ranges: &[Range<usize>]) -> Self {
        debug_assert!(self.ends.is_empty() && self.cells.is_none(), "the runs are placed already");
        debug_assert!(ranges.is_sorted_by(|a, b| a.end <= b.start), "the ranges overlap");
        let mut ranges = ranges.iter();
        let (mut range, mut before) = (ranges.next().cloned().unwrap_or(0..0), 0);
        let (mut starts, mut ends) = (Vec::with_capacity(self.len()), Vec::new());
        for at in 0..self.len() {
            let own = self.rows(at);
            while own.start - before >= range.len() {
                let Some(next) = ranges.next() else { break };
                before += range.len();
                range = next.clone();
            }
            let start = range.start + (own.start - before);
            debug_assert!(
                own.len() <= range.end.saturating_sub(start),
                "a series continues behind its range"
            );
            starts.push(start as u32);
            ends.push((start + own.len()) as u32);
        }
        (self.starts, self.ends) = (starts, ends);
        self
    }

    /// The row range of a series.
    pub fn rows(&self, at: usize) -> Range<usize> {
        match (self.starts.get(at), self.ends.get(at)) {
            (Some(start), Some(end)) => *start as usize..*end as usize,
            _ => between(&self.starts, at),
        }
    }

    /// Position of the series with a key; `None` if there is none.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        self.keys.binary_search_by(|own| own.as_ref().cmp(key)).ok()
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.keys.iter().map(|key| key.len() + size_of::<Box<[u8]>>()).sum::<usize>()
            + (self.starts.len() + self.ends.len()) * size_of::<u32>()
            + self.cells.as_ref().map_or(0, |cells| {
                (cells.starts.len() + cells.rows.len()) * size_of::<u32>()
                    + cells.ticks.len() * size_of::<(i64, i64)>()
            })
            + self.series.bytes()
    }
}

/// Copies an array if it points into larger buffers.
pub fn compacted(array: &ArrayRef) -> ArrayRef {
    match array.as_string_view_opt() {
        Some(text) => Arc::new(text.gc()),
        None => Arc::clone(array),
    }
}

#[cfg(test)]
mod tests;
