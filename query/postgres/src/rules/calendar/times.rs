//! PostgreSQL's operators between times, dates and intervals, where DataFusion differs: a date plus
//! an interval is a timestamp, intervals compare by length, and the difference of two timestamps is
//! expressed in days and time.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray},
    compute::cast,
    datatypes::{DataType, Int64Type, IntervalMonthDayNano, IntervalUnit, TimeUnit},
};
use datafusion::{
    common::{DFSchema, Result, ScalarValue},
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility, cast as cast_expr,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};
use stratalog_model::{Error, ErrorKind};

use super::lengths::length;
use crate::errors::to_datafusion;

const DAY_NS: i64 = 86_400_000_000_000;
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const LOCAL: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Plans the operators between times, dates and intervals.
#[derive(Debug)]
pub struct TimeOperators {
    length: Arc<ScalarUDF>,
}

impl Default for TimeOperators {
    fn default() -> Self {
        Self { length: length() }
    }
}

impl ExprPlanner for TimeOperators {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use DataType as T;
        let types = (expr.left.get_type(schema), expr.right.get_type(schema));
        let (Ok(mut left), Ok(mut right)) = types else {
            return Ok(PlannerResult::Original(expr));
        };
        // A parameter without a type has the type NULL in the planner, but is not a NULL.
        let is_null =
            |operand: &Expr| matches!(operand, Expr::Literal(value, _) if value.is_null());
        if is_null(&expr.right)
            && let Some(known) = type_of_null(&right, &left, &expr.op, true)
        {
            expr.right = null_of(&known)?;
            right = known;
        } else if is_null(&expr.left)
            && let Some(known) = type_of_null(&left, &right, &expr.op, false)
        {
            expr.left = null_of(&known)?;
            left = known;
        }
        // Next to a date or a timestamp, a time of day becomes the interval since midnight.
        match (&left, &expr.op, &right) {
            (
                T::Timestamp(_, _) | T::Date32,
                BinaryOperator::Plus | BinaryOperator::Minus,
                T::Time64(_),
            ) => {
                expr.right = cast_expr(expr.right, INTERVAL);
                right = INTERVAL;
            }
            (T::Time64(_), BinaryOperator::Plus, T::Timestamp(_, _) | T::Date32) => {
                expr.left = cast_expr(expr.left, INTERVAL);
                left = INTERVAL;
            }
            _ => {}
        }
        let binary = |left: Expr, op, right: Expr| {
            let planned = BinaryExpr::new(Box::new(left), op, Box::new(right));
            Ok(PlannerResult::Planned(Expr::BinaryExpr(planned)))
        };
        match (&left, &expr.op, &right) {
            (T::Date32, BinaryOperator::Plus, T::Interval(_)) => {
                binary(cast_expr(expr.left, LOCAL), Operator::Plus, expr.right)
            }
            (T::Interval(_), BinaryOperator::Plus, T::Date32) => {
                binary(cast_expr(expr.right, LOCAL), Operator::Plus, expr.left)
            }
            (T::Date32, BinaryOperator::Minus, T::Interval(_)) => {
                binary(cast_expr(expr.left, LOCAL), Operator::Minus, expr.right)
            }
            (T::Timestamp(_, _), BinaryOperator::Plus, T::Utf8 | T::Utf8View)
                if is_constant(&expr.right) =>
            {
                let interval = cast_expr(expr.right, INTERVAL);
                binary(precise(expr.left, &left), Operator::Plus, interval)
            }
            (T::Timestamp(_, _) | T::Date32, BinaryOperator::Minus, T::Utf8 | T::Utf8View)
                if is_constant(&expr.right) =>
            {
                Ok(PlannerResult::Planned(match left {
                    T::Date32 => {
                        let right = Box::new(cast_expr(expr.right, left));
                        let difference =
                            BinaryExpr::new(Box::new(expr.left), Operator::Minus, right);
                        days(Expr::BinaryExpr(difference))
                    }
                    left => {
                        let wanted = in_microseconds(&left).unwrap_or(left);
                        times_apart().call(vec![expr.left, cast_expr(expr.right, wanted)])
                    }
                }))
            }
            (T::Time64(_), BinaryOperator::Minus, T::Utf8 | T::Utf8View)
                if is_constant(&expr.right) =>
            {
                binary(expr.left, Operator::Minus, cast_expr(expr.right, left))
            }
            (T::Utf8 | T::Utf8View, BinaryOperator::Minus, T::Time64(_))
                if is_constant(&expr.left) =>
            {
                binary(cast_expr(expr.left, right), Operator::Minus, expr.right)
            }
            (T::Date32, BinaryOperator::Minus, T::Date32) => {
                let difference =
                    BinaryExpr::new(Box::new(expr.left), Operator::Minus, Box::new(expr.right));
                Ok(PlannerResult::Planned(days(Expr::BinaryExpr(difference))))
            }
            (T::Timestamp(_, _), BinaryOperator::Minus, T::Timestamp(_, _) | T::Date32)
            | (T::Date32, BinaryOperator::Minus, T::Timestamp(_, _)) => {
                let earlier = in_comparison_type(expr.right, &right, &left);
                let later = in_comparison_type(expr.left, &left, &right);
                Ok(PlannerResult::Planned(times_apart().call(vec![later, earlier])))
            }
            (
                T::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _),
                op @ (BinaryOperator::Plus | BinaryOperator::Minus),
                T::Interval(_),
            ) => {
                let op = match op {
                    BinaryOperator::Plus => Operator::Plus,
                    _ => Operator::Minus,
                };
                binary(precise(expr.left, &left), op, expr.right)
            }
            (T::Interval(_), BinaryOperator::Plus, T::Timestamp(_, _)) => {
                binary(precise(expr.right, &right), Operator::Plus, expr.left)
            }
            (T::Interval(_) | T::Duration(_), op, T::Interval(_) | T::Duration(_)) => {
                match comparison(op) {
                    Some(op) => binary(
                        self.length.call(vec![expr.left]),
                        op,
                        self.length.call(vec![expr.right]),
                    ),
                    None => Ok(PlannerResult::Original(expr)),
                }
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}

/// The type that an untyped NULL gets as the operand of an operator whose other operand is a time
/// or an interval; `None` if the type stays open.
fn type_of_null(
    given: &DataType,
    other: &DataType,
    op: &BinaryOperator,
    is_right: bool,
) -> Option<DataType> {
    use BinaryOperator as Op;
    use DataType as T;
    if !given.is_null() {
        return None;
    }
    match (other, op) {
        (T::Timestamp(_, _) | T::Time64(_), Op::Plus) => Some(INTERVAL),
        (T::Timestamp(_, _) | T::Time64(_) | T::Date32, Op::Minus) => Some(other.clone()),
        (T::Interval(_) | T::Duration(_), Op::Plus | Op::Minus) => Some(INTERVAL),
        (T::Interval(_) | T::Duration(_), Op::Multiply) => Some(T::Float64),
        (T::Interval(_) | T::Duration(_), Op::Divide) if is_right => Some(T::Float64),
        _ => None,
    }
}

fn null_of(data_type: &DataType) -> Result<Expr> {
    Ok(Expr::Literal(ScalarValue::try_new_null(data_type)?, None))
}

/// The same timestamp type with microseconds, for a timestamp with seconds or milliseconds; `None`
/// for other types.
fn in_microseconds(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
            Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        _ => None,
    }
}

