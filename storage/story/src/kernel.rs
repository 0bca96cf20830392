//! Computes counts, sums, minima and maxima of consecutive values, for cells and for aggregates.

use std::ops::Range;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::NullBuffer,
    datatypes::{
        DataType, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
        TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType,
    },
};
use stratalog_model::{Error, Result, aggregate::WHOLE_SUM};

/// Maximum number of values that are summed one after another. Longer sums are computed pairwise,
/// so that the rounding error grows with the logarithm of the number of values.
const PAIRED: usize = 128;

/// The values of an array, as a slice of their Arrow type.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// Doubles.
    Float64(&'a [f64]),
    /// Floats.
    Float32(&'a [f32]),
    /// Integers of 16 bits.
    Int16(&'a [i16]),
    /// Integers of 32 bits.
    Int32(&'a [i32]),
    /// Integers of 64 bits; also times, in the unit of their column.
    Int64(&'a [i64]),
    /// Sums of integers, stored in cells.
    Sums(&'a [i128]),
    /// Values of other types; only their NULLs can be counted.
    Other,
}

/// A column of values, with their NULLs.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    values: Values<'a>,
    nulls: Option<&'a NullBuffer>,
}

/// A value of a column: a float for float columns, an integer for all other columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A value of a float column.
    Float(f64),
    /// A value of an integer column.
    Integer(i64),
}

impl Number {
    /// The smaller of two numbers, or the greater if `greatest` is true. Both must be of the same
    /// kind. NaN is above all numbers.
    #[must_use]
    pub fn better(self, other: Self, greatest: bool) -> Self {
        let greater = match (self, other) {
            (Self::Float(own), Self::Float(other)) => {
                own.is_nan() && !other.is_nan() || own > other
            }
            (Self::Integer(own), Self::Integer(other)) => own > other,
            _ => true,
        };
        if greater == greatest { self } else { other }
    }
}

/// A sum of values of a column. Sums of integers are exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Total {
    /// A sum of floats.
    Float(f64),
    /// A sum of integers.
    Whole(i128),
}

impl Total {
    /// The sum of two totals, which must be of the same kind.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Float(own), Self::Float(other)) => Self::Float(own + other),
            (Self::Whole(own), Self::Whole(other)) => Self::Whole(own + other),
            (own, _) => own,
        }
    }
}

impl<'a> Column<'a> {
    /// The values and NULLs of an array.
    pub fn of(array: &'a ArrayRef) -> Self {
        let values = match array.data_type() {
            DataType::Float64 => Values::Float64(array.as_primitive::<Float64Type>().values()),
            DataType::Float32 => Values::Float32(array.as_primitive::<Float32Type>().values()),
            DataType::Int16 => Values::Int16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Values::Int32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Values::Int64(array.as_primitive::<Int64Type>().values()),
            DataType::Timestamp(unit, _) => Values::Int64(match unit {
                TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
                TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
                TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
                TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
            }),
            &WHOLE_SUM => Values::Sums(array.as_primitive::<Decimal128Type>().values()),
            _ => Values::Other,
        };
        Self { values, nulls: array.nulls().filter(|nulls| nulls.null_count() > 0) }
    }

    /// The number of values that are not NULL in a range of rows.
    pub fn count(&self, rows: Range<usize>) -> i64 {
        debug_assert!(
            self.nulls.is_none_or(|nulls| rows.end <= nulls.len()),
            "the rows end behind the column"
        );
        let nulls = self.nulls.map_or(0, |nulls| nulls.slice(rows.start, rows.len()).null_count());
        (rows.len() - nulls) as i64
    }

    /// The sum of the non-NULL values in a range of rows; `None` if all values are NULL.
    ///
    /// # Errors
    /// `Internal` for a type without a sum.
    pub fn sum(&self, rows: Range<usize>) -> Result<Option<Total>> {
        /// The total of the values that are not NULL.
        macro_rules! sum {
            ($values:expr, $total:expr) => {{
                debug_assert!(rows.end <= $values.len(), "the rows end behind the column");
                let values = $values.get(rows.clone()).unwrap_or(&[]);
                match self.nulls {
                    None => (!values.is_empty()).then(|| $total(values)),
                    Some(_) => {
                        let there = self.there(rows).filter_map(|at| values.get(at).copied());
                        let there: Vec<_> = there.collect();
                        (!there.is_empty()).then(|| $total(&there))
                    }
                }
            }};
        }
        Ok(match self.values {
            Values::Float64(values) => sum!(values, |values: &[f64]| Total::Float(paired(values))),
            Values::Int16(values) => sum!(values, whole),
            Values::Int32(values) => sum!(values, whole),
            Values::Int64(values) => sum!(values, long),
            Values::Sums(values) => {
                sum!(values, |values: &[i128]| Total::Whole(values.iter().sum()))
            }
            Values::Float32(_) | Values::Other => {
                return Err(Error::internal("a sum of values that have none"));
            }
        })
    }

