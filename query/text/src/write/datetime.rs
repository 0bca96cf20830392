//! Writes dates, times and timestamps in the ISO 8601 format of PostgreSQL.

use crate::calendar::{Civil, DAY_SECONDS, civil_of};

use super::number::write_integer;

/// Appends a number from 0 to 99 as two digits.
#[inline]
fn push_two(value: i64, out: &mut Vec<u8>) {
    // The value is from 0 to 99. Only the hours of an interval can be larger, and another function
    // writes them.
    let value = u8::try_from(value.rem_euclid(100)).unwrap_or(0);
    out.extend_from_slice(&[b'0' + value / 10, b'0' + value % 10]);
}

/// Appends a decimal point and the digits of the nanoseconds, without trailing zeros. Appends
/// nothing for 0.
pub(crate) fn write_fraction(nanos: u32, out: &mut Vec<u8>) {
    if nanos == 0 {
        return;
    }
    let mut digits = [b'0'; 10];
    let mut rest = nanos;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    if let Some(first) = digits.first_mut() {
        *first = b'.';
    }
    let kept = digits.iter().rposition(|digit| *digit != b'0').unwrap_or(0);
    out.extend(digits.iter().take(kept + 1));
}

fn push_date(civil: Civil, out: &mut Vec<u8>) {
    let year = if civil.year > 0 { civil.year } else { 1 - civil.year };
    if year < 10_000 {
        push_two(year / 100, out);
        push_two(year % 100, out);
    } else {
        write_integer(year, out);
    }
    out.push(b'-');
    push_two(i64::from(civil.month), out);
    out.push(b'-');
    push_two(i64::from(civil.day), out);
}

fn push_era(civil: Civil, out: &mut Vec<u8>) {
    if civil.year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

/// Appends the date that is `days` days after 1970-01-01.
pub fn write_date(days: i64, out: &mut Vec<u8>) {
    let civil = civil_of(days);
    push_date(civil, out);
    push_era(civil, out);
}

/// Appends a time of day as `HH:MM:SS`, with a fraction if `nanos` is not 0.
#[inline]
pub fn write_time(seconds_of_day: i64, nanos: u32, out: &mut Vec<u8>) {
    push_two(seconds_of_day / 3600, out);
    out.push(b':');
    push_two(seconds_of_day / 60 % 60, out);
    out.push(b':');
    push_two(seconds_of_day % 60, out);
    write_fraction(nanos, out);
}

/// Appends a date and time: the local time that is `local_seconds` after 1970-01-01 00:00, plus
/// `nanos`. For a type with a zone, `offset` is the zone's offset in seconds, which is appended.
#[inline]
pub fn write_timestamp(
    local_seconds: i64,
    nanos: u32,
    offset_seconds: Option<i32>,
    out: &mut Vec<u8>,
) {
    let civil = civil_of(local_seconds.div_euclid(DAY_SECONDS));
    push_date(civil, out);
    out.push(b' ');
    write_time(local_seconds.rem_euclid(DAY_SECONDS), nanos, out);
    if let Some(offset) = offset_seconds {
        write_offset(offset, out);
    }
    push_era(civil, out);
}

/// Appends an offset from UTC as `+HH[:MM[:SS]]`.
pub fn write_offset(east_seconds: i32, out: &mut Vec<u8>) {
    out.push(if east_seconds < 0 { b'-' } else { b'+' });
    let seconds = i64::from(east_seconds.unsigned_abs());
    push_two(seconds / 3600, out);
    if seconds % 3600 != 0 {
        out.push(b':');
        push_two(seconds / 60 % 60, out);
        if seconds % 60 != 0 {
            out.push(b':');
            push_two(seconds % 60, out);
        }
    }
}
