//! Parses intervals in three formats: PostgreSQL's verbose format, the format of the SQL standard,
//! and ISO 8601.

use stratalog_model::{Error, ErrorKind, Result};

use super::{
    shortened, trim,
    words::{self, Unit},
};
use crate::{style::IntervalStyle, write::interval::Interval};

/// Adds up the parts of an interval. As in PostgreSQL, the fraction of a large unit becomes smaller
/// units: a fraction of a year becomes months, of a month becomes days (30 per month), and of a day
/// becomes hours and smaller units.
#[derive(Debug, Default)]
struct IntervalSum {
    months: i128,
    days: i128,
    nanos: i128,
    /// The units already parsed. PostgreSQL accepts each unit only once.
    seen: Vec<Unit>,
}

/// A decimal number: `sign × (whole + fraction / 10^9)`.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    negative: bool,
    whole: i128,
    billionths: i128,
}

impl Decimal {
    fn in_billionths(self) -> i128 {
        let magnitude = self.whole * 1_000_000_000 + self.billionths;
        if self.negative { -magnitude } else { magnitude }
    }
}

const BILLION: i128 = 1_000_000_000;
/// A number that is larger than every interval, but small enough to be rounded without overflow.
const FAR: i128 = i128::MAX / 2;
const DAY_NANOS: i128 = 86_400 * BILLION;

impl IntervalSum {
    fn add(&mut self, value: Decimal, unit: Unit) {
        let billionths = value.in_billionths();
        match unit {
            Unit::Months(1) => {
                self.months += billionths / BILLION;
                self.add_day_billionths(billionths % BILLION * 30);
            }
            Unit::Months(count) => {
                let months = billionths * i128::from(count);
                // PostgreSQL rounds the fraction of a year to whole months.
                let whole = billionths / BILLION * i128::from(count);
                let fraction = months - whole * BILLION;
                self.months += whole + round(fraction);
            }
            Unit::Days(count) => self.add_day_billionths(billionths * i128::from(count)),
            // A number beyond this limit is out of range in any case, so it may be clamped.
            Unit::Nanos(count) => {
                let nanos = billionths.saturating_mul(i128::from(count)).clamp(-FAR, FAR);
                self.nanos = self.nanos.saturating_add(round(nanos));
            }
        }
    }

    fn add_day_billionths(&mut self, billionths: i128) {
        self.days += billionths / BILLION;
        self.nanos += round(billionths % BILLION * DAY_NANOS);
    }

    fn finish(self, text: &str, ago: bool) -> Result<Interval> {
        let sign = if ago { -1 } else { 1 };
        let range = || {
            Error::new(
                ErrorKind::IntervalOverflow,
                format!("interval field value out of range: \"{}\"", shortened(text)),
            )
        };
        let narrow = |value: i128| i32::try_from(value * sign).map_err(|_| range());
        let nanos = i64::try_from(self.nanos * sign).map_err(|_| range())?;
        Ok(Interval {
            months: narrow(self.months)?,
            days: narrow(self.days)?,
            nanos: i128::from(nanos),
        })
    }
}

/// Converts billionths to a whole number, rounded half away from zero.
fn round(billionths: i128) -> i128 {
    (billionths + billionths.signum() * (BILLION / 2)) / BILLION
}

fn invalid(text: &str) -> Error {
    Error::new(
        ErrorKind::InvalidDatetimeFormat,
        format!("invalid input syntax for type interval: \"{}\"", shortened(text)),
    )
}

/// Parses an interval; its time must fit an `i64` of nanoseconds. In the style of the SQL standard,
/// a minus sign at the start applies to all parts, if no other part has a sign.
///
/// # Errors
/// `InvalidDatetimeFormat`, `IntervalOverflow`; `FeatureNotSupported` for infinity.
pub fn parse_interval(text: &str, style: IntervalStyle) -> Result<Interval> {
    let trimmed = trim(text);
    if trimmed.trim_start_matches(['-', '+']).eq_ignore_ascii_case("infinity") {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("interval cannot hold \"{trimmed}\""),
        ));
    }
    match trimmed.strip_prefix('P') {
        Some(rest) => iso_8601(text, rest),
        None => {
            let negative = style == IntervalStyle::SqlStandard && has_one_minus(trimmed);
            verbose(text, trimmed, negative)
        }
    }
}

/// Parses a decimal number at the start of the text; returns the number and the rest of the text.
fn decimal(text: &str) -> Option<(Decimal, &str)> {
    let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let whole_length = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, mut rest) = unsigned.split_at(whole_length);
    let mut billionths = 0;
    let mut fraction_length = 0;
    if let Some(after) = rest.strip_prefix('.') {
        fraction_length = after.bytes().take_while(u8::is_ascii_digit).count();
        let (fraction, after) = after.split_at(fraction_length);
        let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
        billionths = digits.fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'));
        if fraction.as_bytes().get(9).is_some_and(|digit| *digit >= b'5') {
            billionths += 1;
        }
        rest = after;
    }
    if whole_length == 0 && fraction_length == 0 || whole_length > 18 {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    Some((Decimal { negative, whole, billionths }, rest))
}

