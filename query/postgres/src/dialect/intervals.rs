//! Rewrites constant intervals. This project's own parser reads the interval, with the fields and
//! the precision of the constant (`interval '1-2' YEAR TO MONTH`, `'1.23 s'::interval(1)`). The
//! rewritten interval uses units that the planner's parser knows.

use arrow::{
    array::AsArray,
    datatypes::{IntervalMonthDayNano, IntervalMonthDayNanoType},
};
use datafusion::sql::sqlparser::ast::{
    DataType, DateTimeField, Expr, Interval, IntervalFields, UnaryOperator, Value, ValueWithSpan,
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_text::{TextStyle, parse_value};

const SECOND_NS: i64 = 1_000_000_000;

/// Rewrites one expression.
///
/// # Errors
/// An error in an interval.
pub fn respell(expr: &mut Expr, style: &TextStyle) -> Result<()> {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => {
            if let Expr::Interval(interval) = inner.as_mut() {
                constant(interval, true, style)?;
                *expr = Expr::Nested(Box::new(Expr::Interval(interval.clone())));
            }
        }
        Expr::Interval(interval) => constant(interval, false, style)?,
        Expr::Cast { expr: inner, data_type: DataType::Interval { fields, precision }, .. }
            if fields.is_some() || precision.is_some() =>
        {
            let inner = match inner.as_ref() {
                Expr::Interval(interval) => interval.value.as_ref(),
                inner => inner,
            };
            if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = inner
            {
                let limits =
                    IntervalPrecision { fields: fields.as_ref().map(span), digits: *precision };
                *expr = read(text, limits, false, style)?;
            }
        }
        Expr::TypedString(typed) => {
            if let DataType::Interval { fields, precision } = &typed.data_type
                && let Value::SingleQuotedString(text) = &typed.value.value
            {
                let limits =
                    IntervalPrecision { fields: fields.as_ref().map(span), digits: *precision };
                *expr = read(text, limits, false, style)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// A field of an interval, in order from the longest to the shortest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum IntervalPart {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

/// The fields and the decimal digits to which a constant interval is cut.
#[derive(Debug, Clone, Copy, Default)]
struct IntervalPrecision {
    fields: Option<(IntervalPart, IntervalPart)>,
    /// Decimal digits of the seconds.
    digits: Option<u64>,
}

fn span(fields: &IntervalFields) -> (IntervalPart, IntervalPart) {
    match fields {
        IntervalFields::Year => (IntervalPart::Year, IntervalPart::Year),
        IntervalFields::Month => (IntervalPart::Month, IntervalPart::Month),
        IntervalFields::Day => (IntervalPart::Day, IntervalPart::Day),
        IntervalFields::Hour => (IntervalPart::Hour, IntervalPart::Hour),
        IntervalFields::Minute => (IntervalPart::Minute, IntervalPart::Minute),
        IntervalFields::Second => (IntervalPart::Second, IntervalPart::Second),
        IntervalFields::YearToMonth => (IntervalPart::Year, IntervalPart::Month),
        IntervalFields::DayToHour => (IntervalPart::Day, IntervalPart::Hour),
        IntervalFields::DayToMinute => (IntervalPart::Day, IntervalPart::Minute),
        IntervalFields::DayToSecond => (IntervalPart::Day, IntervalPart::Second),
        IntervalFields::HourToMinute => (IntervalPart::Hour, IntervalPart::Minute),
        IntervalFields::HourToSecond => (IntervalPart::Hour, IntervalPart::Second),
        IntervalFields::MinuteToSecond => (IntervalPart::Minute, IntervalPart::Second),
    }
}

fn part(field: &DateTimeField) -> Option<IntervalPart> {
    Some(match field {
        DateTimeField::Year | DateTimeField::Years => IntervalPart::Year,
        DateTimeField::Month | DateTimeField::Months => IntervalPart::Month,
        DateTimeField::Day | DateTimeField::Days => IntervalPart::Day,
        DateTimeField::Hour | DateTimeField::Hours => IntervalPart::Hour,
        DateTimeField::Minute | DateTimeField::Minutes => IntervalPart::Minute,
        DateTimeField::Second | DateTimeField::Seconds => IntervalPart::Second,
        _ => return None,
    })
}

fn constant(interval: &mut Interval, negative: bool, style: &TextStyle) -> Result<()> {
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) =
        interval.value.as_ref()
    else {
        return Ok(());
    };
    let fields = match (&interval.leading_field, &interval.last_field) {
        (None, _) => None,
        (Some(first), last) => {
            let first = part(first);
            let last = last.as_ref().map_or(first, part);
            match first.zip(last) {
                Some(fields) => Some(fields),
                None => return Ok(()),
            }
        }
    };
    let digits = interval.fractional_seconds_precision.or(interval.leading_precision);
    // The parser also reads the row count of a window frame as an interval.
    let is_count = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_count && !negative && fields.is_none() {
        return Ok(());
    }
    if let Expr::Interval(read) = read(text, IntervalPrecision { fields, digits }, negative, style)?
    {
        *interval = read;
    }
    Ok(())
}

/// Reads `text` as an interval, cuts it to `limits`, and returns it as an expression.
fn read(text: &str, limits: IntervalPrecision, negative: bool, style: &TextStyle) -> Result<Expr> {
    let text = limits.fields.map_or_else(|| text.to_string(), |fields| with_unit(text, fields));
    let array = parse_value(Some(&text), &ColumnType::Interval, style)?;
    let value = array
        .as_primitive_opt::<IntervalMonthDayNanoType>()
        .and_then(|array| array.iter().next().flatten())
        .ok_or_else(|| Error::internal("an interval was read"))?;
    let mut value = limits.applied(value)?;
    if negative {
        value = IntervalMonthDayNano {
            months: value.months.saturating_neg(),
            days: value.days.saturating_neg(),
            nanoseconds: value.nanoseconds.saturating_neg(),
        };
    }
    let sign = if value.nanoseconds < 0 { "-" } else { "" };
    let nanoseconds = value.nanoseconds.unsigned_abs();
    let text = format!(
        "{} months {} days {sign}{}.{:09} seconds",
        value.months,
        value.days,
        nanoseconds / 1_000_000_000,
        nanoseconds % 1_000_000_000
    );
    Ok(Expr::Interval(Interval {
        value: Box::new(Expr::Value(Value::SingleQuotedString(text).into())),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    }))
}

/// Adds the unit to a bare number: the number counts the last of the given fields. Under MINUTE TO
/// SECOND, two numbers with a colon are minutes and seconds.
fn with_unit(text: &str, (first, last): (IntervalPart, IntervalPart)) -> String {
    let trimmed = text.trim();
    // In `5 day 1`, the number follows another unit.
    let number = match trimmed.rsplit_once(' ') {
        Some((before, number)) if before.ends_with(|last: char| last.is_ascii_alphabetic()) => {
            number
        }
        _ => trimmed,
    };
    let unsigned = number.trim_start_matches(['+', '-']);
    let is_number =
        !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number {
        let unit = match last {
            IntervalPart::Year => "years",
            IntervalPart::Month => "months",
            IntervalPart::Day => "days",
            IntervalPart::Hour => "hours",
            IntervalPart::Minute => "minutes",
            IntervalPart::Second => "seconds",
        };
        return format!("{trimmed} {unit}");
    }
    if (first, last) == (IntervalPart::Minute, IntervalPart::Second)
        && let Some((before, seconds)) = trimmed.split_once(':')
        && !seconds.contains(':')
    {
        let (days, minutes) = before.rsplit_once(' ').unwrap_or(("", before));
        let bare = minutes.trim_start_matches(['+', '-']);
        let sign = minutes.strip_suffix(bare).unwrap_or("");
        return format!("{days} {sign}00:{bare}:{seconds}").trim_start().to_string();
    }
    text.to_string()
}

impl IntervalPrecision {
    fn applied(self, value: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
        let IntervalMonthDayNano { mut months, mut days, mut nanoseconds } = value;
        if let Some((_, last)) = self.fields {
            let unit = match last {
                IntervalPart::Year | IntervalPart::Month | IntervalPart::Day => i64::MAX,
                IntervalPart::Hour => 3_600 * SECOND_NS,
                IntervalPart::Minute => 60 * SECOND_NS,
                IntervalPart::Second => 1,
            };
            nanoseconds -= nanoseconds % unit;
            if last <= IntervalPart::Day {
                nanoseconds = 0;
            }
            if last <= IntervalPart::Month {
                days = 0;
            }
            if last == IntervalPart::Year {
                months -= months % 12;
            }
        }
        if let Some(digits) = self.digits {
            let digits = u32::try_from(digits).ok().filter(|digits| *digits <= 9);
            let digits = digits.ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidParameterValue,
                    "the precision of an interval is at most 9",
                )
            })?;
            let unit = SECOND_NS / 10_i64.pow(digits);
            let half = if nanoseconds < 0 { -unit / 2 } else { unit / 2 };
            nanoseconds = nanoseconds.saturating_add(half) / unit * unit;
        }
        Ok(IntervalMonthDayNano { months, days, nanoseconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn constants_keep_their_fields() {
        for (sql, wanted) in [
            ("interval '25:00:00'", "INTERVAL '0 months 0 days 90000.000000000 seconds'"),
            ("- interval '1 mon -3 days'", "(INTERVAL '-1 months 3 days 0.000000000 seconds')"),
            ("interval '-1 mon 3 days'", "INTERVAL '-1 months 3 days 0.000000000 seconds'"),
            ("interval '1-2' YEAR TO MONTH", "INTERVAL '14 months 0 days 0.000000000 seconds'"),
            ("interval '5 day 1' hour", "INTERVAL '0 months 5 days 3600.000000000 seconds'"),
            ("interval '999' second", "INTERVAL '0 months 0 days 999.000000000 seconds'"),
            (
                "interval '1 2:03:04' day to hour",
                "INTERVAL '0 months 1 days 7200.000000000 seconds'",
            ),
            (
                "interval '2:03' minute to second",
                "INTERVAL '0 months 0 days 123.000000000 seconds'",
            ),
            ("'00:00:01.6'::interval(0)", "INTERVAL '0 months 0 days 2.000000000 seconds'"),
            ("'1.23 s'::interval(1)", "INTERVAL '0 months 0 days 1.200000000 seconds'"),
        ] {
            let mut expr = parse::expression(sql).unwrap();
            respell(&mut expr, &TextStyle::default()).unwrap();
            assert_eq!(expr.to_string(), wanted, "{sql}");
        }
    }
}
