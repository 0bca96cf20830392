//! Reads the times, dates and intervals in an array, value by value, whatever their unit.

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray},
    datatypes::{DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit},
};
use datafusion::common::Result;

use super::part::{DAY_NS, Instant};

/// An array from whose values fields are extracted.
pub(super) enum Source {
    /// Times since 1970 or since midnight: the number of units, and the number of nanoseconds in a
    /// unit.
    Moments(Int64Array, i64),
    /// Durations: the number of units, and the number of nanoseconds in a unit.
    Lengths(Int64Array, i64),
    Intervals(IntervalMonthDayNanoArray),
}

impl Source {
    pub(super) fn of(array: &ArrayRef) -> Result<Self> {
        let numbers = |array: &ArrayRef| -> Result<Int64Array> {
            let numbers = arrow::compute::cast(array, &DataType::Int64)?;
            Ok(numbers.as_primitive::<Int64Type>().clone())
        };
        Ok(match array.data_type() {
            DataType::Interval(_) => {
                Self::Intervals(array.as_primitive::<IntervalMonthDayNanoType>().clone())
            }
            DataType::Duration(unit) => Self::Lengths(numbers(array)?, nanoseconds(*unit)),
            DataType::Timestamp(unit, _) | DataType::Time64(unit) => {
                Self::Moments(numbers(array)?, nanoseconds(*unit))
            }
            _ => {
                let days = arrow::compute::cast(array, &DataType::Date32)?;
                let days = arrow::compute::cast(&days, &DataType::Int32)?;
                Self::Moments(numbers(&days)?, DAY_NS)
            }
        })
    }

    pub(super) fn at(&self, row: usize) -> Instant {
        match self {
            Source::Moments(numbers, unit) => {
                let (number, of_day) = (numbers.value(row), DAY_NS / unit);
                Instant::Moment(number.div_euclid(of_day), number.rem_euclid(of_day) * unit)
            }
            Source::Lengths(numbers, unit) => {
                let (number, of_day) = (numbers.value(row), DAY_NS / unit);
                let days = i32::try_from(number / of_day).unwrap_or_default();
                Instant::Length(IntervalMonthDayNano::new(0, days, number % of_day * unit))
            }
            Source::Intervals(intervals) => Instant::Length(intervals.value(row)),
        }
    }
}

fn nanoseconds(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}
