//! The rows of a window, and partial results of the rows.

use std::{collections::VecDeque, fmt::Debug};

use datafusion::common::Result;
use stratalog_model::Error;

use crate::errors::to_datafusion;

/// How to combine rows into partial results.
pub(super) trait Fold: Debug {
    /// The stored form of a row.
    type Row: Debug;
    /// The partial result of some rows; the default is the result of no rows.
    type Part: Debug + Default;

    /// Maximum number of rows that are aggregated anew for each result.
    const NARROW: usize;

    /// Adds rows after a part.
    fn and<'a>(
        &self,
        part: &Self::Part,
        rows: impl Iterator<Item = &'a Self::Row>,
    ) -> Result<Self::Part>
    where
        Self::Row: 'a;

    /// Adds a row before a part.
    fn before(&self, row: &Self::Row, part: &Self::Part) -> Result<Self::Part>;
}

/// The rows of a window. Rows enter on the right, and leave on the left.
#[derive(Debug)]
pub(super) struct Frame<F: Fold> {
    pub(super) fold: F,
    rows: VecDeque<F::Row>,
    /// For each of the first rows: the result from this row up to the start of `newest`.
    oldest: VecDeque<F::Part>,
    /// The result of the following `newest_count` rows.
    newest: F::Part,
    newest_count: usize,
}

impl<F: Fold> Frame<F> {
    pub(super) fn new(fold: F) -> Self {
        let (rows, oldest) = (VecDeque::new(), VecDeque::new());
        Self { fold, rows, oldest, newest: F::Part::default(), newest_count: 0 }
    }

    /// Adds rows on the right.
    pub(super) fn extend(&mut self, rows: impl IntoIterator<Item = F::Row>) {
        self.rows.extend(rows);
    }

    /// Removes rows on the left.
    pub(super) fn leave(&mut self, rows: usize) -> Result<()> {
        for _ in 0..rows {
            // A permanently narrow window needs no partial results.
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

    /// Turns all rows into rows on the left: a partial result for each row, and an empty `newest`.
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

    /// The two parts of the window.
    pub(super) fn parts(&mut self) -> Result<(Option<&F::Part>, &F::Part)> {
        let known = (self.oldest.len() + self.newest_count).min(self.rows.len());
        if known < self.rows.len() {
            self.newest = self.fold.and(&self.newest, self.rows.range(known..))?;
            self.newest_count += self.rows.len() - known;
        }
        Ok((self.oldest.front(), &self.newest))
    }

    /// Bytes of all rows and parts, from the bytes of each row and of each part.
    pub(super) fn size(
        &self,
        of_row: impl Fn(&F::Row) -> usize,
        of_part: impl Fn(&F::Part) -> usize,
    ) -> usize {
        self.rows.iter().map(of_row).sum::<usize>() + self.oldest.iter().map(of_part).sum::<usize>()
    }
}

/// The error for a request of partial results: a plan never aggregates a window in parts.
pub(super) fn no_partial_results<T>() -> Result<T> {
    Err(to_datafusion(Error::internal("a window has no partial results")))
}
