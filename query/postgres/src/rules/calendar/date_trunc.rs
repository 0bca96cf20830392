//! `date_trunc` with all units of PostgreSQL, also for dates and intervals.

use std::{collections::BTreeSet, sync::Arc};

use arrow::{
    array::{
        ArrayRef, AsArray, BooleanArray, Int64Array, IntervalMonthDayNanoArray,
        TimestampMicrosecondArray, new_null_array,
    },
    compute::{cast, kernels::zip::zip, max, min},
    datatypes::{
        DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
        IntervalUnit, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
    },
};
use datafusion::{
    common::{Result, ScalarValue},
    error::DataFusionError,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Signature, Volatility,
    },
};
use stratalog_functions::{CalendarUnit, function::sql_name, steady_unit};
use stratalog_model::{Error, ErrorKind};
use stratalog_text::calendar::{Civil, UNIX_EPOCH_JULIAN, civil_of, days_of, per_second};

use crate::{
    errors::to_datafusion,
    rules::layers::{self, ScalarLayer},
};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAY_US: i64 = 86_400_000_000;
const HOUR_NS: i64 = 3_600_000_000_000;

/// The first day in the range of timestamps, in the year 4714 before Christ, in days since 1970.
const FIRST_DAY: i64 = -UNIX_EPOCH_JULIAN;

/// Wraps `date_trunc` to accept all units of PostgreSQL. Other functions stay unchanged.
pub fn extend(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    if function.name() != "date_trunc" {
        return function;
    }
    let signature = Signature::user_defined(Volatility::Immutable);
    layers::scalar(function, DateTrunc { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    signature: Signature,
}

/// A unit to which `date_trunc` truncates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// A unit that DataFusion's function supports, with this name.
    Common(&'static str),
    /// A number of years. Decades count from year 0, centuries and millennia from year 1.
    Years(i64),
}

fn unit_of(name: &str) -> Result<Unit> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Unit::Common("microsecond"),
        "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Unit::Common("millisecond"),
        "second" | "seconds" | "s" | "sec" | "secs" => Unit::Common("second"),
        "minute" | "minutes" | "m" | "min" | "mins" => Unit::Common("minute"),
        "hour" | "hours" | "h" | "hr" | "hrs" => Unit::Common("hour"),
        "day" | "days" | "d" => Unit::Common("day"),
        "week" | "weeks" | "w" => Unit::Common("week"),
        "month" | "months" | "mon" | "mons" => Unit::Common("month"),
        "quarter" | "qtr" => Unit::Common("quarter"),
        "year" | "years" | "y" | "yr" | "yrs" => Unit::Common("year"),
        "decade" | "decades" | "dec" | "decs" => Unit::Years(10),
        "century" | "centuries" | "c" | "cent" => Unit::Years(100),
        "millennium" | "millennia" | "mil" | "mils" => Unit::Years(1_000),
        _ => return Err(unknown(name, "timestamp")),
    })
}

/// The calendar unit for the name of a unit; `None` for units below a second, and for unknown
/// names.
pub fn calendar_unit(name: &str) -> Option<CalendarUnit> {
    match unit_of(name).ok()? {
        Unit::Common("second") => Some(CalendarUnit::Second),
        Unit::Common(name) => steady_unit(name),
        Unit::Years(_) => Some(CalendarUnit::Year),
    }
}

fn unknown(name: &str, of: &str) -> DataFusionError {
    to_datafusion(
        Error::new(
            ErrorKind::InvalidParameterValue,
            format!("unit \"{name}\" not recognized for type {of}"),
        )
        .with_hint("units are microseconds, milliseconds, second, minute, hour, day, week, month, quarter, year, decade, century and millennium"),
    )
}

impl ScalarLayer for DateTrunc {
    fn signature<'a>(&'a self, _: &'a ScalarUDF) -> &'a Signature {
        &self.signature
    }

    fn return_type(&self, inner: &ScalarUDF, arguments: &[DataType]) -> Result<DataType> {
        match arguments.get(1) {
            Some(DataType::Interval(_)) => Ok(INTERVAL),
            _ => inner.return_type(arguments),
        }
    }