    /// The minimum of the non-NULL values in a range of rows, or the maximum if `greatest` is true;
    /// `None` if all values are NULL.
    pub fn extreme(&self, rows: Range<usize>, greatest: bool) -> Option<Number> {
        /// Folds the values that are not NULL.
        macro_rules! values {
            ($values:expr, $fold:expr) => {{
                debug_assert!(rows.end <= $values.len(), "the rows end behind the column");
                let values = $values.get(rows.clone()).unwrap_or(&[]);
                match self.nulls {
                    None => $fold(&mut values.iter().copied()),
                    Some(_) => {
                        let mut there = self.there(rows).filter_map(|at| values.get(at).copied());
                        $fold(&mut there)
                    }
                }
            }};
        }
        /// The extreme of integers.
        macro_rules! integer {
            ($values:expr) => {
                values!($values, |values: &mut dyn Iterator<Item = _>| {
                    let found = if greatest { values.max() } else { values.min() };
                    found.map(|found| Number::Integer(i64::from(found)))
                })
            };
        }
        match self.values {
            Values::Float64(values) if self.nulls.is_none() => {
                float(values.get(rows)?, greatest).map(Number::Float)
            }
            Values::Float64(values) => values!(values, |values: &mut dyn Iterator<Item = f64>| {
                float(&values.collect::<Vec<_>>(), greatest).map(Number::Float)
            }),
            Values::Float32(values) => values!(values, |values: &mut dyn Iterator<Item = f32>| {
                let values: Vec<f64> = values.map(f64::from).collect();
                float(&values, greatest).map(Number::Float)
            }),
            Values::Int16(values) => integer!(values),
            Values::Int32(values) => integer!(values),
            Values::Int64(values) => integer!(values),
            Values::Sums(_) | Values::Other => None,
        }
    }

    /// The positions of the non-NULL rows, relative to the beginning of the range.
    fn there(&self, rows: Range<usize>) -> impl Iterator<Item = usize> {
        let nulls = self.nulls;
        let start = rows.start;
        rows.filter(move |row| nulls.is_none_or(|nulls| nulls.is_valid(*row)))
            .map(move |row| row - start)
    }
}

/// The pairwise sum of values.
fn paired(values: &[f64]) -> f64 {
    if values.len() <= PAIRED {
        // Four partial sums, because the processor adds four values at once.
        let (fours, rest) = values.as_chunks::<4>();
        let mut sums = [0.0; 4];
        for four in fours {
            for (sum, value) in sums.iter_mut().zip(four) {
                *sum += value;
            }
        }
        let [a, b, c, d] = sums;
        return ((a + b) + (c + d)) + rest.iter().sum::<f64>();
    }
    let (left, right) = values.split_at(values.len() / 2);
    paired(left) + paired(right)
}

/// The sum of integers of at most 32 bits; a sum over any array fits 64 bits.
fn whole<T: Copy + Into<i64>>(values: &[T]) -> Total {
    debug_assert!(u32::try_from(values.len()).is_ok(), "the sum may not fit 64 bits");
    Total::Whole(i128::from(values.iter().map(|value| (*value).into()).sum::<i64>()))
}

/// The sum of 64-bit integers. Most integers are small, so partial sums usually fit 64 bits.
fn long(values: &[i64]) -> Total {
    let mut sum = 0_i128;
    for some in values.chunks(PAIRED) {
        // The bits that differ from the sign bit, over all values: an upper bound of the absolute
        // values.
        let used = some.iter().fold(0, |used, value| used | (value ^ (value >> 63)));
        sum += match used < i64::MAX / PAIRED as i64 {
            true => i128::from(some.iter().sum::<i64>()),
            false => some.iter().copied().map(i128::from).sum(),
        };
    }
    Total::Whole(sum)
}

/// The minimum of the values, or the maximum if `greatest` is true. NaN is above all numbers.
fn float(values: &[f64], greatest: bool) -> Option<f64> {
    let (fours, rest) = values.as_chunks::<4>();
    let first = *values.first()?;
    let mut found = [first; 4];
    let mut strange = false;
    for four in fours {
        for (found, value) in found.iter_mut().zip(four) {
            strange |= value.is_nan();
            let better = if greatest { *value > *found } else { *value < *found };
            *found = if better { *value } else { *found };
        }
    }
    let mut best = first;
    for value in found.iter().chain(rest) {
        strange |= value.is_nan();
        if if greatest { *value > best } else { *value < best } {
            best = *value;
        }
    }
    debug_assert!(
        strange
            || values.iter().all(|value| if greatest { *value <= best } else { best <= *value }),
        "a value is better than the best"
    );
    Some(match (strange, greatest) {
        (false, _) => best,
        (true, true) => f64::NAN,
        (true, false) => values.iter().copied().fold(f64::NAN, f64::min),
    })
}

#[cfg(test)]
mod tests;