/// Casts a time to microseconds, if it is coarser, so that the addition of an interval is exact.
fn precise(expr: Expr, data_type: &DataType) -> Expr {
    match in_microseconds(data_type) {
        Some(wide) => cast_expr(expr, wide),
        None => expr,
    }
}

/// Converts an operand in a subtraction of times. A date becomes midnight of the day. If the other
/// operand is a `timestamptz`, a time without a zone becomes a time in the session's zone.
fn in_comparison_type(expr: Expr, data_type: &DataType, other: &DataType) -> Expr {
    let (expr, unit) = match data_type {
        DataType::Date32 => (cast_expr(expr, LOCAL), TimeUnit::Microsecond),
        DataType::Timestamp(unit, None) => (expr, *unit),
        _ => return expr,
    };
    match other {
        DataType::Timestamp(_, zone @ Some(_)) => {
            cast_expr(expr, DataType::Timestamp(unit, zone.clone()))
        }
        _ => expr,
    }
}

/// Casts the difference of two dates to a number of days.
fn days(difference: Expr) -> Expr {
    cast_expr(difference, DataType::Int32)
}

/// Whether `expr` is a literal. Like in PostgreSQL, its type depends on the other operand.
fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(_, _))
}

/// The planner's operator for a comparison operator of the parser; `None` for other operators.
pub(super) fn comparison(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
}

