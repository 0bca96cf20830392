//! Selects the rows of a row group that a query must read, by the page index.

use std::ops::Range;

use parquet::{
    arrow::arrow_reader::RowSelection,
    file::{metadata::ParquetMetaData, page_index::column_index::ColumnIndexMetaData},
};
use stratalog_model::{Result, Tick, TickRange, TickRanges};

use crate::{
    key::{KeyValues, StoredValues},
    schema::Source,
    story::{GroupHead, Story},
    values::ColumnValues,
};

/// Selected rows of a row group: whole pages that may contain wanted rows. The reader must filter
/// the rows of these pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Ascending, disjoint, not empty.
    ranges: Vec<Range<usize>>,
    /// Number of rows in the row group.
    total: usize,
}

impl Selection {
    /// All rows of a group.
    pub(crate) fn all(total: usize) -> Self {
        let whole = Some(0..total).filter(|range| !range.is_empty());
        Self { ranges: whole.into_iter().collect(), total }
    }

    /// Number of selected rows.
    pub fn rows(&self) -> usize {
        let rows: usize = self.ranges.iter().map(Range::len).sum();
        debug_assert!(rows <= self.total, "more rows are selected than the group has");
        rows
    }

    /// Whether the selection belongs to a row group with this number of rows.
    pub(crate) fn is_of(&self, head: &GroupHead) -> bool {
        self.total as u64 == head.summary.rows
    }

    /// Whether all rows of the group are selected.
    pub fn is_all(&self) -> bool {
        self.rows() == self.total
    }

    /// The selected rows, counted from 0 within the group: ascending and disjoint ranges.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// The rows that are both selected and in `ranges`, which must be ascending and disjoint.
    #[must_use]
    pub(crate) fn within(&self, ranges: impl IntoIterator<Item = Range<usize>>) -> Self {
        let mut kept: Vec<Range<usize>> = Vec::new();
        let mut own = self.ranges.iter().peekable();
        for other in ranges {
            while let Some(range) = own.peek() {
                let common = range.start.max(other.start)..range.end.min(other.end);
                if !common.is_empty() {
                    match kept.last_mut() {
                        Some(last) if last.end == common.start => last.end = common.end,
                        _ => kept.push(common),
                    }
                }
                if range.end > other.end {
                    break;
                }
                own.next();
            }
        }
        debug_assert!(kept.last().is_none_or(|last| last.end <= self.total));
        debug_assert!(kept.is_sorted_by(|a, b| a.end < b.start), "the ranges overlap or touch");
        Self { ranges: kept, total: self.total }
    }

    /// The selection in the form of Parquet's decoder; `None` if all rows are selected.
    pub(crate) fn to_parquet(&self) -> Option<RowSelection> {
        let rows = (!self.is_all()).then(|| {
            RowSelection::from_consecutive_ranges(self.ranges.iter().cloned(), self.total)
        });
        debug_assert!(
            rows.as_ref().is_none_or(|rows| rows.row_count() == self.rows()),
            "the decoder gets other rows"
        );
        rows
    }
}

impl Story {
    /// Selects the rows of a row group that may have the given ticks, keys and other values, by the
    /// group's summary and the page index. `None` if no rows can match.
    ///
    /// # Errors
    /// `Internal` for an unknown column or group, or values of a wrong type.
    pub fn select(
        &self,
        group: u32,
        ticks: &TickRanges,
        keys: &[KeyValues],
        others: &[ColumnValues],
    ) -> Result<Option<Selection>> {
        let head = self.group(group)?;
        let hull = head.summary.hull();
        if !ticks.overlaps(&hull) {
            return Ok(None);
        }
        let mut selection = Selection::all(head.summary.rows as usize);
        if !ticks.covers(&hull) {
            let leaf = self.leaf(Source::Tick)?;
            selection = self.keep(group, leaf, selection, |index, page| match index {
                ColumnIndexMetaData::INT64(index) => {
                    match (index.min_value(page), index.max_value(page)) {
                        (Some(low), Some(high)) => {
                            ticks.overlaps(&TickRange::new(Tick(*low), Tick(*high).next()))
                        }
                        _ => true,
                    }
                }
                _ => true,
            });
        }
        for key in keys {
            let leaf = self.leaf(Source::Column(key.column))?;
            let values = StoredValues::of(&key.values)?;
            selection =
                self.keep(group, leaf, selection, |index, page| values.may_be_in_page(index, page));
        }
        for other in others {
            let Some(of) = self.page_values(other.column) else { continue };
            let leaf = self.leaf(Source::Column(other.column))?;
            selection = self.keep(group, leaf, selection, |index, page| {
                other.predicate.may_be_in(&of.summary(index, page))
            });
        }
        Ok((selection.rows() > 0).then_some(selection))
    }

    /// Restricts the selection to pages whose values of one system column may lie between two
    /// bounds, both included.
    ///
    /// # Errors
    /// `Internal` for an unknown column or group.
    pub fn within_numbers(
        &self,
        group: u32,
        selection: Selection,
        (source, low, high): (Source, i64, i64),
    ) -> Result<Selection> {
        let head = self.group(group)?;
        debug_assert!(selection.is_of(head), "a selection of another group");
        let leaf = self.leaf(source)?;
        Ok(self.keep(group, leaf, selection, |index, page| match index {
            ColumnIndexMetaData::INT64(index) => {
                match (index.min_value(page), index.max_value(page)) {
                    (Some(lowest), Some(highest)) => *lowest <= high && low <= *highest,
                    _ => true,
                }
            }
            _ => true,
        }))
    }

    /// Restricts the selection to the pages of a column for which `may` returns true.
    fn keep(
        &self,
        group: u32,
        leaf: usize,
        selection: Selection,
        may: impl Fn(&ColumnIndexMetaData, usize) -> bool,
    ) -> Selection {
        let Some((index, pages)) = page_rows(self.metadata(), group, leaf, selection.total) else {
            return selection;
        };
        let kept = pages.into_iter().enumerate().filter(|(page, _)| may(index, *page));
        selection.within(kept.map(|(_, rows)| rows))
    }
}

/// The page index of a column in a row group, with the row range of each page.
pub(crate) fn page_rows(
    metadata: &ParquetMetaData,
    group: u32,
    leaf: usize,
    total: usize,
) -> Option<(&ColumnIndexMetaData, Vec<Range<usize>>)> {
    let index = metadata.column_index()?.get(group as usize)?.get(leaf)?;
    let pages = metadata.offset_index()?.get(group as usize)?.get(leaf)?.page_locations();
    let starts = pages.iter().map(|page| page.first_row_index.max(0) as usize);
    let ends = starts.clone().skip(1).chain([total]);
    Some((index, starts.zip(ends).map(|(start, end)| start..end).collect()))
}

#[cfg(test)]
mod tests;
