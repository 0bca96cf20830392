//! Aggregates of pairs of floats, `corr`, `covar_*` and `regr_*`, by PostgreSQL's algorithm (Youngs
//! and Cramer). The results agree with PostgreSQL's in the last digits, also for infinite and NaN
//! values and for equal values.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array},
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Float64Type},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};
use stratalog_model::{Error, ErrorKind};

use crate::{
    errors::to_datafusion,
    rules::layers::{self, AggregateLayer},
};

/// Wraps an aggregate of pairs of floats to use PostgreSQL's algorithm. Other functions stay
/// unchanged.
pub fn in_steps(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match Statistic::of(function.name()) {
        Some(statistic) => layers::aggregate(function, Pairs { statistic }),
        None => function,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Statistic {
    Correlation,
    Covariance { sample: bool },
    Slope,
    Intercept,
    Determination,
    AverageX,
    AverageY,
    SquaresX,
    SquaresY,
    Products,
}

impl Statistic {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "corr" => Self::Correlation,
            "covar_samp" => Self::Covariance { sample: true },
            "covar_pop" => Self::Covariance { sample: false },
            "regr_slope" => Self::Slope,
            "regr_intercept" => Self::Intercept,
            "regr_r2" => Self::Determination,
            "regr_avgx" => Self::AverageX,
            "regr_avgy" => Self::AverageY,
            "regr_sxx" => Self::SquaresX,
            "regr_syy" => Self::SquaresY,
            "regr_sxy" => Self::Products,
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pairs {
    statistic: Statistic,
}

/// The names of the columns of a partial result, in the order of [`Moments::columns`].
const STATE: [&str; 6] = ["count", "sum_x", "squares_x", "sum_y", "squares_y", "products"];

impl AggregateLayer for Pairs {
    fn state_fields(
        &self,
        inner: &AggregateUDF,
        arguments: StateFieldsArgs<'_>,
    ) -> Result<Vec<FieldRef>> {
        if arguments.is_distinct {
            return inner.state_fields(arguments);
        }
        let names = STATE.iter().map(|name| format_state_name(arguments.name, name));
        Ok(names.map(|name| Arc::new(Field::new(name, DataType::Float64, true))).collect())
    }

    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match arguments.is_distinct {
            true => inner.accumulator(arguments),
            false => Ok(Box::new(PairsAccumulator {
                statistic: self.statistic,
                moments: Moments::default(),
            })),
        }
    }

    fn groups_accumulator_supported(&self, _: &AggregateUDF, _: AccumulatorArgs<'_>) -> bool {
        false
    }
}

/// PostgreSQL's state for a set of pairs: their number, their sums, and the sums of squares and
/// products of the differences from the mean.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: f64,
    sum_x: f64,
    squares_x: f64,
    sum_y: f64,
    squares_y: f64,
    products: f64,
}

fn overflow() -> datafusion::error::DataFusionError {
    to_datafusion(Error::new(ErrorKind::NumericOutOfRange, "value out of range: overflow"))
}

impl Moments {
    fn columns(self) -> [f64; 6] {
        [self.count, self.sum_x, self.squares_x, self.sum_y, self.squares_y, self.products]
    }

    fn and(self, y: f64, x: f64) -> Result<Self> {
        let count = self.count + 1.0;
        let (sum_x, sum_y) = (self.sum_x + x, self.sum_y + y);
        let mut next = Self { count, sum_x, sum_y, ..self };
        if self.count > 0.0 {
            let (from_x, from_y) = (x * count - sum_x, y * count - sum_y);
            let scale = 1.0 / (count * self.count);
            next.squares_x += from_x * from_x * scale;
            next.squares_y += from_y * from_y * scale;
            next.products += from_x * from_y * scale;
            let finite_x = !self.sum_x.is_infinite() && !x.is_infinite();
            let finite_y = !self.sum_y.is_infinite() && !y.is_infinite();
            let over_x = sum_x.is_infinite() || next.squares_x.is_infinite();
            let over_y = sum_y.is_infinite() || next.squares_y.is_infinite();
            let over = next.products.is_infinite();
            if over_x && finite_x || over_y && finite_y || over && finite_x && finite_y {
                return Err(overflow());
            }
            for sum in [&mut next.squares_x, &mut next.squares_y, &mut next.products] {
                if sum.is_infinite() {
                    *sum = f64::NAN;
                }
            }
        } else {
            if !x.is_finite() {
                (next.squares_x, next.products) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (next.squares_y, next.products) = (f64::NAN, f64::NAN);
            }
        }
        Ok(next)
    }

    fn with(self, other: Self) -> Result<Self> {
        if self.count == 0.0 {
            return Ok(other);
        }
        if other.count == 0.0 {
            return Ok(self);
        }
        let count = self.count + other.count;
        let apart_x = self.sum_x / self.count - other.sum_x / other.count;
        let apart_y = self.sum_y / self.count - other.sum_y / other.count;
        let weight = self.count * other.count;
        let joined = Self {
            count,
            sum_x: self.sum_x + other.sum_x,
            squares_x: self.squares_x + other.squares_x + weight * apart_x * apart_x / count,
            sum_y: self.sum_y + other.sum_y,
            squares_y: self.squares_y + other.squares_y + weight * apart_y * apart_y / count,
            products: self.products + other.products + weight * apart_x * apart_y / count,
        };
        let finite = |moments: Self| moments.columns().iter().all(|value| !value.is_infinite());
        match finite(joined) || !finite(self) || !finite(other) {
            true => Ok(joined),
            false => Err(overflow()),
        }
    }

    /// The value of the statistic; `None` means NULL.
    fn result(self, statistic: Statistic) -> Option<f64> {
        let Self { count, sum_x, squares_x, sum_y, squares_y, products } = self;
        let least = if statistic == (Statistic::Covariance { sample: true }) { 2.0 } else { 1.0 };
        if count < least {
            return None;
        }
        Some(match statistic {
            Statistic::Correlation if squares_x == 0.0 || squares_y == 0.0 => return None,
            Statistic::Correlation => products / (squares_x * squares_y).sqrt(),
            Statistic::Covariance { sample: true } => products / (count - 1.0),
            Statistic::Covariance { sample: false } => products / count,
            Statistic::Slope | Statistic::Intercept | Statistic::Determination
                if squares_x == 0.0 =>
            {
                return None;
            }
            Statistic::Slope => products / squares_x,
            Statistic::Intercept => (sum_y - sum_x * products / squares_x) / count,
            Statistic::Determination if squares_y == 0.0 => 1.0,
            Statistic::Determination => products * products / (squares_x * squares_y),
            Statistic::AverageX => sum_x / count,
            Statistic::AverageY => sum_y / count,
            Statistic::SquaresX => squares_x,
            Statistic::SquaresY => squares_y,
            Statistic::Products => products,
        })
    }
}

fn doubles(arrays: &[ArrayRef], at: usize) -> Result<Float64Array> {
    let array = arrays
        .get(at)
        .ok_or_else(|| to_datafusion(Error::internal("an aggregate of pairs needs two columns")))?;
    Ok(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// Computes the statistic of a group.
#[derive(Debug)]
struct PairsAccumulator {
    statistic: Statistic,
    moments: Moments,
}

impl Accumulator for PairsAccumulator {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        for pair in doubles(arrays, 0)?.iter().zip(doubles(arrays, 1)?.iter()) {
            if let (Some(y), Some(x)) = pair {
                self.moments = self.moments.and(y, x)?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.moments.columns().map(|value| ScalarValue::Float64(Some(value))).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let columns = (0..STATE.len()).map(|at| doubles(states, at)).collect::<Result<Vec<_>>>()?;
        let rows = columns.first().map_or(0, Array::len);
        for row in 0..rows {
            let mut values = [0.0; STATE.len()];
            for (value, column) in values.iter_mut().zip(&columns) {
                *value = column.value(row);
            }
            let [count, sum_x, squares_x, sum_y, squares_y, products] = values;
            let other = Moments { count, sum_x, squares_x, sum_y, squares_y, products };
            self.moments = self.moments.with(other)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.moments.result(self.statistic)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
