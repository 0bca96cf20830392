//! `make_date`, `make_time`, `make_timestamp` and `make_timestamptz`.

use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, Date32Array, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use datafusion::{common::Result, logical_expr::Volatility};
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_text::{
    TimeZone,
    calendar::{Civil, days_of, is_valid},
};

use crate::{
    failed,
    function::{Arguments, Function, Parameter, Returns, text_at},
    literal::style_of,
    zone::zone_of,
};

use Parameter::{Double, Integer, Text};

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;

/// The last year of a timestamp in PostgreSQL.
const YEAR_MAX: i64 = 294_276;

/// The last year of a date in PostgreSQL.
const DATE_YEAR_MAX: i64 = 5_874_897;

/// The first year of the Julian day count: 4713 BC, written as -4712.
const YEAR_MIN: i64 = -4_712;

fn overflow(what: &str, value: &str) -> Error {
    Error::new(ErrorKind::DatetimeOverflow, format!("{what} out of range: {value}"))
}

/// The SQL functions that this module declares.
pub fn functions() -> Vec<Function> {
    let declare = |name, parameters, returns, volatility, description, zoned: bool| Function {
        name,
        aliases: &[],
        parameters,
        returns: Returns::Type(returns),
        volatility,
        description,
        run: Arc::new(move |arguments: &Arguments<'_>| run(arguments, zoned)),
    };
    vec![
        Function::immutable(
            "make_date",
            &[&[Integer, Integer, Integer]],
            ColumnType::Date,
            "A date from year (negative: BC), month and day.",
            dates,
        ),
        Function::immutable(
            "make_time",
            &[&[Integer, Integer, Double]],
            ColumnType::Time,
            "A time of day from hour, minute and seconds.",
            times_of_day,
        ),
        declare(
            "make_timestamp",
            &[&[Integer, Integer, Integer, Integer, Integer, Double]],
            ColumnType::Timestamp { precision: 6 },
            Volatility::Immutable,
            "A timestamp from year (negative: BC), month, day, hour, minute and seconds.",
            false,
        ),
        declare(
            "make_timestamptz",
            &[
                &[Integer, Integer, Integer, Integer, Integer, Double],
                &[Integer, Integer, Integer, Integer, Integer, Double, Text],
            ],
            ColumnType::TimestampTz { precision: 6 },
            Volatility::Stable,
            "A timestamp with time zone from year, month, day, hour, minute and seconds in the session's time zone, or in the time zone of the seventh argument.",
            true,
        ),
    ]
}

fn run(arguments: &Arguments<'_>, zoned: bool) -> Result<ArrayRef> {
    let mut numbers = Vec::with_capacity(5);
    for at in 0..5 {
        numbers.push(arguments.integers(at)?);
    }
    let seconds = arguments.doubles(5)?;
    let zones = arguments.has(6).then(|| arguments.text(6)).transpose()?;
    let session = style_of(arguments.config).time_zone;
    let time = |row: usize| -> Result<Option<i64>> {
        let [year, month, day, hour, minute] = numbers.as_slice() else { return Ok(None) };
        let zone = zones.map(|zones| text_at(zones, row));
        let null = numbers.iter().any(|number| number.is_null(row)) || seconds.is_null(row);
        if null || zone == Some(None) {
            return Ok(None);
        }
        let local = TimeParts {
            year: year.value(row),
            month: month.value(row),
            day: day.value(row),
            hour: hour.value(row),
            minute: minute.value(row),
            seconds: seconds.value(row),
        }
        .micros()
        .map_err(failed)?;
        if !zoned {
            return Ok(Some(local));
        }
        let east = match zone.flatten() {
            Some(name) => zone_argument(name)?.offset_of_local(local.div_euclid(SECOND_US)),
            None => session.offset_of_local(local.div_euclid(SECOND_US)),
        };
        Ok(Some(local.saturating_sub(i64::from(east).saturating_mul(SECOND_US))))
    };
    let times = (0..arguments.rows).map(time).collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(if zoned { times.with_timezone("UTC") } else { times }))
}

