//! Adds `interval * number`, `number * interval` and `interval / number`, which DataFusion does not
//! support.

use std::sync::Arc;

use arrow::{
    array::{AsArray, IntervalMonthDayNanoArray},
    compute::cast,
    datatypes::{
        DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
        IntervalUnit,
    },
};
use datafusion::{
    common::{DFSchema, Result},
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility,
        expr::ScalarFunction,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};
use stratalog_model::{Error, ErrorKind};

use super::{lengths::length, times::comparison};
use crate::errors::to_datafusion;

const DAY_SECONDS: f64 = 86_400.0;
const DAYS_OF_MONTH: f64 = 30.0;
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Plans multiplication and division of intervals.
#[derive(Debug)]
pub struct IntervalOperators {
    multiply: Arc<ScalarUDF>,
    divide: Arc<ScalarUDF>,
}

impl Default for IntervalOperators {
    fn default() -> Self {
        let function = |divides| Arc::new(ScalarUDF::new_from_impl(IntervalScale::new(divides)));
        Self { multiply: function(false), divide: function(true) }
    }
}

impl ExprPlanner for IntervalOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if let Some(op) = comparison(&expr.op) {
            return Ok(time_of_day_comparison(expr, op, schema));
        }
        if !matches!(expr.op, BinaryOperator::Multiply | BinaryOperator::Divide) {
            return Ok(PlannerResult::Original(expr));
        }
        let types = (expr.left.get_type(schema), expr.right.get_type(schema));
        let (Ok(left), Ok(right)) = types else { return Ok(PlannerResult::Original(expr)) };
        let number = |data_type: &DataType| data_type.is_numeric();
        let interval = |data_type: &DataType| matches!(data_type, DataType::Interval(_));
        let call = |function: &Arc<ScalarUDF>, interval: Expr, number: Expr| {
            let function = Arc::clone(function);
            Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(
                function,
                vec![interval, number],
            ))))
        };
        match expr.op {
            BinaryOperator::Multiply if interval(&left) && number(&right) => {
                call(&self.multiply, expr.left, expr.right)
            }
            BinaryOperator::Multiply if number(&left) && interval(&right) => {
                call(&self.multiply, expr.right, expr.left)
            }
            BinaryOperator::Divide if interval(&left) && number(&right) => {
                call(&self.divide, expr.left, expr.right)
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}

/// Rewrites a comparison of a time of day with an interval: the time becomes the interval since
/// midnight.
fn time_of_day_comparison(
    expr: RawBinaryExpr,
    op: Operator,
    schema: &DFSchema,
) -> PlannerResult<RawBinaryExpr> {
    let types = (expr.left.get_type(schema), expr.right.get_type(schema));
    match types {
        (Ok(DataType::Time64(_)), Ok(DataType::Interval(_)))
        | (Ok(DataType::Interval(_)), Ok(DataType::Time64(_))) => {
            let length = length();
            let (left, right) = (length.call(vec![expr.left]), length.call(vec![expr.right]));
            PlannerResult::Planned(Expr::BinaryExpr(BinaryExpr::new(
                Box::new(left),
                op,
                Box::new(right),
            )))
        }
        _ => PlannerResult::Original(expr),
    }
}

/// A function that multiplies or divides an interval by a number.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalScale {
    divides: bool,
    signature: Signature,
}

