//! The functions `to_char`, `to_timestamp` and `to_date`, which use PostgreSQL's patterns for
//! times, for example `YYYY-MM-DD HH24:MI:SS`. `to_char` of numbers uses another module.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, Date32Array, TimestampMicrosecondArray},
    compute::cast,
    datatypes::{DataType, IntervalMonthDayNanoType, TimeUnit, TimestampMicrosecondType},
};
use datafusion::{common::Result, logical_expr::Volatility};
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_text::calendar::{DAY_SECONDS, days_of};

use crate::{
    failed,
    function::{Arguments, Function, Parameter, text_at, text_rows},
    literal::style_of,
    number_pattern,
};

mod fields;
mod reading;
mod writing;

use fields::{Node, read};
use writing::TimePieces;

const SECOND_US: i64 = 1_000_000;

/// The SQL functions that this module declares.
pub fn functions() -> Vec<Function> {
    use Parameter::{Any, Text};
    vec![
        Function::immutable(
            "to_char",
            &[&[Any, Text]],
            ColumnType::Text,
            "A time, an interval or a number in the form of a pattern such as 'YYYY-MM-DD HH24:MI:SS.MS' or 'FM999,990.00', in the session's time zone.",
            to_char,
        ),
        Function {
            volatility: Volatility::Stable,
            ..Function::immutable(
                "to_timestamp",
                &[&[Parameter::Double], &[Text, Text]],
                ColumnType::TimestampTz { precision: 6 },
                "The time a given number of seconds after the start of 1970, or the time in a text with the form of a pattern, in the session's time zone.",
                to_timestamp,
            )
        },
        Function::immutable(
            "to_date",
            &[&[Text, Text]],
            ColumnType::Date,
            "The date in a text with the form of a pattern.",
            to_date,
        ),
    ]
}

/// The pattern of the previous row with its parsed form. The next row often has the same pattern.
#[derive(Default)]
struct CachedNodes(Option<(String, Vec<Node>)>);

impl CachedNodes {
    fn nodes(&mut self, text: &str) -> &[Node] {
        let known = self.0.take().filter(|(last, _)| last == text);
        &self.0.insert(known.unwrap_or_else(|| (text.to_string(), read(text)))).1
    }
}

fn to_char(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let values = arguments.array(0)?;
    let zoned = match values.data_type() {
        DataType::Timestamp(_, zone) => zone.is_some(),
        DataType::Date32 => false,
        DataType::Interval(_) => return intervals_to_char(arguments),
        kind if kind.is_numeric() => return number_pattern::to_char(arguments),
        other => {
            let name = crate::function::sql_name(other);
            return Err(failed(Error::new(
                ErrorKind::UndefinedFunction,
                format!("function to_char({name}, text) does not exist"),
            )));
        }
    };
    let times = cast(values, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let patterns = arguments.text(1)?;
    let zone = zoned.then(|| style_of(arguments.config).time_zone);
    let mut known = CachedNodes::default();
    text_rows(arguments.rows, |row| {
        let pattern = text_at(patterns, row).filter(|pattern| !pattern.is_empty());
        let Some(pattern) = pattern.filter(|_| times.is_valid(row)) else { return Ok(None) };
        let shown = TimePieces::of_time(times.value(row), zone.as_ref());
        writing::text(known.nodes(pattern), &shown).map(Some).map_err(failed)
    })
}

fn intervals_to_char(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let intervals = arguments.array(0)?.as_primitive::<IntervalMonthDayNanoType>();
    let patterns = arguments.text(1)?;
    let mut known = CachedNodes::default();
    text_rows(arguments.rows, |row| {
        let pattern = text_at(patterns, row).filter(|pattern| !pattern.is_empty());
        let Some(pattern) = pattern.filter(|_| intervals.is_valid(row)) else { return Ok(None) };
        let shown = TimePieces::of_interval(intervals.value(row));
        writing::text(known.nodes(pattern), &shown).map(Some).map_err(failed)
    })
}

fn to_timestamp(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let times: TimestampMicrosecondArray = match arguments.has(1) {
        false => (0..arguments.rows)
            .zip(arguments.doubles(0)?)
            .map(|(_, seconds)| seconds.map(micros).transpose().map_err(failed))
            .collect::<Result<_>>()?,
        true => {
            let zone = style_of(arguments.config).time_zone;
            let (texts, patterns) = (arguments.text(0)?, arguments.text(1)?);
            let mut known = CachedNodes::default();
            let mut time = |row: usize| -> Result<Option<i64>> {
                let (Some(text), Some(pattern)) = (text_at(texts, row), text_at(patterns, row))
                else {
                    return Ok(None);
                };
                let parsed = reading::parsed(known.nodes(pattern), text).map_err(failed)?;
                let local = days_of(parsed.date)
                    .saturating_mul(DAY_SECONDS)
                    .saturating_add(parsed.second_of_day);
                let east = parsed.east_seconds.unwrap_or_else(|| zone.offset_of_local(local));
                local
                    .checked_sub(i64::from(east))
                    .and_then(|seconds| seconds.checked_mul(SECOND_US))
                    .and_then(|micros| micros.checked_add(parsed.micros))
                    .map(Some)
                    .ok_or_else(|| failed(out_of_range(text)))
            };
            (0..arguments.rows).map(&mut time).collect::<Result<_>>()?
        }
    };
    Ok(Arc::new(times.with_timezone("UTC")))
}

fn out_of_range(text: &str) -> Error {
    Error::new(ErrorKind::DatetimeOverflow, format!("timestamp out of range: \"{text}\""))
}

/// Converts seconds since 1970 to microseconds since 1970.
fn micros(seconds: f64) -> stratalog_model::Result<i64> {
    if seconds.is_nan() {
        return Err(Error::new(ErrorKind::DatetimeOverflow, "timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return Err(Error::not_yet("a timestamp that is infinite"));
    }
    // The range of timestamps is from 4714 BC to 294276 AD.
    if !(-210_866_803_200.0..9_224_318_016_000.0).contains(&seconds) {
        return Err(Error::new(
            ErrorKind::DatetimeOverflow,
            format!("timestamp out of range: \"{seconds}\""),
        ));
    }
    // Rounding happens on seconds since 2000, as in PostgreSQL, because rounding on seconds since
    // 1970 could give another result.
    let from_2000 = (seconds - 946_684_800.0) * 1e6;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be within range")]
    let from_2000 = from_2000.round_ties_even() as i64;
    Ok(from_2000 + 946_684_800 * SECOND_US)
}

fn to_date(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (texts, patterns) = (arguments.text(0)?, arguments.text(1)?);
    let mut known = CachedNodes::default();
    let mut date = |row: usize| -> Result<Option<i32>> {
        let (Some(text), Some(pattern)) = (text_at(texts, row), text_at(patterns, row)) else {
            return Ok(None);
        };
        let parsed = reading::parsed(known.nodes(pattern), text).map_err(failed)?;
        i32::try_from(days_of(parsed.date)).map(Some).map_err(|_| {
            failed(Error::new(
                ErrorKind::DatetimeOverflow,
                format!("date out of range: \"{text}\""),
            ))
        })
    };
    Ok(Arc::new((0..arguments.rows).map(&mut date).collect::<Result<Date32Array>>()?))
}

#[cfg(test)]
mod tests;
