//! Any aggregate over a window whose start moves, from partial results of its own.

use std::collections::VecDeque;

use arrow::array::ArrayRef;
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::Accumulator,
};
use stratalog_model::Error;

use super::Maker;
use crate::errors::to_datafusion;

/// Rows that are aggregated anew for each row, at most.
const NARROW: usize = 16;

/// The partial result of some rows; of none, nothing.
type Part = Vec<ScalarValue>;

/// The rows of the window.
#[derive(Debug)]
pub(super) struct Parts {
    maker: Maker,
    rows: VecDeque<Vec<ScalarValue>>,
    /// For each of the first rows: it and those after it, up to where `newest` begins.
    oldest: VecDeque<Part>,
    /// The rows after those, `newest_count` of them.
    newest: Part,
    newest_count: usize,
}

impl Parts {
    pub(super) fn new(maker: Maker) -> Result<Self> {
        // What cannot be made is found out at once.
        maker.make()?;
        Ok(Self {
            maker,
            rows: VecDeque::new(),
            oldest: VecDeque::new(),
            newest: Vec::new(),
            newest_count: 0,
        })
    }

    /// Lets the rows on the right take the place of those on the left.
    fn turn(&mut self) -> Result<()> {
        self.newest = Vec::new();
        self.newest_count = 0;
        self.oldest.clear();
        let mut part = Vec::new();
        for row in self.rows.iter().rev() {
            let mut accumulator = self.maker.make()?;
            accumulator.update_batch(&arrays(row)?)?;
            merge(accumulator.as_mut(), &part)?;
            part = accumulator.state()?;
            self.oldest.push_front(part.clone());
        }
        Ok(())
    }

    fn aggregated(&mut self) -> Result<Box<dyn Accumulator>> {
        let mut accumulator = self.maker.make()?;
        if self.rows.len() <= NARROW {
            for row in &self.rows {
                accumulator.update_batch(&arrays(row)?)?;
            }
            return Ok(accumulator);
        }
        let known = (self.oldest.len() + self.newest_count).min(self.rows.len());
        if known < self.rows.len() {
            let mut newest = self.maker.make()?;
            merge(newest.as_mut(), &self.newest)?;
            for row in self.rows.range(known..) {
                newest.update_batch(&arrays(row)?)?;
                self.newest_count += 1;
            }
            self.newest = newest.state()?;
        }
        if let Some(oldest) = self.oldest.front() {
            merge(accumulator.as_mut(), oldest)?;
        }
        merge(accumulator.as_mut(), &self.newest)?;
        Ok(accumulator)
    }
}

fn arrays(values: &[ScalarValue]) -> Result<Vec<ArrayRef>> {
    values.iter().map(ScalarValue::to_array).collect()
}

fn merge(accumulator: &mut dyn Accumulator, part: &Part) -> Result<()> {
    if part.is_empty() { Ok(()) } else { accumulator.merge_batch(&arrays(part)?) }
}

impl Accumulator for Parts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for row in 0..values.first().map_or(0, |array| array.len()) {
            let row = values.iter().map(|array| ScalarValue::try_from_array(array, row));
            self.rows.push_back(row.collect::<Result<_>>()?);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for _ in 0..values.first().map_or(0, |array| array.len()) {
            // A window that stays narrow needs no partial results.
            if self.oldest.is_empty() && self.rows.len() > NARROW {
                self.turn()?;
            } else if self.oldest.is_empty() {
                self.newest = Vec::new();
                self.newest_count = 0;
            }
            self.rows.pop_front();
            self.oldest.pop_front();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(to_datafusion(Error::internal("a window has no partial results")))
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(to_datafusion(Error::internal("a window has no partial results")))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.aggregated()?.evaluate()
    }

    fn size(&self) -> usize {
        let row =
            |values: &Vec<ScalarValue>| -> usize { values.iter().map(ScalarValue::size).sum() };
        size_of_val(self)
            + self.rows.iter().map(row).sum::<usize>()
            + self.oldest.iter().map(row).sum::<usize>()
    }
}