    fn return_field(&self, inner: &ScalarUDF, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if let [_, time, _] = arguments.arg_fields {
            let unit = match time.data_type() {
                DataType::Timestamp(unit, _) => *unit,
                _ => TimeUnit::Microsecond,
            };
            let zoned = DataType::Timestamp(unit, Some(Arc::from("UTC")));
            return Ok(Arc::new(Field::new(inner.name(), zoned, true)));
        }
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        let field = match arguments.arg_fields.get(1) {
            Some(field) if matches!(field.data_type(), DataType::Interval(_)) => {
                Arc::new(field.as_ref().clone().with_name(inner.name()).with_data_type(INTERVAL))
            }
            _ => inner.return_field_from_args(arguments)?,
        };
        // DataFusion derives the nullability only from the time, and not from the unit.
        Ok(Arc::new(field.as_ref().clone().with_nullable(nullable)))
    }

    fn coerce_types(&self, _: &ScalarUDF, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [_, DataType::Interval(_)] => Ok(vec![DataType::Utf8View, INTERVAL]),
            [_, DataType::Date32] => Ok(vec![
                DataType::Utf8View,
                DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
            ]),
            [_, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null] => {
                Ok(vec![
                    DataType::Utf8View,
                    DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::from("UTC"))),
                ])
            }
            [_, time @ (DataType::Timestamp(_, _) | DataType::Time64(_) | DataType::Time32(_))] => {
                Ok(vec![DataType::Utf8View, time.clone()])
            }
            // Before execution, a rewrite replaces a call with three arguments by a call with two.
            [
                _,
                time @ (DataType::Timestamp(_, _) | DataType::Date32),
                DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null,
            ] => Ok(vec![DataType::Utf8View, time.clone(), DataType::Utf8View]),
            _ => datafusion::common::plan_err!(
                "function date_trunc({}) does not exist; there is date_trunc(text, timestamp), date_trunc(text, timestamp, text), date_trunc(text, interval)",
                arguments.iter().map(sql_name).collect::<Vec<_>>().join(", ")
            ),
        }
    }

    fn invoke(
        &self,
        inner: &ScalarUDF,
        mut arguments: ScalarFunctionArgs,
    ) -> Result<ColumnarValue> {
        let unit = match arguments.args.first() {
            Some(ColumnarValue::Scalar(unit)) => unit,
            Some(ColumnarValue::Array(units)) => {
                let units = cast(units, &DataType::Utf8View)?;
                return self.of_each_unit(inner, &units, &arguments);
            }
            None => return Err(to_datafusion(Error::internal("date_trunc needs a unit"))),
        };
        let Some(name) = unit.try_as_str().flatten().map(str::to_string) else {
            let null = ScalarValue::try_new_null(arguments.return_field.data_type())?;
            return Ok(ColumnarValue::Scalar(null));
        };
        let interval = arguments.return_field.data_type() == &INTERVAL;
        match unit_of(&name)? {
            unit if interval => {
                on_arrays(&arguments, |array| truncate_intervals(array, unit, &name))
            }
            Unit::Common(canonical) => {
                if let Some(cut_ns) = below_second(canonical)
                    && let DataType::Timestamp(unit, _) = arguments.return_field.data_type()
                {
                    let (unit, wanted) = (*unit, arguments.return_field.data_type().clone());
                    return on_arrays(&arguments, |array| {
                        truncate_steady(array, cut_ns, unit, &wanted)
                    });
                }
                if let Some(wanted) = far_type(&arguments)? {
                    return on_arrays(&arguments, |array| truncate_far(array, canonical, &wanted));
                }
                if let Some(unit) = arguments.args.first_mut() {
                    *unit = ColumnarValue::Scalar(ScalarValue::Utf8View(Some(canonical.into())));
                }
                inner.invoke_with_args(arguments)
            }
            Unit::Years(years) => {
                let wanted = arguments.return_field.data_type().clone();
                on_arrays(&arguments, |array| truncate_years(array, years, &wanted, &name))
            }
        }
    }
}

