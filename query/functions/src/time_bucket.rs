//! `time_bucket`: the start of the aligned window that contains a time (F87: temporal aggregation).
//!
//! ```text
//!            origin        +width      +2·width
//!   ──┬────────┼────────────┼────────────┼──────▶ time
//!     │        [ bucket 0   )[ bucket 1  )
//!     └ windows before the origin have the same width
//! ```
//!
//! By default, windows of days and shorter units are aligned to Monday 2000-01-03, and windows of
//! months to 2000-01-01, both at midnight UTC. An origin or an offset changes the alignment.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, PrimitiveArray},
    datatypes::{
        ArrowPrimitiveType, DataType, Date32Type, FieldRef, Int16Type, Int32Type, Int64Type,
        IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    },
};
use datafusion::{
    common::{Result, ScalarValue, plan_err},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
        Volatility,
        interval_arithmetic::Interval,
        preimage::PreimageResult,
        simplify::SimplifyContext,
        sort_properties::{ExprProperties, SortProperties},
    },
};
use stratalog_model::{Error, ErrorKind};

use crate::{failed, function::sql_name};

mod window;

pub use window::{Window, Windows};

/// The width in nanoseconds of the windows of `time_bucket(width, time [, third])`, where `time`
/// has the type `times`. `None` for months, for integers, and for invalid arguments.
pub fn width_ns(width: &ScalarValue, third: Option<&ScalarValue>, times: &DataType) -> Option<i64> {
    let windows = windows_of(Some(width.clone()), third.cloned(), third.is_some(), times);
    windows.ok().flatten()?.width_ns()
}

/// The SQL function `time_bucket(width, time [, origin or offset])`.
#[derive(Debug)]
pub struct TimeBucket {
    signature: Signature,
}

impl Default for TimeBucket {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl PartialEq for TimeBucket {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for TimeBucket {}

impl Hash for TimeBucket {
    fn hash<H: Hasher>(&self, state: &mut H) {
        "time_bucket".hash(state);
    }
}

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

fn is_text(given: &DataType) -> bool {
    matches!(given, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null)
}

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &str {
        "time_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match given.get(1) {
            Some(time) => Ok(time.clone()),
            None => plan_err!("time_bucket needs a width and a time"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields.get(1) {
            Some(time) => {
                let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
                Ok(Arc::new(arrow::datatypes::Field::new(
                    self.name(),
                    time.data_type().clone(),
                    nullable,
                )))
            }
            None => plan_err!("time_bucket needs a width and a time"),
        }
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let unfit = || {
            plan_err!(
                "function time_bucket({}) does not exist; there is time_bucket(width interval, time timestamp | timestamptz | date [, origin | offset interval]) and time_bucket(width integer, value integer [, offset integer])",
                given.iter().map(sql_name).collect::<Vec<_>>().join(", ")
            )
        };
        let (Some(width), Some(time), true) = (given.first(), given.get(1), given.len() <= 3)
        else {
            return unfit();
        };
        if width.is_integer() && time.is_integer() {
            return match given.get(2) {
                Some(offset) if !(offset.is_integer() || offset.is_null()) => unfit(),
                _ => {
                    let wide = matches!(time, DataType::Int16 | DataType::Int32 | DataType::Int64);
                    let time = if wide { time.clone() } else { DataType::Int64 };
                    Ok(vec![time; given.len()])
                }
            };
        }
        if !(is_text(width) || matches!(width, DataType::Interval(_))) {
            return unfit();
        }
        let time = match time {
            DataType::Timestamp(_, _) | DataType::Date32 => time.clone(),
            text if is_text(text) => {
                DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC")))
            }
            _ => return unfit(),
        };
        let third = match given.get(2) {
            None => None,
            Some(DataType::Interval(_)) => Some(INTERVAL),
            Some(DataType::Timestamp(_, _) | DataType::Date32) => Some(time.clone()),
            // The value of a text argument decides whether the argument is an origin or an offset.
            Some(text) if is_text(text) => Some(DataType::Utf8),
            Some(_) => return unfit(),
        };
        let width = if is_text(width) { DataType::Utf8 } else { INTERVAL };
        Ok([Some(width), Some(time), third].into_iter().flatten().collect())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (Some(width), Some(time)) = (args.args.first(), args.args.get(1)) else {
            return plan_err!("time_bucket needs a width and a time");
        };
        let third = args.args.get(2);
        let result_type = args.return_field.data_type();
        let constant = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        if !constant(width) || third.is_some_and(|third| !constant(third)) {
            return varying(&args);
        }
        let scalar = |value: &ColumnarValue| match value {
            ColumnarValue::Scalar(scalar) => Some(scalar.clone()),
            ColumnarValue::Array(_) => None,
        };
        let Some(windows) =
            windows_of(scalar(width), third.and_then(scalar), third.is_some(), result_type)?
        else {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(result_type)?));
        };
        match time {
            ColumnarValue::Scalar(scalar) => {
                let result = bucket_array(&scalar.to_array()?, &windows)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
            }
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(bucket_array(array, &windows)?)),
        }
    }

    /// Declares that buckets ascend with the times. DataFusion can therefore group sorted events in
    /// a streaming way.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let constant = |at: usize| {
            inputs.get(at).is_none_or(|input| input.sort_properties == SortProperties::Singleton)
        };
        match inputs.get(1) {
            Some(time) if constant(0) && constant(2) => Ok(time.sort_properties),
            _ => Ok(SortProperties::Unordered),
        }
    }

    /// Rewrites `time_bucket(w, t) = b` to `b <= t AND t < b + w` if `b` is the start of a window.
    /// A scan can then skip data outside of the bucket.
    fn preimage(
        &self,
        args: &[Expr],
        literal: &Expr,
        _: &SimplifyContext,
    ) -> Result<PreimageResult> {
        let (Some(Expr::Literal(width, _)), Some(time), Expr::Literal(bucket, _)) =
            (args.first(), args.get(1), literal)
        else {
            return Ok(PreimageResult::None);
        };
        let third = match args.get(2) {
            None => None,
            Some(Expr::Literal(third, _)) => Some(third.clone()),
            Some(_) => return Ok(PreimageResult::None),
        };
        let given = args.len() > 2;
        let data_type = bucket.data_type();
        let Some(windows) = windows_of(Some(width.clone()), third, given, &data_type)? else {
            return Ok(PreimageResult::None);
        };
        let Some(start) = raw(bucket) else { return Ok(PreimageResult::None) };
        let (Ok(aligned), Some(end)) = (windows.start(start), windows.end(start)) else {
            return Ok(PreimageResult::None);
        };
        if aligned != start {
            return Ok(PreimageResult::None);
        }
        let Some(end) = of_raw(end, &data_type) else { return Ok(PreimageResult::None) };
        Ok(PreimageResult::Range {
            expr: time.clone(),
            interval: Box::new(Interval::try_new(bucket.clone(), end)?),
        })
    }
}

