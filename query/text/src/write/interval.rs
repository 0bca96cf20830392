//! Writes intervals in the four styles of PostgreSQL's setting `IntervalStyle`.

use crate::style::IntervalStyle;

use super::{datetime::write_fraction, number::write_integer};

/// An interval of months, days and nanoseconds. The three numbers are independent: 24 hours are not
/// one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interval {
    /// The number of months; a year is 12 months.
    pub months: i32,
    /// The number of days.
    pub days: i32,
    /// The number of nanoseconds. Only an Arrow duration in a larger unit can exceed `i64`.
    pub nanos: i128,
}

/// The time of an interval: hours, minutes and seconds, and separately the sign.
struct Clock {
    negative: bool,
    hours: u128,
    minutes: u128,
    seconds: u128,
    nanos: u32,
}

impl Clock {
    fn of(nanos: i128) -> Self {
        let magnitude = nanos.unsigned_abs();
        let seconds = magnitude / 1_000_000_000;
        Self {
            negative: nanos < 0,
            hours: seconds / 3600,
            minutes: seconds / 60 % 60,
            seconds: seconds % 60,
            nanos: u32::try_from(magnitude % 1_000_000_000).unwrap_or(0),
        }
    }
}

/// Appends an interval in the given style.
pub fn write_interval(interval: Interval, style: IntervalStyle, out: &mut Vec<u8>) {
    match style {
        IntervalStyle::Postgres => postgres(interval, out),
        IntervalStyle::PostgresVerbose => verbose(interval, out),
        IntervalStyle::SqlStandard => sql_standard(interval, out),
        IntervalStyle::Iso8601 => iso_8601(interval, out),
    }
}

fn padded(value: u128, out: &mut Vec<u8>) {
    if value < 10 {
        out.push(b'0');
    }
    write_integer(value, out);
}

fn clock_text(clock: &Clock, pad_hours: bool, out: &mut Vec<u8>) {
    if pad_hours {
        padded(clock.hours, out);
    } else {
        write_integer(clock.hours, out);
    }
    out.push(b':');
    padded(clock.minutes, out);
    out.push(b':');
    padded(clock.seconds, out);
    write_fraction(clock.nanos, out);
}

fn postgres(interval: Interval, out: &mut Vec<u8>) {
    let start = out.len();
    let mut before_negative = false;
    let parts =
        [(interval.months / 12, "year"), (interval.months % 12, "mon"), (interval.days, "day")];
    for (value, unit) in parts {
        if value == 0 {
            continue;
        }
        if out.len() > start {
            out.push(b' ');
        }
        if before_negative && value > 0 {
            out.push(b'+');
        }
        write_integer(value, out);
        out.push(b' ');
        out.extend_from_slice(unit.as_bytes());
        if value != 1 {
            out.push(b's');
        }
        before_negative = value < 0;
    }
    if interval.nanos == 0 && out.len() > start {
        return;
    }
    if out.len() > start {
        out.push(b' ');
    }
    let clock = Clock::of(interval.nanos);
    if clock.negative {
        out.push(b'-');
    } else if before_negative {
        out.push(b'+');
    }
    clock_text(&clock, true, out);
}

fn verbose(interval: Interval, out: &mut Vec<u8>) {
    let clock = Clock::of(interval.nanos);
    let time_sign: i128 = if clock.negative { -1 } else { 1 };
    let whole = |value: u128| i128::try_from(value).unwrap_or(i128::MAX) * time_sign;
    let parts = [
        (i128::from(interval.months / 12), "year"),
        (i128::from(interval.months % 12), "mon"),
        (i128::from(interval.days), "day"),
        (whole(clock.hours), "hour"),
        (whole(clock.minutes), "min"),
    ];
    out.push(b'@');
    // True if the first nonzero part is negative. The word "ago" then inverts the sign of all
    // parts.
    let mut ago: Option<bool> = None;
    for (value, unit) in parts {
        if value == 0 {
            continue;
        }
        let turned = *ago.get_or_insert(value < 0);
        let value = if turned { -value } else { value };
        out.push(b' ');
        write_integer(value, out);
        out.push(b' ');
        out.extend_from_slice(unit.as_bytes());
        if value != 1 {
            out.push(b's');
        }
    }
    if clock.seconds != 0 || clock.nanos != 0 {
        let turned = *ago.get_or_insert(clock.negative);
        out.push(b' ');
        if clock.negative != turned {
            out.push(b'-');
        }
        write_integer(clock.seconds, out);
        write_fraction(clock.nanos, out);
        out.extend_from_slice(if clock.seconds == 1 && clock.nanos == 0 {
            b" sec"
        } else {
            b" secs"
        });
    }
    match ago {
        None => out.extend_from_slice(b" 0"),
        Some(true) => out.extend_from_slice(b" ago"),
        Some(false) => {}
    }
}

fn sql_standard(interval: Interval, out: &mut Vec<u8>) {
    let (months, days, nanos) = (interval.months, interval.days, interval.nanos);
    let negative = months < 0 || days < 0 || nanos < 0;
    let positive = months > 0 || days > 0 || nanos > 0;
    let has_year_month = months != 0;
    let has_day_time = days != 0 || nanos != 0;
    let clock = Clock::of(nanos);
    if !has_year_month && !has_day_time {
        out.push(b'0');
        return;
    }
    if (negative && positive) || (has_year_month && has_day_time) {
        // The SQL standard has no format for such an interval, so every part gets a sign.
        let sign = |negative: bool| if negative { b'-' } else { b'+' };
        out.push(sign(months < 0));
        year_month(months, out);
        out.extend_from_slice(&[b' ', sign(days < 0)]);
        write_integer(days.unsigned_abs(), out);
        out.extend_from_slice(&[b' ', sign(nanos < 0)]);
        clock_text(&clock, false, out);
        return;
    }
    if negative {
        out.push(b'-');
    }
    if has_year_month {
        year_month(months, out);
    } else {
        if days != 0 {
            write_integer(days.unsigned_abs(), out);
            out.push(b' ');
        }
        clock_text(&clock, false, out);
    }
}

fn year_month(months: i32, out: &mut Vec<u8>) {
    write_integer(months.unsigned_abs() / 12, out);
    out.push(b'-');
    write_integer(months.unsigned_abs() % 12, out);
}

fn iso_8601(interval: Interval, out: &mut Vec<u8>) {
    if interval == Interval::default() {
        out.extend_from_slice(b"PT0S");
        return;
    }
    out.push(b'P');
    let parts = [(interval.months / 12, b'Y'), (interval.months % 12, b'M'), (interval.days, b'D')];
    for (value, unit) in parts {
        if value != 0 {
            write_integer(value, out);
            out.push(unit);
        }
    }
    let clock = Clock::of(interval.nanos);
    if interval.nanos != 0 {
        out.push(b'T');
    }
    for (value, unit) in [(clock.hours, b'H'), (clock.minutes, b'M')] {
        if value != 0 {
            if clock.negative {
                out.push(b'-');
            }
            write_integer(value, out);
            out.push(unit);
        }
    }
    if clock.seconds != 0 || clock.nanos != 0 {
        if clock.negative {
            out.push(b'-');
        }
        write_integer(clock.seconds, out);
        write_fraction(clock.nanos, out);
        out.push(b'S');
    }
}
