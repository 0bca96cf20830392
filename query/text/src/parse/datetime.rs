//! Parses dates, times and timestamps.

mod scan;

use stratalog_model::{Error, ErrorKind, Result};

use self::scan::scan;
use super::shortened;
use crate::{
    TextStyle, TimeZone,
    calendar::{
        Civil, DAY_NS, DAY_SECONDS, POSTGRES_EPOCH_SECONDS, SECOND_NS, UNIX_EPOCH_JULIAN, days_of,
        is_valid,
    },
};

/// The last year of a timestamp in PostgreSQL.
const TIMESTAMP_YEAR_MAX: i64 = 294_276;

/// The last year of a date in PostgreSQL.
const DATE_YEAR_MAX: i64 = 5_874_897;

/// The time zone that a text contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZonePart {
    /// An offset in seconds east of Greenwich.
    East(i32),
    /// A zone of the tz database or an abbreviation, whose offset may depend on the time.
    Zone(TimeZone),
}

/// The fields parsed from a text with a date, a time or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ParsedDatetime {
    /// Days since 1970-01-01; `None` if the text has only a time.
    days: Option<i64>,
    /// Nanoseconds since midnight, up to and including 24 hours. Digits after the ninth are cut
    /// off.
    nanos: i64,
    /// True if the first digit that was cut off is 5 or more.
    round_up: bool,
    /// True if the text contains a time.
    has_time: bool,
    /// The zone in the text; `None` without a zone.
    place: Option<ZonePart>,
}

fn type_name(zoned: bool) -> &'static str {
    if zoned { "timestamp with time zone" } else { "timestamp" }
}

/// The error for text that is not a date or time.
fn bad_format(type_name: &str, text: &str) -> Error {
    Error::new(
        ErrorKind::InvalidDatetimeFormat,
        format!("invalid input syntax for type {type_name}: \"{}\"", shortened(text)),
    )
}

/// The error for a field that is out of range, such as month 13.
fn field_overflow(text: &str) -> Error {
    Error::new(
        ErrorKind::DatetimeOverflow,
        format!("date/time field value out of range: \"{}\"", shortened(text)),
    )
}

fn out_of_range(what: &str, text: &str) -> Error {
    Error::new(ErrorKind::DatetimeOverflow, format!("{what} out of range: \"{}\"", shortened(text)))
}

/// Parses a timestamp to a number of units since 1970, rounded to the nearest; a unit is `unit_ns`
/// nanoseconds. If `zoned`, a text without a zone is a time in the session's zone. Otherwise, a
/// zone in the text is ignored, as in PostgreSQL.
///
/// # Errors
/// `InvalidDatetimeFormat`, `DatetimeOverflow`, `InvalidParameterValue` for an unknown zone.
#[inline]
pub fn parse_timestamp(text: &str, unit_ns: i64, zoned: bool, style: &TextStyle) -> Result<i64> {
    let reading = match fast(text.as_bytes()) {
        Some(reading) => reading,
        None => scan(text, type_name(zoned), style)?,
    };
    let Some(days) = reading.days else {
        return Err(bad_format(type_name(zoned), text));
    };
    let range = || {
        let error = out_of_range("timestamp", text);
        if unit_ns == 1 {
            error.with_hint(
                "nanoseconds reach from 1677-09-21 to 2262-04-11: declare the column with precision 6, 3 or 0 for times beyond",
            )
        } else {
            error
        }
    };
    if days < -UNIX_EPOCH_JULIAN {
        return Err(range());
    }
    let mut seconds = days * DAY_SECONDS + reading.nanos / SECOND_NS;
    if zoned {
        seconds -= i64::from(match reading.place {
            Some(ZonePart::East(east)) => east,
            Some(ZonePart::Zone(zone)) => zone.offset_of_local(seconds),
            None => style.time_zone.offset_of_local(seconds),
        });
    }
    let nanos = reading.nanos % SECOND_NS;
    let rounded = match unit_ns {
        1 => nanos + i64::from(reading.round_up),
        1_000 => micros(nanos, reading.round_up),
        // Halves round away from 2000-01-01, the epoch of PostgreSQL.
        _ => (nanos + unit_ns / 2 - i64::from(seconds < POSTGRES_EPOCH_SECONDS)) / unit_ns,
    };
    // The computation needs i128: the second that contains the earliest nanosecond of an i64 begins
    // outside of the range.
    let units = i128::from(seconds) * i128::from(SECOND_NS / unit_ns) + i128::from(rounded);
    i64::try_from(units).map_err(|_| range())
}

