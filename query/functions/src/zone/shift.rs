//! Adds an interval to a timestamptz in the local calendar of a zone. Adding one day keeps the
//! local time, even if the clocks change in between. If adding months gives a day after the end of
//! a month, the result is the last day of the month.

use arrow::{
    array::{Array as _, ArrayRef, AsArray, Int64Array},
    compute::cast,
    datatypes::{DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit},
};
use datafusion::common::Result;
use stratalog_model::{Error, ErrorKind};
use stratalog_text::{
    TimeZone,
    calendar::{Civil, civil_of, days_of, month_days},
};

use super::zone_of;
use crate::{
    failed,
    function::{Arguments, text_at},
};

const SECOND_NS: i128 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

/// Computes `timestamptz_add(zone, time, interval, back)`: adds the interval to the time, or
/// subtracts it if `back` is true.
pub fn timestamptz_add(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let zones = arguments.text(0)?;
    let unit_ns = match arguments.result {
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        _ => 1,
    };
    let times = cast(arguments.array(1)?, &DataType::Int64)?;
    let times = times.as_primitive::<Int64Type>();
    let intervals = arguments.array(2)?.as_primitive::<IntervalMonthDayNanoType>();
    let back = arguments.array(3)?.as_boolean();
    let mut known: Option<(String, TimeZone)> = None;
    let mut moved = Vec::with_capacity(arguments.rows);
    for row in 0..arguments.rows {
        let given = times.is_valid(row) && intervals.is_valid(row);
        let Some(name) = text_at(zones, row).filter(|_| given) else {
            moved.push(None);
            continue;
        };
        let zone = match &known {
            Some((last, zone)) if last == name => zone,
            _ => &known.insert((name.to_string(), zone_of(name)?)).1,
        };
        let interval = intervals.value(row);
        let interval = if back.value(row) { negated(interval) } else { Some(interval) };
        let later = interval.and_then(|interval| {
            let time_ns = i128::from(times.value(row)) * unit_ns;
            i64::try_from(later(time_ns, interval, zone)?.div_euclid(unit_ns)).ok()
        });
        moved.push(Some(later.ok_or_else(|| {
            failed(Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range"))
        })?));
    }
    Ok(cast(&Int64Array::from(moved), arguments.result)?)
}

fn negated(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano {
        months: interval.months.checked_neg()?,
        days: interval.days.checked_neg()?,
        nanoseconds: interval.nanoseconds.checked_neg()?,
    })
}

/// Adds an interval to a time, which is in nanoseconds since 1970: first the months, then the days,
/// both in the local calendar of `zone`, and then the nanoseconds. `None` if the result is out of
/// range.
pub fn later(time_ns: i128, interval: IntervalMonthDayNano, zone: &TimeZone) -> Option<i128> {
    let mut time_ns = time_ns;
    if interval.months != 0 || interval.days != 0 {
        let seconds = i64::try_from(time_ns.div_euclid(SECOND_NS)).ok()?;
        let nanos = time_ns.rem_euclid(SECOND_NS);
        let local = seconds.checked_add(i64::from(zone.offset_at(seconds)))?;
        let (day, of_day) = (local.div_euclid(DAY_SECONDS), local.rem_euclid(DAY_SECONDS));
        let date = civil_of(day);
        let months = date.year * 12 + i64::from(date.month) - 1 + i64::from(interval.months);
        let (year, month) = (months.div_euclid(12), u32::try_from(months.rem_euclid(12)).ok()? + 1);
        let last = month_days(year, month);
        let day = days_of(Civil { year, month, day: date.day.min(last) })
            .checked_add(i64::from(interval.days))?;
        let local = day.checked_mul(DAY_SECONDS)?.checked_add(of_day)?;
        let seconds = local.checked_sub(i64::from(zone.offset_of_local(local)))?;
        time_ns = i128::from(seconds) * SECOND_NS + nanos;
    }
    Some(time_ns + i128::from(interval.nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_keep_the_local_time() {
        let zone = TimeZone::parse_setting("Europe/Berlin").unwrap();
        let at = |text: &str| {
            let time = chrono::DateTime::parse_from_rfc3339(text).unwrap();
            i128::from(time.timestamp_nanos_opt().unwrap())
        };
        let day = IntervalMonthDayNano::new(0, 1, 0);
        let month = IntervalMonthDayNano::new(1, 0, 0);
        for (time, interval, wanted) in [
            ("2024-03-30T12:00:00+01:00", day, "2024-03-31T12:00:00+02:00"),
            ("2024-10-26T12:00:00+02:00", day, "2024-10-27T12:00:00+01:00"),
            ("2024-01-31T00:30:00+01:00", month, "2024-02-29T00:30:00+01:00"),
            (
                "2024-03-30T12:00:00+01:00",
                IntervalMonthDayNano::new(0, 0, 86_400_000_000_000),
                "2024-03-31T13:00:00+02:00",
            ),
        ] {
            assert_eq!(later(at(time), interval, &zone), Some(at(wanted)), "{time}");
        }
        let centuries = IntervalMonthDayNano::new(3600, 0, 0);
        let far = chrono::DateTime::parse_from_rfc3339("2324-01-31T00:30:00+01:00").unwrap();
        let near = at("2024-01-31T00:30:00+01:00");
        let wanted = i128::from(far.timestamp()) * SECOND_NS;
        assert_eq!(later(near, centuries, &zone), Some(wanted));
        assert_eq!(later(i128::from(i64::MAX) * 2_000_000_000, day, &zone), None);
    }
}
