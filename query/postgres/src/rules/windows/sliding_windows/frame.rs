//! The rows of a sliding window, and the partial results of these rows.

use std::{collections::VecDeque, fmt::Debug};

use datafusion::common::Result;
use stratalog_model::Error;

use crate::errors::to_datafusion;

/// Defines how rows are combined into partial results.
pub(super) trait Fold: Debug {
    /// The stored form of a row.
    type Row: Debug;
    /// The partial result of some rows. The default value is the partial result of no rows.
    type Part: Debug + Default;

    /// Maximum number of rows in a narrow window, whose rows are aggregated again for each result.
    const NARROW: usize;

    /// Adds rows after the rows of a partial result.
    fn and<'a>(
        &self,
        part: &Self::Part,
        rows: impl Iterator<Item = &'a Self::Row>,
    ) -> Result<Self::Part>
    where
        Self::Row: 'a;

    /// Adds a row before the rows of a partial result.
    fn before(&self, row: &Self::Row, part: &Self::Part) -> Result<Self::Part>;
}

/// The rows of a sliding window. Rows enter on the right side, and leave on the left side.
#[derive(Debug)]
pub(super) struct Frame<F: Fold> {
    pub(super) fold: F,
    rows: VecDeque<F::Row>,
    /// For each row on the left side, the partial result from this row to the last row before
    /// `newest`.
    oldest: VecDeque<F::Part>,
    /// The partial result of the next `newest_count` rows.
    newest: F::Part,
    newest_count: usize,
}

impl<F: Fold> Frame<F> {
    pub(super) fn new(fold: F) -> Self {
        let (rows, oldest) = (VecDeque::new(), VecDeque::new());
        Self { fold, rows, oldest, newest: F::Part::default(), newest_count: 0 }
    }

    /// Adds rows on the right side.
    pub(super) fn extend(&mut self, rows: impl IntoIterator<Item = F::Row>) {
        self.rows.extend(rows);
    }

    /// Removes the number `rows` of rows on the left side.
    pub(super) fn leave(&mut self, rows: usize) -> Result<()> {
        for _ in 0..rows {
            // A window that always stays narrow needs no partial results.
            if self.oldest.is_empty() && self.rows.len() > F::NARROW {
                self.turn()?;
            } else if self.oldest.is_empty() {
                self.newest = F::Part::default();
                self.newest_count = 0;
            }
            self.rows.pop_front();
            self.oldest.pop_front();
        }
        Ok(())
    }

    /// Moves all rows to the left side: computes a partial result for each row, and empties
    /// `newest`.
    fn turn(&mut self) -> Result<()> {
        self.newest = F::Part::default();
        self.newest_count = 0;
        self.oldest.clear();
        for row in self.rows.iter().rev() {
            let part = match self.oldest.front() {
                Some(part) => self.fold.before(row, part)?,
                None => self.fold.before(row, &F::Part::default())?,
            };
            self.oldest.push_front(part);
        }
        Ok(())
    }

    /// The rows of a narrow window; `None` for a wide window.
    pub(super) fn narrow(&self) -> Option<&VecDeque<F::Row>> {
        (self.rows.len() <= F::NARROW).then_some(&self.rows)
    }

    /// The partial results of the left side, if it has rows, and of the right side.
    pub(super) fn parts(&mut self) -> Result<(Option<&F::Part>, &F::Part)> {
        let known = (self.oldest.len() + self.newest_count).min(self.rows.len());
        if known < self.rows.len() {
            self.newest = self.fold.and(&self.newest, self.rows.range(known..))?;
            self.newest_count += self.rows.len() - known;
        }
        Ok((self.oldest.front(), &self.newest))
    }

    /// The memory size in bytes of all rows and partial results, given functions for the size of
    /// one.
    pub(super) fn size(
        &self,
        of_row: impl Fn(&F::Row) -> usize,
        of_part: impl Fn(&F::Part) -> usize,
    ) -> usize {
        self.rows.iter().map(of_row).sum::<usize>() + self.oldest.iter().map(of_part).sum::<usize>()
    }
}

/// The error for a request of a partial result of the whole window: a plan never splits a window
/// over several aggregations.
pub(super) fn no_partial_results<T>() -> Result<T> {
    Err(to_datafusion(Error::internal("a window has no partial results")))
}
