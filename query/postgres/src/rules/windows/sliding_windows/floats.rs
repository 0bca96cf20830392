//! Sums, averages and variances of floats over sliding windows, by PostgreSQL's algorithm.

use arrow::{
    array::{ArrayRef, AsArray},
    compute::cast,
    datatypes::{DataType, Float64Type},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::Accumulator,
};
use stratalog_model::Error;

use super::frame::{Fold, Frame, no_partial_results};
use crate::errors::to_datafusion;

/// The aggregate that is computed from the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FloatAggregate {
    Sum,
    Average,
    /// The variance or the standard deviation, of all values or of a sample.
    Spread {
        root: bool,
        sample: bool,
    },
}

impl FloatAggregate {
    /// The aggregate with the name `name`; `None` for other functions.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "sum" => Self::Sum,
            "avg" => Self::Average,
            "var" => Self::Spread { root: false, sample: true },
            "var_pop" => Self::Spread { root: false, sample: false },
            "stddev" => Self::Spread { root: true, sample: true },
            "stddev_pop" => Self::Spread { root: true, sample: false },
            _ => return None,
        })
    }
}

/// Statistics of a set of values: their number, their sum, and the sum of the squares of their
/// differences from the mean.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FloatMoments {
    pub(crate) count: f64,
    pub(crate) sum: f64,
    pub(crate) squares: f64,
}

impl FloatMoments {
    /// Adds a value by the method of Youngs and Cramer.
    pub(crate) fn and(self, value: f64) -> Self {
        if self.count == 0.0 {
            let squares = if value.is_finite() { 0.0 } else { f64::NAN };
            return Self { count: 1.0, sum: value, squares };
        }
        let (count, sum) = (self.count + 1.0, self.sum + value);
        let distance = value * count - sum;
        let squares = self.squares + distance * distance / (count * self.count);
        Self { count, sum, squares }
    }

    /// Combines the statistics with the statistics of later values.
    pub(crate) fn with(self, other: Self) -> Self {
        if self.count == 0.0 {
            return other;
        }
        if other.count == 0.0 {
            return self;
        }
        let (count, sum) = (self.count + other.count, self.sum + other.sum);
        let distance = self.sum / self.count - other.sum / other.count;
        let squares =
            self.squares + other.squares + self.count * other.count * distance * distance / count;
        Self { count, sum, squares }
    }

    /// The result of the aggregate; `None` means NULL.
    pub(crate) fn result(self, kind: FloatAggregate) -> Option<f64> {
        match kind {
            _ if self.count == 0.0 => None,
            FloatAggregate::Sum => Some(self.sum),
            FloatAggregate::Average => Some(self.sum / self.count),
            FloatAggregate::Spread { root, sample } => {
                let count = if sample { self.count - 1.0 } else { self.count };
                let variance = (count > 0.0).then(|| self.squares / count);
                if root { variance.map(f64::sqrt) } else { variance }
            }
        }
    }
}

/// Adds the values of rows to statistics.
#[derive(Debug)]
struct FloatFold;

impl Fold for FloatFold {
    type Row = f64;
    type Part = FloatMoments;

    const NARROW: usize = 128;

    fn and<'a>(
        &self,
        part: &FloatMoments,
        values: impl Iterator<Item = &'a f64>,
    ) -> Result<FloatMoments> {
        Ok(values.fold(*part, |part, value| part.and(*value)))
    }

    fn before(&self, value: &f64, part: &FloatMoments) -> Result<FloatMoments> {
        Ok(FloatMoments::default().and(*value).with(*part))
    }
}

/// The non-NULL values of a window.
#[derive(Debug)]
pub(super) struct Floats {
    kind: FloatAggregate,
    result: DataType,
    frame: Frame<FloatFold>,
}

impl Floats {
    pub(super) fn new(kind: FloatAggregate, result: DataType) -> Self {
        Self { kind, result, frame: Frame::new(FloatFold) }
    }

    fn part(&mut self) -> Result<FloatMoments> {
        if let Some(values) = self.frame.narrow() {
            return FloatFold.and(&FloatMoments::default(), values.iter());
        }
        let (oldest, newest) = self.frame.parts()?;
        Ok(oldest.map_or(*newest, |oldest| oldest.with(*newest)))
    }
}

fn floats(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let array =
        arrays.first().ok_or_else(|| to_datafusion(Error::internal("a sum needs an argument")))?;
    Ok(cast(array, &DataType::Float64)?)
}

impl Accumulator for Floats {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let values = floats(arrays)?;
        self.frame.extend(values.as_primitive::<Float64Type>().iter().flatten());
        Ok(())
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let values = floats(arrays)?;
        self.frame.leave(values.len() - values.null_count())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        no_partial_results()
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        no_partial_results()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = self.part()?.result(self.kind);
        ScalarValue::Float64(result).cast_to(&self.result)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.frame.size(size_of_val, size_of_val)
    }
}