/// Parses a date to days since 1970-01-01; ignores a time after the date.
///
/// # Errors
/// `InvalidDatetimeFormat`, `DatetimeOverflow`.
pub fn parse_date(text: &str, style: &TextStyle) -> Result<i32> {
    let bytes = text.as_bytes();
    let reading = match date_at(bytes).filter(|_| bytes.len() == 10) {
        Some(days) => return i32::try_from(days).map_err(|_| out_of_range("date", text)),
        None => scan(text, "date", style)?,
    };
    let days = reading.days.ok_or_else(|| bad_format("date", text))?;
    if days < -UNIX_EPOCH_JULIAN {
        return Err(out_of_range("date", text));
    }
    i32::try_from(days).map_err(|_| out_of_range("date", text))
}

/// Parses a time of day to microseconds since midnight, rounded to the nearest. 24:00:00 means the
/// end of the day.
///
/// # Errors
/// `InvalidDatetimeFormat`, `DatetimeOverflow`.
pub fn parse_time(text: &str, style: &TextStyle) -> Result<i64> {
    let reading = scan(text, "time", style)?;
    if !reading.has_time {
        return Err(bad_format("time", text));
    }
    let micros = micros(reading.nanos, reading.round_up);
    if micros > DAY_NS / 1_000 {
        return Err(field_overflow(text));
    }
    Ok(micros)
}

/// Converts nanoseconds to microseconds, rounded to the nearest. Halves round to even, as in
/// PostgreSQL, unless `more` is true: then further digits were cut off, and the value is above one
/// half.
#[inline]
fn micros(nanos: i64, more: bool) -> i64 {
    let (whole, rest) = (nanos / 1_000, nanos % 1_000);
    let up = rest > 500 || rest == 500 && (more || whole % 2 != 0);
    whole + i64::from(up)
}

#[inline]
fn two(bytes: &[u8], at: usize) -> Option<i64> {
    match bytes.get(at..at + 2) {
        Some(&[a @ b'0'..=b'9', b @ b'0'..=b'9']) => {
            Some(i64::from(a - b'0') * 10 + i64::from(b - b'0'))
        }
        _ => None,
    }
}

/// Parses a date `YYYY-MM-DD` at the start of the bytes to days since 1970-01-01. `None` for any
/// other form.
#[inline]
fn date_at(bytes: &[u8]) -> Option<i64> {
    if bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return None;
    }
    let year = two(bytes, 0)? * 100 + two(bytes, 2)?;
    let month = u32::try_from(two(bytes, 5)?).ok()?;
    let day = u32::try_from(two(bytes, 8)?).ok()?;
    let civil = Civil { year, month, day };
    (year > 0 && is_valid(civil)).then(|| days_of(civil))
}

/// The fast path: parses the usual form `YYYY-MM-DD[T ]HH:MM:SS[.fraction][Z|±HH[[:]MM]]`. `None`
/// for any other form, even if it is valid.
#[inline]
fn fast(bytes: &[u8]) -> Option<ParsedDatetime> {
    let days = date_at(bytes)?;
    if !matches!(bytes.get(10), Some(b' ' | b'T'))
        || bytes.get(13) != Some(&b':')
        || bytes.get(16) != Some(&b':')
    {
        return None;
    }
    let (hour, minute, second) = (two(bytes, 11)?, two(bytes, 14)?, two(bytes, 17)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut nanos = (hour * 3600 + minute * 60 + second) * SECOND_NS;
    let mut rest = bytes.get(19..)?;
    let mut round_up = false;
    if let Some((b'.', digits)) = rest.split_first() {
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (fraction, after) = digits.split_at(length);
        let (value, up) = fraction_nanos(fraction)?;
        nanos += value;
        round_up = up;
        rest = after;
    }
    let place = match rest {
        [] => None,
        [b'Z'] => Some(ZonePart::East(0)),
        [sign @ (b'+' | b'-'), offset @ ..] => {
            let hours = two(offset, 0)?;
            let minutes = match offset.get(2..)? {
                [] => 0,
                [b':', _, _] => two(offset, 3)?,
                [_, _] => two(offset, 2)?,
                _ => return None,
            };
            if hours > 15 || minutes > 59 {
                return None;
            }
            let east = i32::try_from(hours * 3600 + minutes * 60).ok()?;
            Some(ZonePart::East(if *sign == b'-' { -east } else { east }))
        }
        _ => return None,
    };
    Some(ParsedDatetime { days: Some(days), nanos, round_up, has_time: true, place })
}

/// Converts the digits of a second's fraction to nanoseconds. The second result is true if the
/// tenth digit is 5 or more. `None` if there are no digits.
#[inline]
fn fraction_nanos(digits: &[u8]) -> Option<(i64, bool)> {
    if digits.is_empty() {
        return None;
    }
    let mut nanos = 0;
    for at in 0..9 {
        let digit = digits.get(at).map_or(0, |byte| i64::from(byte - b'0'));
        nanos = nanos * 10 + digit;
    }
    Some((nanos, digits.get(9).is_some_and(|digit| *digit >= b'5')))
}
