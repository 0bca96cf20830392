//! The sum or the average of the intervals of a group or of a sliding window. Like in PostgreSQL,
//! months, days and times of day are added separately.

use std::collections::HashMap;

use arrow::{
    array::{ArrayRef, AsArray},
    datatypes::{DataType, Decimal128Type, IntervalMonthDayNano, IntervalMonthDayNanoType},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::Accumulator,
};
use stratalog_model::{Error, ErrorKind};

use super::{INTERVAL, null};
use crate::{
    errors::to_datafusion,
    rules::calendar::{interval::divided, lengths},
};

const PART: DataType = DataType::Decimal128(38, 0);

/// The columns of a partial result: months, days, nanoseconds and the number of rows. The type is
/// wide enough for any number of rows.
pub(super) const STATE: [DataType; 4] = [PART, PART, PART, PART];

/// The first of the arrays; an error if no array is given.
pub(super) fn first_array(arrays: &[ArrayRef]) -> Result<&ArrayRef> {
    arrays.first().ok_or_else(|| to_datafusion(Error::internal("an aggregate needs an argument")))
}

#[derive(Debug, Default)]
struct IntervalSum {
    months: i128,
    days: i128,
    nanoseconds: i128,
    rows: i128,
}

impl IntervalSum {
    fn add(&mut self, interval: IntervalMonthDayNano, times: i128) {
        self.months += times * i128::from(interval.months);
        self.days += times * i128::from(interval.days);
        self.nanoseconds += times * i128::from(interval.nanoseconds);
        self.rows += times;
    }

    fn result(&self, averages: bool) -> Result<ScalarValue> {
        if self.rows == 0 {
            return Ok(null());
        }
        let sum = || {
            Some(IntervalMonthDayNano {
                months: i32::try_from(self.months).ok()?,
                days: i32::try_from(self.days).ok()?,
                nanoseconds: i64::try_from(self.nanoseconds).ok()?,
            })
        };
        #[expect(clippy::cast_precision_loss, reason = "rows are fewer than 2^53")]
        let rows = self.rows as f64;
        let value = match averages {
            false => sum(),
            true => sum().and_then(|sum| divided(sum, rows)),
        };
        match value {
            Some(value) => Ok(ScalarValue::IntervalMonthDayNano(Some(value))),
            None => {
                Err(to_datafusion(Error::new(ErrorKind::DatetimeOverflow, "interval out of range")))
            }
        }
    }
}

/// Computes the sum, or the average, of all intervals of a group.
#[derive(Debug)]
pub(super) struct IntervalTotal {
    averages: bool,
    sum: IntervalSum,
}

impl IntervalTotal {
    pub(super) fn new(averages: bool) -> Self {
        Self { averages, sum: IntervalSum::default() }
    }

    fn add(&mut self, arrays: &[ArrayRef], times: i128) -> Result<()> {
        let intervals = lengths::as_intervals(first_array(arrays)?)?;
        for interval in intervals.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            self.sum.add(interval, times);
        }
        Ok(())
    }
}

impl Accumulator for IntervalTotal {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.add(arrays, 1)
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.add(arrays, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let IntervalSum { months, days, nanoseconds, rows } = self.sum;
        Ok([months, days, nanoseconds, rows]
            .map(|part| ScalarValue::Decimal128(Some(part), 38, 0))
            .to_vec())
    }

    fn merge_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let parts = [
            &mut self.sum.months,
            &mut self.sum.days,
            &mut self.sum.nanoseconds,
            &mut self.sum.rows,
        ];
        for (part, array) in parts.into_iter().zip(arrays) {
            *part += array.as_primitive::<Decimal128Type>().iter().flatten().sum::<i128>();
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.sum.result(self.averages)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Computes the sum, or the average, of the distinct intervals of a group. Of all intervals with the
/// same length, only the first counts.
#[derive(Debug)]
pub(super) struct DistinctIntervalSum {
    averages: bool,
    intervals: HashMap<i128, IntervalMonthDayNano, ahash::RandomState>,
}

impl DistinctIntervalSum {
    pub(super) fn new(averages: bool) -> Self {
        Self { averages, intervals: HashMap::default() }
    }

    fn add(&mut self, array: &ArrayRef) -> Result<()> {
        let intervals = lengths::as_intervals(array)?;
        for interval in intervals.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            let length = lengths::length_of(interval);
            self.intervals.entry(length).or_insert(interval);
        }
        Ok(())
    }
}

impl Accumulator for DistinctIntervalSum {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.add(first_array(arrays)?)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let intervals: Vec<ScalarValue> = self
            .intervals
            .values()
            .map(|interval| ScalarValue::IntervalMonthDayNano(Some(*interval)))
            .collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&intervals, &INTERVAL))])
    }

    fn merge_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        for intervals in first_array(arrays)?.as_list::<i32>().iter().flatten() {
            self.add(&intervals)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = IntervalSum::default();
        for interval in self.intervals.values() {
            sum.add(*interval, 1);
        }
        sum.result(self.averages)
    }

    fn size(&self) -> usize {
        let entry = size_of::<(i128, IntervalMonthDayNano)>();
        size_of_val(self) + self.intervals.capacity() * entry
    }
}