impl DateTrunc {
    /// Truncates each time to the unit in the same row.
    fn of_each_unit(
        &self,
        inner: &ScalarUDF,
        units: &ArrayRef,
        arguments: &ScalarFunctionArgs,
    ) -> Result<ColumnarValue> {
        let (rows, units) = (arguments.number_rows, units.as_string_view());
        let mut cut = new_null_array(arguments.return_field.data_type(), rows);
        let names: BTreeSet<&str> = units.iter().flatten().collect();
        for name in names {
            let mut of_one = arguments.clone();
            if let Some(unit) = of_one.args.first_mut() {
                *unit = ColumnarValue::Scalar(ScalarValue::Utf8View(Some(name.to_string())));
            }
            let of_one = self.invoke(inner, of_one)?.to_array(rows)?;
            let has_it: BooleanArray = units.iter().map(|unit| Some(unit == Some(name))).collect();
            cut = zip(&has_it, &of_one, &cut)?;
        }
        Ok(ColumnarValue::Array(cut))
    }
}

/// Applies `change` to the second argument, the time.
fn on_arrays(
    arguments: &ScalarFunctionArgs,
    change: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    match arguments.args.get(1) {
        Some(ColumnarValue::Scalar(value)) => {
            let changed = change(&value.to_array()?)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&changed, 0)?))
        }
        Some(ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(change(array)?)),
        None => Err(to_datafusion(Error::internal("date_trunc needs two arguments"))),
    }
}

/// The length of a unit below a second, in nanoseconds; `None` for other units. DataFusion
/// truncates times before 1970 to these units in the wrong direction, toward 1970.
fn below_second(name: &str) -> Option<i64> {
    match name {
        "microsecond" => Some(1_000),
        "millisecond" => Some(1_000_000),
        _ => None,
    }
}

