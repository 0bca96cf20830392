//! Sums, averages and variances of floats, in PostgreSQL's steps.

use std::collections::VecDeque;

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

use crate::errors::to_datafusion;

/// Values that are added up anew for each row, at most.
const NARROW: usize = 128;

/// What is asked of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sum,
    Average,
    /// The variance, or its root, of all values or of a sample.
    Spread {
        root: bool,
        sample: bool,
    },
}

impl Kind {
    pub(super) fn of(name: &str) -> Option<Self> {
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

/// Some values: their number, their sum and the sum of the squares of their distances from
/// the average.
#[derive(Debug, Default, Clone, Copy)]
struct Part {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Part {
    /// These values and one more, by the method of Youngs and Cramer.
    fn and(self, value: f64) -> Self {
        if self.count == 0.0 {
            let squares = if value.is_finite() { 0.0 } else { f64::NAN };
            return Self { count: 1.0, sum: value, squares };
        }
        let (count, sum) = (self.count + 1.0, self.sum + value);
        let distance = value * count - sum;
        let squares = self.squares + distance * distance / (count * self.count);
        Self { count, sum, squares }
    }

    /// These values and those after them.
    fn with(self, other: Self) -> Self {
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

    fn result(self, kind: Kind) -> Option<f64> {
        match kind {
            _ if self.count == 0.0 => None,
            Kind::Sum => Some(self.sum),
            Kind::Average => Some(self.sum / self.count),
            Kind::Spread { root, sample } => {
                let count = if sample { self.count - 1.0 } else { self.count };
                let variance = (count > 0.0).then(|| self.squares / count);
                if root { variance.map(f64::sqrt) } else { variance }
            }
        }
    }
}

/// The values of the window that are not NULL.
#[derive(Debug)]
pub(super) struct Floats {
    kind: Kind,
    result: DataType,
    values: VecDeque<f64>,
    /// For each of the first values: it and those after it, up to where `newest` begins.
    oldest: VecDeque<Part>,
    /// The values after those, `newest_count` of them.
    newest: Part,
    newest_count: usize,
}

impl Floats {
    pub(super) fn new(kind: Kind, result: DataType) -> Self {
        Self {
            kind,
            result,
            values: VecDeque::new(),
            oldest: VecDeque::new(),
            newest: Part::default(),
            newest_count: 0,
        }
    }

    fn add(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let values = floats(arrays)?;
        self.values.extend(values.as_primitive::<Float64Type>().iter().flatten());
        Ok(())
    }

    /// Lets the values on the right take the place of those on the left.
    fn turn(&mut self) {
        self.newest = Part::default();
        self.newest_count = 0;
        self.oldest.clear();
        let mut part = Part::default();
        for value in self.values.iter().rev() {
            part = Part::default().and(*value).with(part);
            self.oldest.push_front(part);
        }
    }

    fn part(&mut self) -> Part {
        if self.values.len() <= NARROW {
            return self.values.iter().fold(Part::default(), |part, value| part.and(*value));
        }
        let known = self.oldest.len() + self.newest_count;
        for value in self.values.range(known.min(self.values.len())..) {
            self.newest = self.newest.and(*value);
            self.newest_count += 1;
        }
        match self.oldest.front() {
            Some(oldest) => oldest.with(self.newest),
            None => self.newest,
        }
    }
}

fn floats(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let array =
        arrays.first().ok_or_else(|| to_datafusion(Error::internal("a sum needs an argument")))?;
    Ok(cast(array, &DataType::Float64)?)
}

impl Accumulator for Floats {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.add(arrays)
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let values = floats(arrays)?;
        for _ in 0..values.len() - values.null_count() {
            // A window that stays narrow needs no partial results.
            if self.oldest.is_empty() && self.values.len() > NARROW {
                self.turn();
            } else if self.oldest.is_empty() {
                self.newest = Part::default();
                self.newest_count = 0;
            }
            self.values.pop_front();
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
        let result = self.part().result(self.kind);
        ScalarValue::Float64(result).cast_to(&self.result)
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.values.capacity() * size_of::<f64>()
            + self.oldest.capacity() * size_of::<Part>()
    }
}