/// The function that subtracts two timestamps.
fn times_apart() -> Arc<ScalarUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(TimeDifference { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeDifference {
    signature: Signature,
}

impl ScalarUDFImpl for TimeDifference {
    fn name(&self) -> &str {
        "timestamp_minus"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [later, earlier] = arrays.as_slice() else {
            return Err(to_datafusion(Error::internal("timestamp_minus needs two arguments")));
        };
        let apart = time_differences(later, earlier)?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&apart, 0)?),
            false => ColumnarValue::Array(apart),
        })
    }
}

/// The difference of each pair of timestamps, in days and time.
fn time_differences(later: &ArrayRef, earlier: &ArrayRef) -> Result<ArrayRef> {
    let counts = |times: &ArrayRef| -> Result<(Int64Array, i128)> {
        let unit_ns = match times.data_type() {
            DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
            DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
            DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
            DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Null => 1,
            _ => return Err(to_datafusion(Error::internal("timestamps are subtracted"))),
        };
        Ok((cast(times, &DataType::Int64)?.as_primitive::<Int64Type>().clone(), unit_ns))
    };
    let ((later, later_ns), (earlier, earlier_ns)) = (counts(later)?, counts(earlier)?);
    let intervals = later.iter().zip(&earlier).map(|(later, earlier)| {
        let (Some(later), Some(earlier)) = (later, earlier) else { return Ok(None) };
        let apart_ns = i128::from(later) * later_ns - i128::from(earlier) * earlier_ns;
        let day_ns = i128::from(DAY_NS);
        let days = i32::try_from(apart_ns / day_ns).map_err(|_| out_of_range())?;
        let rest_ns = i64::try_from(apart_ns % day_ns).map_err(|_| out_of_range())?;
        Ok(Some(IntervalMonthDayNano::new(0, days, rest_ns)))
    });
    Ok(Arc::new(intervals.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

/// The function that converts a difference of times to an interval.
pub fn as_interval() -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(TimeToInterval { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeToInterval {
    signature: Signature,
}

impl ScalarUDFImpl for TimeToInterval {
    fn name(&self) -> &str {
        "as_interval"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.first() {
            Some(ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(days_and_time(array)?)),
            Some(ColumnarValue::Scalar(value)) => {
                let interval = days_and_time(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&interval, 0)?))
            }
            None => Err(to_datafusion(Error::internal("as_interval needs an argument"))),
        }
    }
}

/// Converts differences of timestamps to PostgreSQL's form, intervals of days and time.
///
/// # Errors
/// Fails if an interval cannot hold the number of days.
pub fn days_and_time(durations: &ArrayRef) -> Result<ArrayRef> {
    let per_day = match durations.data_type() {
        DataType::Duration(TimeUnit::Second) => 86_400,
        DataType::Duration(TimeUnit::Millisecond) => 86_400_000,
        DataType::Duration(TimeUnit::Microsecond) => 86_400_000_000,
        _ => DAY_NS,
    };
    let counts = cast(durations, &DataType::Int64)?;
    let intervals: IntervalMonthDayNanoArray =
        counts.as_primitive::<Int64Type>().try_unary(|count| {
            let days = i32::try_from(count / per_day).map_err(|_| out_of_range())?;
            Ok::<_, datafusion::error::DataFusionError>(IntervalMonthDayNano::new(
                0,
                days,
                count % per_day * (DAY_NS / per_day),
            ))
        })?;
    Ok(Arc::new(intervals))
}

fn out_of_range() -> datafusion::error::DataFusionError {
    to_datafusion(Error::new(ErrorKind::DatetimeOverflow, "interval out of range"))
}
