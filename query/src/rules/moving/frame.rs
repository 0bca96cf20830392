//! The rows of a window, and partial results of them.

use std::{collections::VecDeque, fmt::Debug};

use datafusion::common::Result;
use stratalog_model::Error;

use crate::errors::to_datafusion;

/// How rows become partial results.
pub(super) trait Fold: Debug {
    /// What is kept of a row.
    type Row: Debug;
    /// The partial result of some rows; by default, of none.
    type Part: Debug + Default;

    /// Rows that are aggregated anew for each result, at most.
    const NARROW: usize;

    /// A part, and the rows after it.
    fn and<'a>(
        &self,
        part: &Self::Part,
        rows: impl Iterator<Item = &'a Self::Row>,
    ) -> Result<Self::Part>
    where
        Self::Row: 'a;

    /// A row, and the part after it.
    fn before(&self, row: &Self::Row, part: &Self::Part) -> Result<Self::Part>;
}

/// The rows of a window, which come on the right and leave on the left.
#[derive(Debug)]
pub(super) struct Frame<F: Fold> {
    pub(super) fold: F,
    rows: VecDeque<F::Row>,
    /// For each of the first rows: it and those after it, up to where `newest` begins.
    oldest: VecDeque<F::Part>,
    /// The rows after those, `newest_count` of them.
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

    /// Takes rows from the left.
    pub(super) fn leave(&mut self, rows: usize) -> Result<()> {
        for _ in 0..rows {
            // A window that stays narrow needs no partial results.
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

    /// Lets the rows on the right take the place of those on the left.
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

    /// The rows of a narrow window.
    pub(super) fn narrow(&self) -> Option<&VecDeque<F::Row>> {
        (self.rows.len() <= F::NARROW).then_some(&self.rows)
    }

    /// The two parts that make up the window.
    pub(super) fn parts(&mut self) -> Result<(Option<&F::Part>, &F::Part)> {
        let known = (self.oldest.len() + self.newest_count).min(self.rows.len());
        if known < self.rows.len() {
            self.newest = self.fold.and(&self.newest, self.rows.range(known..))?;
            self.newest_count += self.rows.len() - known;
        }
        Ok((self.oldest.front(), &self.newest))
    }

    /// Bytes of rows and parts, by the bytes that one of each has.
    pub(super) fn size(
        &self,
        of_row: impl Fn(&F::Row) -> usize,
        of_part: impl Fn(&F::Part) -> usize,
    ) -> usize {
        self.rows.iter().map(of_row).sum::<usize>() + self.oldest.iter().map(of_part).sum::<usize>()
    }
}

/// What an aggregate over a window says when it is asked for its state: windows are never
/// aggregated in parts of a plan.
pub(super) fn no_partial_results<T>() -> Result<T> {
    Err(to_datafusion(Error::internal("a window has no partial results")))
}