/// The stored integer of a constant: of an integer, or of a time in the unit of its type. `None`
/// for NULL and for other types.
fn raw(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampSecond(value, _)
        | ScalarValue::TimestampMillisecond(value, _)
        | ScalarValue::TimestampMicrosecond(value, _)
        | ScalarValue::TimestampNanosecond(value, _)
        | ScalarValue::Int64(value) => *value,
        ScalarValue::Date32(value) | ScalarValue::Int32(value) => value.map(i64::from),
        ScalarValue::Int16(value) => value.map(i64::from),
        _ => None,
    }
}

fn of_raw(value: i64, data_type: &DataType) -> Option<ScalarValue> {
    Some(match data_type {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            ScalarValue::TimestampSecond(Some(value), zone.clone())
        }
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            ScalarValue::TimestampMillisecond(Some(value), zone.clone())
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            ScalarValue::TimestampMicrosecond(Some(value), zone.clone())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            ScalarValue::TimestampNanosecond(Some(value), zone.clone())
        }
        DataType::Int64 => ScalarValue::Int64(Some(value)),
        DataType::Int32 => ScalarValue::Int32(Some(i32::try_from(value).ok()?)),
        DataType::Int16 => ScalarValue::Int16(Some(i16::try_from(value).ok()?)),
        DataType::Date32 => ScalarValue::Date32(Some(i32::try_from(value).ok()?)),
        _ => return None,
    })
}

/// The number of nanoseconds in one unit of a time type; `None` for integers.
fn unit_ns(data_type: &DataType) -> Option<i64> {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => Some(1_000_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => Some(1_000_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(1),
        DataType::Date32 => Some(86_400_000_000_000),
        _ => None,
    }
}

/// The windows for the given arguments of `time_bucket`; `None` if an argument is NULL.
fn windows_of(
    width: Option<ScalarValue>,
    third: Option<ScalarValue>,
    third_given: bool,
    time: &DataType,
) -> Result<Option<Windows>> {
    let Some(width) = width.filter(|width| !width.is_null()) else { return Ok(None) };
    if third_given && third.as_ref().is_none_or(ScalarValue::is_null) {
        return Ok(None);
    }
    let Some(unit_ns) = unit_ns(time) else {
        let offset = third.as_ref().and_then(raw).unwrap_or(0);
        return match raw(&width) {
            Some(width) => Windows::of_integers(width, offset).map(Some).map_err(failed),
            None => plan_err!("time_bucket over integers needs an integer width"),
        };
    };
    let width = interval_of(&width)?;
    let windows = Windows::new(width, unit_ns).map_err(failed)?;
    let windows = match &third {
        None => Ok(windows),
        Some(ScalarValue::IntervalMonthDayNano(Some(offset))) => windows.with_offset(*offset),
        Some(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text))) => {
            match text.cast_interval() {
                Ok(offset) => windows.with_offset(offset),
                Err(_) => match ScalarValue::Utf8(Some(text.clone())).cast_to(time) {
                    Ok(origin) => windows.with_origin(raw(&origin).unwrap_or(0)),
                    Err(_) => Err(Error::new(
                        ErrorKind::InvalidParameterValue,
                        format!("the third argument of time_bucket, '{text}', is neither an interval nor a timestamp"),
                    )
                    .with_hint("time zones in time_bucket are not yet supported")),
                },
            }
        }
        Some(origin) => windows.with_origin(raw(origin).unwrap_or(0)),
    };
    windows.map(Some).map_err(failed)
}