/// Truncates each time to the last multiple of `cut_ns` nanoseconds at or before the time.
fn truncate_steady(
    array: &ArrayRef,
    cut_ns: i64,
    unit: TimeUnit,
    wanted: &DataType,
) -> Result<ArrayRef> {
    let unit_ns = 1_000_000_000 / per_second(unit);
    let times = cast(array, wanted)?;
    let step = cut_ns / unit_ns;
    if step <= 1 {
        return Ok(times);
    }
    let numbers = cast(&times, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let cut: Int64Array = numbers
        .try_unary(|time| time.checked_sub(time.rem_euclid(step)).ok_or_else(out_of_range))?;
    Ok(cast(&cut, wanted)?)
}

/// The type of the times, if a time is out of the range of the nanoseconds that DataFusion's
/// function uses; else `None`. The times are in UTC or without a zone, because the expression
/// contains the zone conversion.
fn far_type(arguments: &ScalarFunctionArgs) -> Result<Option<DataType>> {
    let wanted = arguments.return_field.data_type();
    let (unit, is_local) = match wanted {
        DataType::Timestamp(unit, None) => (*unit, true),
        DataType::Timestamp(unit, Some(zone)) => {
            (*unit, matches!(zone.as_ref(), "UTC" | "+00" | "+00:00"))
        }
        _ => return Ok(None),
    };
    if !is_local {
        return Ok(None);
    }
    let nearest = i64::MAX / (1_000_000_000 / per_second(unit)) - 367 * 86_400 * per_second(unit);
    let times = match arguments.args.get(1) {
        Some(ColumnarValue::Array(array)) => cast(&cast(array, wanted)?, &DataType::Int64)?,
        Some(ColumnarValue::Scalar(value)) => {
            cast(&cast(&value.to_array()?, wanted)?, &DataType::Int64)?
        }
        None => return Ok(None),
    };
    let times = times.as_primitive::<Int64Type>();
    let is_far = |time: Option<i64>| time.is_some_and(|time| time < -nearest || time > nearest);
    Ok((is_far(min(times)) || is_far(max(times))).then(|| wanted.clone()))
}

/// Truncates times to a unit from a second to a year, in the whole range of timestamps.
fn truncate_far(array: &ArrayRef, unit: &str, wanted: &DataType) -> Result<ArrayRef> {
    let second = match wanted {
        DataType::Timestamp(unit, _) => per_second(*unit),
        _ => return Err(unknown(unit, "time")),
    };
    let day = 86_400 * second;
    let first_day = |days: i64| {
        let date = civil_of(days);
        let month = match unit {
            "month" => date.month,
            "quarter" => (date.month - 1) / 3 * 3 + 1,
            _ => 1,
        };
        days_of(Civil { year: date.year, month, day: 1 })
    };
    let cut = |time: i64| {
        let days = time.div_euclid(day);
        let first = match unit {
            "second" => return time.checked_sub(time.rem_euclid(second)),
            "minute" => return time.checked_sub(time.rem_euclid(60 * second)),
            "hour" => return time.checked_sub(time.rem_euclid(3_600 * second)),
            "day" => days,
            // The 1st of January 1970 was a Thursday.
            "week" => days - (days + 3).rem_euclid(7),
            _ => first_day(days),
        };
        first.checked_mul(day).filter(|_| first >= FIRST_DAY)
    };
    let times = cast(&cast(array, wanted)?, &DataType::Int64)?;
    let times = times.as_primitive::<Int64Type>();
    let cut: Int64Array = times.try_unary(|time| cut(time).ok_or_else(out_of_range))?;
    Ok(cast(&cut, wanted)?)
}

fn out_of_range() -> DataFusionError {
    to_datafusion(Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range"))
}

fn truncate_years(array: &ArrayRef, years: i64, wanted: &DataType, name: &str) -> Result<ArrayRef> {
    if !matches!(wanted, DataType::Timestamp(_, _)) {
        return Err(unknown(name, "time"));
    }
    let zone = match wanted {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let from = i64::from(years > 10);
    let first_of = |day: i64| {
        let year = (civil_of(day).year - from).div_euclid(years) * years + from;
        days_of(Civil { year, month: 1, day: 1 }).saturating_mul(DAY_US)
    };
    // For a time before 1970, a cast to microseconds would round up.
    let cut: TimestampMicrosecondArray = match array.as_primitive_opt::<TimestampNanosecondType>() {
        Some(nanos) => nanos.unary(|nanos| first_of(nanos.div_euclid(DAY_US * 1_000))),
        None => {
            let micros = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
            let micros = micros.as_primitive::<TimestampMicrosecondType>();
            micros.unary(|micros| first_of(micros.div_euclid(DAY_US)))
        }
    };
    let is_too_early = |time: Option<i64>| time.is_some_and(|time| time < FIRST_DAY * DAY_US);
    let years = cast(&cut.clone().with_timezone_opt(zone), wanted)?;
    if is_too_early(min(&cut)) || years.null_count() > array.null_count() {
        return Err(out_of_range());
    }
    Ok(years)
}

fn truncate_intervals(array: &ArrayRef, unit: Unit, name: &str) -> Result<ArrayRef> {
    let cut_months = |months: i32| {
        move |interval: IntervalMonthDayNano| {
            IntervalMonthDayNano::new(interval.months / months * months, 0, 0)
        }
    };
    let cut_ns = |ns: i64| {
        move |interval: IntervalMonthDayNano| {
            let nanoseconds = interval.nanoseconds / ns * ns;
            IntervalMonthDayNano::new(interval.months, interval.days, nanoseconds)
        }
    };
    let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
    let cut: IntervalMonthDayNanoArray = match unit {
        Unit::Years(years) => {
            intervals.unary(cut_months(i32::try_from(years * 12).unwrap_or(i32::MAX)))
        }
        Unit::Common("year") => intervals.unary(cut_months(12)),
        Unit::Common("quarter") => intervals.unary(cut_months(3)),
        Unit::Common("month") => intervals.unary(cut_months(1)),
        Unit::Common("day") => {
            intervals.unary(|interval| IntervalMonthDayNano::new(interval.months, interval.days, 0))
        }
        Unit::Common("hour") => intervals.unary(cut_ns(HOUR_NS)),
        Unit::Common("minute") => intervals.unary(cut_ns(HOUR_NS / 60)),
        Unit::Common("second") => intervals.unary(cut_ns(1_000_000_000)),
        Unit::Common("millisecond") => intervals.unary(cut_ns(1_000_000)),
        Unit::Common("microsecond") => intervals.unary(cut_ns(1_000)),
        Unit::Common(_) => return Err(unknown(name, "interval")),
    };
    Ok(Arc::new(cut))
}
