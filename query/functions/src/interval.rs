//! Functions that create, normalize or convert intervals.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, IntervalMonthDayNanoArray, Time64MicrosecondArray},
    compute::cast,
    datatypes::{
        DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
        Time64NanosecondType, TimeUnit,
    },
};
use datafusion::common::Result;
use stratalog_model::{Error, ErrorKind};
use stratalog_text::calendar::{Civil, civil_of, month_days};

use crate::{failed, function::Arguments, literal::style_of};

const DAY_NS: i64 = 86_400_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;

fn overflow() -> Error {
    Error::new(ErrorKind::DatetimeOverflow, "interval out of range")
}

/// Applies `change` to each interval in argument 0. The result `None` means an overflow, which is
/// an error.
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

/// Computes `make_interval(years, months, weeks, days, hours, minutes, seconds)`.
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

/// Converts the times of day in argument 0 to intervals since midnight.
pub(crate) fn of_time(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let times = cast(arguments.array(0)?, &DataType::Time64(TimeUnit::Nanosecond))?;
    let intervals: IntervalMonthDayNanoArray = times
        .as_primitive::<Time64NanosecondType>()
        .unary(|nanoseconds| IntervalMonthDayNano { months: 0, days: 0, nanoseconds });
    Ok(Arc::new(intervals))
}

/// Converts the intervals in argument 0 to times of day: the hours and smaller units, modulo 24
/// hours. Months and days are ignored.
pub(crate) fn as_time(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let intervals = arguments.array(0)?.as_primitive::<IntervalMonthDayNanoType>();
    let times: Time64MicrosecondArray =
        intervals.unary(|interval| interval.nanoseconds.rem_euclid(DAY_NS) / 1_000);
    Ok(Arc::new(times))
}

/// Computes `timeofday()`: the current time in the format of C's `ctime`, with microseconds and the
/// zone.
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

/// Computes `age(later, earlier)`.
pub(crate) fn age(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let zone = style_of(arguments.config).time_zone;
    // Days are days of the session's zone, and so may have different lengths.
    let local = |at: usize| -> Result<Vec<Option<i128>>> {
        let given = arguments.array(at)?;
        let (unit_ns, zoned) = match given.data_type() {
            DataType::Timestamp(unit, zone) => (nanoseconds(*unit), zone.is_some()),
            _ => return Err(failed(Error::internal("age needs timestamps"))),
        };
        let counts = cast(given, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>().iter();
        let shown = counts.map(|count| {
            let time_ns = i128::from(count?) * unit_ns;
            let east = match i64::try_from(time_ns.div_euclid(i128::from(SECOND_NS))) {
                Ok(seconds) if zoned => zone.offset_at(seconds),
                _ => 0,
            };
            Some(time_ns + i128::from(east) * i128::from(SECOND_NS))
        });
        Ok(shown.collect())
    };
    let ages: Result<Vec<Option<IntervalMonthDayNano>>, Error> = local(0)?
        .into_iter()
        .zip(local(1)?)
        .map(|(later, earlier)| match (later, earlier) {
            (Some(later), Some(earlier)) => age_of(later, earlier).map(Some).ok_or_else(overflow),
            _ => Ok(None),
        })
        .collect();
    Ok(Arc::new(IntervalMonthDayNanoArray::from(ages.map_err(failed)?)))
}

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Computes `left - right` for two local times, which are in nanoseconds since 1970. The result has
/// months, days and a time with equal signs. `None` if a value is out of range.
fn age_of(left: i128, right: i128) -> Option<IntervalMonthDayNano> {
    let negative = left < right;
    let (later, earlier) = if negative { (right, left) } else { (left, right) };
    let day_ns = i128::from(DAY_NS);
    let date = |time: i128| Some(civil_of(i64::try_from(time.div_euclid(day_ns)).ok()?));
    let of_day = |time: i128| i64::try_from(time.rem_euclid(day_ns)).ok();
    let (from, to) = (date(earlier)?, date(later)?);
    let month = |date: Civil| date.year * 12 + i64::from(date.month);
    let mut months = month(to) - month(from);
    let mut days = i64::from(to.day) - i64::from(from.day);
    let mut nanoseconds = of_day(later)? - of_day(earlier)?;
    if nanoseconds < 0 {
        nanoseconds += DAY_NS;
        days -= 1;
    }
    if days < 0 {
        // A month is converted to days, with the length of the month that contains the earlier
        // time.
        days += i64::from(month_days(from.year, from.month));
        months -= 1;
    }
    let sign = if negative { -1 } else { 1 };
    Some(IntervalMonthDayNano {
        months: i32::try_from(months * sign).ok()?,
        days: i32::try_from(days * sign).ok()?,
        nanoseconds: nanoseconds * sign,
    })
}

#[cfg(test)]
mod tests;