trait CastInterval {
    fn cast_interval(&self) -> Result<IntervalMonthDayNano>;
}

impl CastInterval for String {
    fn cast_interval(&self) -> Result<IntervalMonthDayNano> {
        interval_of(&ScalarValue::Utf8(Some(self.clone())))
    }
}

fn interval_of(value: &ScalarValue) -> Result<IntervalMonthDayNano> {
    match value {
        ScalarValue::IntervalMonthDayNano(Some(interval)) => Ok(*interval),
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            match crate::literal::parse(text, &stratalog_model::ColumnType::Interval)? {
                ScalarValue::IntervalMonthDayNano(Some(interval)) => Ok(interval),
                other => plan_err!("'{other}' is not an interval"),
            }
        }
        other => plan_err!("the width of time_bucket is {}, not an interval", other.data_type()),
    }
}

/// Computes buckets row by row, for the rare case that the width or the third argument is not
/// constant.
fn varying(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let arrays = args
        .args
        .iter()
        .map(|value| value.to_array(args.number_rows))
        .collect::<Result<Vec<_>>>()?;
    let result_type = args.return_field.data_type();
    let mut values = Vec::with_capacity(args.number_rows);
    for row in 0..args.number_rows {
        let at = |argument: usize| {
            arrays.get(argument).map(|array| ScalarValue::try_from_array(array, row)).transpose()
        };
        let windows = windows_of(at(0)?, at(2)?, arrays.len() > 2, result_type)?;
        let bucket = match (windows, at(1)?.as_ref().and_then(raw)) {
            (Some(windows), Some(time)) => {
                of_raw(windows.start(time).map_err(failed)?, result_type)
            }
            _ => None,
        };
        values.push(match bucket {
            Some(bucket) => bucket,
            None => ScalarValue::try_new_null(result_type)?,
        });
    }
    if values.is_empty() {
        return Ok(ColumnarValue::Array(arrow::array::new_empty_array(result_type)));
    }
    Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?))
}

fn bucket_array(array: &ArrayRef, windows: &Windows) -> Result<ArrayRef> {
    fn each<T>(array: &ArrayRef, windows: &Windows) -> Result<ArrayRef>
    where
        T: ArrowPrimitiveType<Native = i64>,
    {
        let times: &PrimitiveArray<T> = array.as_primitive();
        let buckets: PrimitiveArray<T> = match windows.in_whole_units() {
            // NULL rows contain arbitrary numbers. Wrapping arithmetic never fails for these
            // numbers.
            Some(fast) if fast.covers(times.values()) => times.unary(|time| fast.start(time)),
            _ => times.try_unary(|time| windows.start(time)).map_err(failed)?,
        };
        Ok(Arc::new(buckets.with_data_type(array.data_type().clone())))
    }
    fn narrow<T>(array: &ArrayRef, windows: &Windows) -> Result<ArrayRef>
    where
        T: ArrowPrimitiveType,
        T::Native: Into<i64> + TryFrom<i64>,
    {
        let values: &PrimitiveArray<T> = array.as_primitive();
        let buckets: PrimitiveArray<T> = values
            .try_unary(|value| {
                let start = windows.start(value.into())?;
                T::Native::try_from(start).map_err(|_| window::overflow())
            })
            .map_err(failed)?;
        Ok(Arc::new(buckets))
    }
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => each::<TimestampSecondType>(array, windows),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            each::<TimestampMillisecondType>(array, windows)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            each::<TimestampMicrosecondType>(array, windows)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            each::<TimestampNanosecondType>(array, windows)
        }
        DataType::Int64 => each::<Int64Type>(array, windows),
        DataType::Int32 => narrow::<Int32Type>(array, windows),
        DataType::Int16 => narrow::<Int16Type>(array, windows),
        DataType::Date32 => narrow::<Date32Type>(array, windows),
        DataType::Null => Ok(Arc::new(Int64Array::new_null(array.len()))),
        other => plan_err!("time_bucket does not support {other}"),
    }
}
