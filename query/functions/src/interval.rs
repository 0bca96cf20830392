//! Functions that make and normalize intervals.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, IntervalMonthDayNanoArray, Time64MicrosecondArray},
    datatypes::{
        DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
        Time64NanosecondType, TimeUnit, TimestampNanosecondType,
    },
};
use chrono::{DateTime, Datelike, Timelike};
use datafusion::common::Result;
use stratalog_model::{Error, ErrorKind};

use crate::{failed, function::Arguments, literal::style_of};

const DAY_NS: i64 = 86_400_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;

fn overflow() -> Error {
    Error::new(ErrorKind::DatetimeOverflow, "interval out of range")
}

/// Applies `change` to every interval of argument 0.
pub(crate) fn map(
    arguments: &Arguments<'_>,
    change: fn(IntervalMonthDayNano) -> Option<IntervalMonthDayNano>,
) -> Result<ArrayRef> {
    let intervals = arguments.array(0)?.as_primitive::<IntervalMonthDayNanoType>();
    let changed: IntervalMonthDayNanoArray =
        intervals.try_unary(|interval| change(interval).ok_or_else(overflow)).map_err(failed)?;
    Ok(Arc::new(changed))
}

pub(crate) fn justify_days(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let mut months = interval.months.checked_add(interval.days / 30)?;
    let mut days = interval.days % 30;
    if months > 0 && days < 0 {
        days += 30;
        months -= 1;
    } else if months < 0 && days > 0 {
        days -= 30;
        months += 1;
    }
    Some(IntervalMonthDayNano { months, days, nanoseconds: interval.nanoseconds })
}

pub(crate) fn justify_hours(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let whole = i32::try_from(interval.nanoseconds / DAY_NS).ok()?;
    let mut days = interval.days.checked_add(whole)?;
    let mut nanoseconds = interval.nanoseconds % DAY_NS;
    if days > 0 && nanoseconds < 0 {
        nanoseconds += DAY_NS;
        days -= 1;
    } else if days < 0 && nanoseconds > 0 {
        nanoseconds -= DAY_NS;
        days += 1;
    }
    Some(IntervalMonthDayNano { months: interval.months, days, nanoseconds })
}

pub(crate) fn justify_interval(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let IntervalMonthDayNano { mut months, mut days, mut nanoseconds } =
        justify_days(justify_hours(interval)?)?;
    if months > 0 && (days < 0 || (days == 0 && nanoseconds < 0)) {
        days += 30;
        months -= 1;
    } else if months < 0 && (days > 0 || (days == 0 && nanoseconds > 0)) {
        days -= 30;
        months += 1;
    }
    if days > 0 && nanoseconds < 0 {
        nanoseconds += DAY_NS;
        days -= 1;
    } else if days < 0 && nanoseconds > 0 {
        nanoseconds -= DAY_NS;
        days += 1;
    }
    Some(IntervalMonthDayNano { months, days, nanoseconds })
}

/// `make_interval(years, months, weeks, days, hours, minutes, seconds)`.
pub(crate) fn make(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let mut intervals = Vec::with_capacity(arguments.rows);
    for row in 0..arguments.rows {
        let part = |at: usize| -> Result<Option<i64>> {
            if !arguments.has(at) {
                return Ok(Some(0));
            }
            let numbers = arguments.integers(at)?;
            Ok((!numbers.is_null(row)).then(|| numbers.value(row)))
        };
        let seconds = match arguments.arrays.get(6) {
            None => Some(0.0),
            Some(array) => {
                let array = array.as_primitive::<Float64Type>();
                (!array.is_null(row)).then(|| array.value(row))
            }
        };
        let parts = (part(0)?, part(1)?, part(2)?, part(3)?, part(4)?, part(5)?, seconds);
        let (
            Some(years),
            Some(months),
            Some(weeks),
            Some(days),
            Some(hours),
            Some(minutes),
            Some(seconds),
        ) = parts
        else {
            intervals.push(None);
            continue;
        };
        let sum = || -> Option<IntervalMonthDayNano> {
            let months = years.checked_mul(12)?.checked_add(months)?;
            let days = weeks.checked_mul(7)?.checked_add(days)?;
            let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
            let seconds_ns = (seconds * 1e9).round();
            if !seconds_ns.is_finite() || seconds_ns.abs() >= 9.2e18 {
                return None;
            }
            #[expect(clippy::cast_possible_truncation, reason = "checked to be within range")]
            let nanoseconds =
                minutes.checked_mul(60_000_000_000)?.checked_add(seconds_ns as i64)?;
            Some(IntervalMonthDayNano {
                months: i32::try_from(months).ok()?,
                days: i32::try_from(days).ok()?,
                nanoseconds,
            })
        };
        intervals.push(Some(sum().ok_or_else(|| failed(overflow()))?));
    }
    Ok(Arc::new(IntervalMonthDayNanoArray::from(intervals)))
}