/// Parses the zone argument: a name, or signed hours and minutes. Here `+02` lies east of
/// Greenwich, although in `AT TIME ZONE` it lies to the west.
fn zone_argument(name: &str) -> Result<TimeZone> {
    let (sign, digits) = match (name.strip_prefix('+'), name.strip_prefix('-')) {
        (Some(digits), _) => (1, digits),
        (None, Some(digits)) => (-1, digits),
        (None, None) if name.starts_with(|first: char| first.is_ascii_digit()) => {
            return Err(failed(
                Error::new(
                    ErrorKind::InvalidParameterValue,
                    format!("invalid input syntax for type numeric time zone: \"{name}\""),
                )
                .with_hint("Numeric time zones must have \"-\" or \"+\" as first character."),
            ));
        }
        (None, None) => return zone_of(name),
    };
    let whole = |text: &str| -> Option<i32> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    };
    let parts: Option<Vec<i32>> = match digits.split_at_checked(2) {
        Some((hours, minutes)) if matches!(minutes.len(), 2) => {
            [hours, minutes].into_iter().map(whole).collect()
        }
        _ => digits.split(':').map(whole).collect(),
    };
    let seconds = match parts.as_deref() {
        Some([hours]) => Some((*hours, 0, 0)),
        Some([hours, minutes]) => Some((*hours, *minutes, 0)),
        Some([hours, minutes, seconds]) => Some((*hours, *minutes, *seconds)),
        _ => None,
    };
    let zone = seconds.and_then(|(hours, minutes, seconds)| {
        let inside = hours <= 15 && minutes < 60 && seconds < 60;
        inside.then(|| TimeZone::fixed(sign * (hours * 3_600 + minutes * 60 + seconds)))?
    });
    zone.ok_or_else(|| {
        failed(Error::new(
            ErrorKind::InvalidParameterValue,
            format!("numeric time zone \"{name}\" out of range"),
        ))
    })
}

fn dates(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (years, months, days) =
        (arguments.integers(0)?, arguments.integers(1)?, arguments.integers(2)?);
    let date = |row: usize| -> Result<Option<i32>> {
        if years.is_null(row) || months.is_null(row) || days.is_null(row) {
            return Ok(None);
        }
        let (year, month, day) = (years.value(row), months.value(row), days.value(row));
        let parts = TimeParts { year, month, day, hour: 0, minute: 0, seconds: 0.0 };
        let days = days_of(parts.civil(DATE_YEAR_MAX, "date").map_err(failed)?);
        i32::try_from(days).map(Some).map_err(|_| failed(Error::internal("a date is in range")))
    };
    Ok(Arc::new((0..arguments.rows).map(date).collect::<Result<Date32Array>>()?))
}

fn times_of_day(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (hours, minutes) = (arguments.integers(0)?, arguments.integers(1)?);
    let seconds = arguments.doubles(2)?;
    let time = |row: usize| -> Result<Option<i64>> {
        if hours.is_null(row) || minutes.is_null(row) || seconds.is_null(row) {
            return Ok(None);
        }
        let (hour, minute, seconds) = (hours.value(row), minutes.value(row), seconds.value(row));
        let parts = TimeParts { year: 1, month: 1, day: 1, hour, minute, seconds };
        parts.micros_of_day().map(Some).map_err(failed)
    };
    let times = (0..arguments.rows).map(time).collect::<Result<Time64MicrosecondArray>>()?;
    Ok(Arc::new(times))
}

struct TimeParts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    seconds: f64,
}

impl TimeParts {
    /// The time in microseconds since 1970.
    fn micros(&self) -> Result<i64, Error> {
        let civil = self.civil(DATE_YEAR_MAX, "date")?;
        if civil.year > YEAR_MAX {
            return Err(self.out_of_range());
        }
        let of_day = self.micros_of_day()?;
        days_of(civil)
            .checked_mul(DAY_US)
            .and_then(|day| day.checked_add(of_day))
            .ok_or_else(|| self.out_of_range())
    }

    fn out_of_range(&self) -> Error {
        let Self { hour, minute, seconds, .. } = self;
        overflow("timestamp", &format!("{} {hour}:{minute:02}:{seconds:02}", self.date()))
    }

    fn date(&self) -> String {
        format!("{}-{:02}-{:02}", self.year, self.month, self.day)
    }

    fn civil(&self, year_max: i64, what: &str) -> Result<Civil, Error> {
        let Self { year, month, day, .. } = *self;
        let date = self.date();
        match (u32::try_from(month), u32::try_from(day)) {
            // The argument for 1 BC is -1, so year 0 is invalid.
            (Ok(month), Ok(day)) if year != 0 => {
                let year = if year < 0 { year.saturating_add(1) } else { year };
                let in_reach = year.clamp(YEAR_MIN, year_max);
                let civil = Civil { year: in_reach, month, day };
                match is_valid(civil) {
                    true if in_reach == year => Ok(civil),
                    true => Err(overflow(what, &date)),
                    false => Err(overflow("date field value", &date)),
                }
            }
            _ => Err(overflow("date field value", &date)),
        }
    }

    /// The time of day in microseconds since midnight.
    fn micros_of_day(&self) -> Result<i64, Error> {
        let Self { hour, minute, seconds, .. } = *self;
        let within = (0..=24).contains(&hour)
            && (0..=59).contains(&minute)
            && (0.0..=60.0).contains(&seconds);
        let of_day = if within {
            #[expect(clippy::cast_possible_truncation, reason = "60 seconds at most")]
            let micros = (seconds * 1e6).round_ties_even() as i64;
            (hour * 3_600 + minute * 60) * SECOND_US + micros
        } else {
            i64::MAX
        };
        if of_day > DAY_US {
            let time = format!("{hour}:{minute:02}:{seconds:02}");
            return Err(overflow("time field value", &time));
        }
        Ok(of_day)
    }
}

#[cfg(test)]
mod tests;