fn iso_8601(text: &str, mut rest: &str) -> Result<Interval> {
    let mut sum = IntervalSum::default();
    let mut in_time = false;
    let mut parts = 0;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(['T', 't']) {
            if in_time {
                return Err(invalid(text));
            }
            in_time = true;
            rest = after;
            continue;
        }
        let (value, after) = decimal(rest).ok_or_else(|| invalid(text))?;
        let mut characters = after.chars();
        let unit = match (in_time, characters.next().map(|unit| unit.to_ascii_uppercase())) {
            (false, Some('Y')) => Unit::Months(12),
            (false, Some('M')) => Unit::Months(1),
            (false, Some('W')) => Unit::Days(7),
            (false, Some('D')) => Unit::Days(1),
            (true, Some('H')) => Unit::Nanos(3_600_000_000_000),
            (true, Some('M')) => Unit::Nanos(60_000_000_000),
            (true, Some('S')) => Unit::Nanos(1_000_000_000),
            _ => return Err(invalid(text)),
        };
        sum.add(value, unit);
        parts += 1;
        rest = characters.as_str();
    }
    if parts == 0 {
        return Err(invalid(text));
    }
    sum.finish(text, false)
}

/// True if the text starts with a minus sign, and no other part has a sign.
fn has_one_minus(text: &str) -> bool {
    let starts_part =
        |before: char| before.is_whitespace() || before == ',' || before.is_alphabetic();
    let mut pairs = text.chars().zip(text.chars().skip(1));
    text.starts_with('-')
        && !pairs.any(|(before, sign)| matches!(sign, '-' | '+') && starts_part(before))
}

/// Parses PostgreSQL's verbose format. If `negative`, all parts are negative.
fn verbose(text: &str, trimmed: &str, negative: bool) -> Result<Interval> {
    let mut sum = IntervalSum::default();
    let mut rest = trimmed.strip_prefix('@').unwrap_or(trimmed);
    let mut parts = 0;
    let mut ago = false;
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace());
        if rest.is_empty() {
            break;
        }
        if ago {
            return Err(invalid(text));
        }
        if rest.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) {
            if !rest.eq_ignore_ascii_case("ago") || parts == 0 {
                return Err(invalid(text));
            }
            ago = true;
            rest = "";
            continue;
        }
        // White space may follow a sign.
        let spaced = rest.strip_prefix(['-', '+']).map(str::trim_start);
        let (mut value, after) =
            match spaced.filter(|after| after.starts_with(|c: char| c.is_ascii_digit())) {
                Some(unsigned) => decimal(unsigned),
                None => decimal(rest),
            }
            .ok_or_else(|| invalid(text))?;
        value.negative = negative || rest.starts_with('-');
        parts += 1;
        if after.starts_with(':') {
            rest = clock(text, rest, value.negative, &mut sum)?;
            continue;
        }
        if let Some(months) = after.strip_prefix('-') {
            // Years and months have the form `years-months` in the format of the SQL standard.
            let (second, tail) = decimal(months).ok_or_else(|| invalid(text))?;
            let third = tail.starts_with('-');
            if value.billionths != 0 || second.billionths != 0 || second.whole > 11 || third {
                return Err(invalid(text));
            }
            sum.add(value, Unit::Months(12));
            sum.add(Decimal { negative: value.negative, ..second }, Unit::Months(1));
            rest = tail;
            continue;
        }
        let after = after.trim_start();
        let length = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (word, tail) = after.split_at(length);
        let unit = match word.to_ascii_lowercase().as_str() {
            // A number without a unit means days before a time, and otherwise seconds.
            "" if tail
                .as_bytes()
                .first()
                .is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-'))
                && tail.contains(':') =>
            {
                Unit::Days(1)
            }
            "" if tail.is_empty() => Unit::Nanos(1_000_000_000),
            word => words::unit(word).ok_or_else(|| invalid(text))?,
        };
        if sum.seen.contains(&unit) {
            return Err(invalid(text));
        }
        sum.seen.push(unit);
        // After seconds with a fraction, milliseconds and microseconds count as already parsed.
        if unit == Unit::Nanos(1_000_000_000) && value.billionths != 0 {
            sum.seen.extend([Unit::Nanos(1_000_000), Unit::Nanos(1_000)]);
        }
        sum.add(value, unit);
        rest = tail;
    }
    if parts == 0 {
        return Err(invalid(text));
    }
    sum.finish(text, ago)
}

/// Parses a time `[±]HH:MM[:SS[.fraction]]`, and adds it to `sum`.
fn clock<'a>(text: &str, rest: &'a str, negative: bool, sum: &mut IntervalSum) -> Result<&'a str> {
    let end = rest
        .bytes()
        .position(|byte| !(byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'+' | b'-')))
        .unwrap_or(rest.len());
    let (clock, tail) = rest.split_at(end);
    let units = [3_600_000_000_000, 60_000_000_000, 1_000_000_000];
    let mut fields = 0;
    for (at, part) in clock.trim_start_matches(['-', '+']).split(':').enumerate() {
        let unit = units.get(at).ok_or_else(|| invalid(text))?;
        if sum.seen.contains(&Unit::Nanos(*unit)) {
            return Err(invalid(text));
        }
        let (value, junk) = decimal(part).ok_or_else(|| invalid(text))?;
        if !junk.is_empty() || part.starts_with(['-', '+']) || (at < 2 && value.billionths != 0) {
            return Err(invalid(text));
        }
        if at > 0 && value.whole > 59 {
            return Err(Error::new(
                ErrorKind::IntervalOverflow,
                format!("interval field value out of range: \"{}\"", shortened(text)),
            ));
        }
        sum.add(Decimal { negative, ..value }, Unit::Nanos(*unit));
        fields += 1;
    }
    if fields < 2 {
        return Err(invalid(text));
    }
    sum.seen.extend(units.map(Unit::Nanos));
    Ok(tail)
}