impl IntervalScale {
    fn new(divides: bool) -> Self {
        Self { divides, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for IntervalScale {
    fn name(&self) -> &str {
        if self.divides { "interval_divide" } else { "interval_multiply" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [intervals, numbers] = arrays.as_slice() else {
            return Err(to_datafusion(Error::internal("interval arithmetic needs two arguments")));
        };
        let intervals = cast(intervals, &INTERVAL)?;
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        let exact = !self.divides && numbers.data_type().is_integer();
        let scaled: Result<IntervalMonthDayNanoArray> = if exact {
            let numbers = cast(numbers, &DataType::Int64)?;
            intervals
                .iter()
                .zip(numbers.as_primitive::<Int64Type>())
                .map(|pair| match pair {
                    (Some(interval), Some(number)) => {
                        times(interval, number).map(Some).ok_or_else(out_of_range)
                    }
                    _ => Ok(None),
                })
                .collect()
        } else {
            let numbers = cast(numbers, &DataType::Float64)?;
            intervals
                .iter()
                .zip(numbers.as_primitive::<Float64Type>())
                .map(|pair| match pair {
                    (Some(_), Some(0.0)) if self.divides => Err(to_datafusion(Error::new(
                        ErrorKind::DivisionByZero,
                        "division by zero",
                    ))),
                    (Some(interval), Some(number)) => {
                        let scaled = if self.divides {
                            divided(interval, number)
                        } else {
                            multiplied(interval, number)
                        };
                        scaled.map(Some).ok_or_else(out_of_range)
                    }
                    _ => Ok(None),
                })
                .collect()
        };
        let scaled = scaled?;
        if arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_))) {
            let value = datafusion::scalar::ScalarValue::try_from_array(&scaled, 0)?;
            return Ok(ColumnarValue::Scalar(value));
        }
        Ok(ColumnarValue::Array(Arc::new(scaled)))
    }
}

fn out_of_range() -> datafusion::error::DataFusionError {
    to_datafusion(Error::new(ErrorKind::DatetimeOverflow, "interval out of range"))
}

fn times(interval: IntervalMonthDayNano, number: i64) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano {
        months: i32::try_from(i64::from(interval.months).checked_mul(number)?).ok()?,
        days: i32::try_from(i64::from(interval.days).checked_mul(number)?).ok()?,
        nanoseconds: interval.nanoseconds.checked_mul(number)?,
    })
}

/// The interval multiplied by a number; `None` if the result is out of range.
fn multiplied(interval: IntervalMonthDayNano, number: f64) -> Option<IntervalMonthDayNano> {
    scaled(interval, |part| part * number)
}

/// The interval divided by a number other than zero; `None` if the result is out of range.
pub fn divided(interval: IntervalMonthDayNano, number: f64) -> Option<IntervalMonthDayNano> {
    scaled(interval, |part| part / number)
}

/// Scales an interval like PostgreSQL: a fraction of a month becomes days, a fraction of a day
/// becomes a time of day, and both are rounded to microseconds.
fn scaled(
    interval: IntervalMonthDayNano,
    scale: impl Fn(f64) -> f64,
) -> Option<IntervalMonthDayNano> {
    let to_micros = |seconds: f64| (seconds * 1e6).round_ties_even() / 1e6;
    let months = scale(f64::from(interval.months));
    let days = scale(f64::from(interval.days));
    let days_of_month = to_micros(months.fract() * DAYS_OF_MONTH);
    let seconds = to_micros((days.fract() + days_of_month.fract()) * DAY_SECONDS);
    let more_days = (seconds / DAY_SECONDS).trunc();
    let seconds = seconds - more_days * DAY_SECONDS;
    #[expect(clippy::cast_precision_loss, reason = "floating-point factors are inexact anyway")]
    let nanoseconds = scale(interval.nanoseconds as f64) + seconds * 1e9;
    Some(IntervalMonthDayNano {
        months: whole(months.trunc()).and_then(|months| i32::try_from(months).ok())?,
        days: whole(days.trunc() + days_of_month.trunc() + more_days)
            .and_then(|days| i32::try_from(days).ok())?,
        nanoseconds: whole(rounded(nanoseconds, interval.nanoseconds))?,
    })
}

/// Rounds nanoseconds to microseconds, the finest unit of PostgreSQL's clients. An interval that
/// was already finer (`before`) is not rounded.
fn rounded(nanoseconds: f64, before: i64) -> f64 {
    match before % 1_000 {
        0 => (nanoseconds / 1e3).round_ties_even() * 1e3,
        _ => nanoseconds.round_ties_even(),
    }
}

fn whole(value: f64) -> Option<i64> {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
    fits.then_some(value as i64)
}

#[cfg(test)]
mod tests;