/// The time since midnight, as an interval.
pub(crate) fn of_time(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let times = arrow::compute::cast(arguments.array(0)?, &DataType::Time64(TimeUnit::Nanosecond))?;
    let intervals: IntervalMonthDayNanoArray = times
        .as_primitive::<Time64NanosecondType>()
        .unary(|nanoseconds| IntervalMonthDayNano { months: 0, days: 0, nanoseconds });
    Ok(Arc::new(intervals))
}

/// What is left of an interval without its whole days, from midnight.
pub(crate) fn as_time(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let intervals = arguments.array(0)?.as_primitive::<IntervalMonthDayNanoType>();
    let times: Time64MicrosecondArray =
        intervals.unary(|interval| interval.nanoseconds.rem_euclid(DAY_NS) / 1_000);
    Ok(Arc::new(times))
}

/// The time now, as C's `ctime` writes it but with microseconds and the zone.
pub(crate) fn time_of_day(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let zone = style_of(arguments.config).time_zone;
    crate::function::text_rows(arguments.rows, |_| {
        let now = chrono::Utc::now();
        let east = i64::from(zone.offset_at(now.timestamp()));
        let local = now + chrono::TimeDelta::seconds(east);
        let zone = zone.abbreviation_at(now.timestamp());
        Ok(Some(format!("{} {zone}", local.format("%a %b %d %H:%M:%S%.6f %Y"))))
    })
}

/// `age(later, earlier)`.
pub(crate) fn age(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let zone = style_of(arguments.config).time_zone;
    // Days are those of the session's zone, which are not all equally long.
    let nanoseconds = |at: usize| -> Result<ArrayRef> {
        let given = arguments.array(at)?;
        let utc = arrow::compute::cast(given, &DataType::Timestamp(TimeUnit::Nanosecond, None))?;
        let DataType::Timestamp(_, Some(_)) = given.data_type() else { return Ok(utc) };
        let local = |instant: i64| {
            let east = zone.offset_at(instant.div_euclid(SECOND_NS));
            instant.saturating_add(i64::from(east) * SECOND_NS)
        };
        let utc = utc.as_primitive::<TimestampNanosecondType>();
        Ok(Arc::new(utc.unary::<_, TimestampNanosecondType>(local)))
    };
    let (later, earlier) = (nanoseconds(0)?, nanoseconds(1)?);
    let (later, earlier) = (
        later.as_primitive::<TimestampNanosecondType>(),
        earlier.as_primitive::<TimestampNanosecondType>(),
    );
    let ages: IntervalMonthDayNanoArray =
        later.iter().zip(earlier).map(|(later, earlier)| Some(age_of(later?, earlier?))).collect();
    Ok(Arc::new(ages))
}

/// Nanoseconds since 1970 apart, in months, days and time, all with one sign.
fn age_of(left: i64, right: i64) -> IntervalMonthDayNano {
    let negative = left < right;
    let (later, earlier) = if negative { (right, left) } else { (left, right) };
    let (from, to) =
        (DateTime::from_timestamp_nanos(earlier), DateTime::from_timestamp_nanos(later));
    let of_day = |time: &DateTime<chrono::Utc>| {
        i64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(time.nanosecond())
    };
    let month = |time: &DateTime<chrono::Utc>| time.year() * 12 + time.month0().cast_signed();
    let mut months = month(&to) - month(&from);
    let mut days = to.day().cast_signed() - from.day().cast_signed();
    let mut nanoseconds = of_day(&to) - of_day(&from);
    if nanoseconds < 0 {
        nanoseconds += DAY_NS;
        days -= 1;
    }
    if days < 0 {
        // Days are borrowed from the month that the earlier time is in.
        let length = i32::from(from.num_days_in_month());
        days += length;
        months -= 1;
    }
    let sign = if negative { -1 } else { 1 };
    IntervalMonthDayNano {
        months: months * sign,
        days: days * sign,
        nanoseconds: nanoseconds * i64::from(sign),
    }
}

#[cfg(test)]
mod tests;
