//! The shortest or the longest interval of a group or of a sliding window.

use std::collections::VecDeque;

use arrow::{
    array::{ArrayRef, AsArray},
    datatypes::{IntervalMonthDayNano, IntervalMonthDayNanoType},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::Accumulator,
};

use super::{null, totals::first_array};
use crate::rules::calendar::lengths;

/// Finds the least or greatest interval with a queue of candidates: intervals that are still in the
/// window and that no later interval beats. Among intervals of equal length, the last one wins,
/// like in PostgreSQL.
#[derive(Debug)]
pub(super) struct IntervalExtreme {
    largest: bool,
    /// The candidates: the number of the interval in input order, and the interval.
    candidates: VecDeque<(u64, IntervalMonthDayNano)>,
    added: u64,
    dropped: u64,
    /// Whether intervals can leave the window. If not, the queue keeps a single candidate.
    moves: bool,
}

impl IntervalExtreme {
    pub(super) fn new(largest: bool) -> Self {
        Self { largest, candidates: VecDeque::new(), added: 0, dropped: 0, moves: false }
    }

    /// An accumulator for sliding windows.
    pub(super) fn moving(largest: bool) -> Self {
        Self { moves: true, ..Self::new(largest) }
    }

    fn beats(&self, new: IntervalMonthDayNano, old: IntervalMonthDayNano) -> bool {
        let (new, old) = (lengths::length_of(new), lengths::length_of(old));
        if self.largest { new >= old } else { new <= old }
    }

    fn add(&mut self, array: &ArrayRef) -> Result<()> {
        let intervals = lengths::as_intervals(array)?;
        for interval in intervals.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            while let Some((_, last)) = self.candidates.back()
                && self.beats(interval, *last)
            {
                self.candidates.pop_back();
            }
            if self.moves || self.candidates.is_empty() {
                self.candidates.push_back((self.added, interval));
            }
            self.added += 1;
        }
        Ok(())
    }

    fn value(&self) -> ScalarValue {
        match self.candidates.front() {
            Some((_, interval)) => ScalarValue::IntervalMonthDayNano(Some(*interval)),
            None => null(),
        }
    }
}

impl Accumulator for IntervalExtreme {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.add(first_array(arrays)?)
    }

    fn merge_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.add(first_array(arrays)?)
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let array = first_array(arrays)?;
        self.dropped += (array.len() - array.null_count()) as u64;
        while let Some((number, _)) = self.candidates.front()
            && *number < self.dropped
        {
            self.candidates.pop_front();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.moves
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.candidates.capacity() * size_of::<(u64, IntervalMonthDayNano)>()
    }
}
