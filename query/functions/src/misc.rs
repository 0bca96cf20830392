//! Various PostgreSQL functions that need no session.

use std::sync::Arc;

use arrow::{
    array::{
        Array as _, ArrayRef, AsArray, BooleanArray, FixedSizeBinaryBuilder, Int32Array,
        TimestampMicrosecondArray,
    },
    buffer::BooleanBuffer,
    datatypes::{DataType, Field},
};
use datafusion::{common::Result, logical_expr::Volatility};
use stratalog_model::{ColumnType, Error, ErrorKind};

use crate::{
    failed,
    function::{Arguments, Function, Parameter, text_at, text_rows},
    interval,
    quote::{quote_ident, quote_literal},
};

use Parameter::{Any, Array, Double, Integer, Interval, Text, Time};

/// The SQL functions that this module declares.
pub fn functions() -> Vec<Function> {
    let volatile = |name,
                    parameters,
                    returns: ColumnType,
                    description,
                    run: fn(&Arguments<'_>) -> Result<_>| {
        Function {
            volatility: Volatility::Volatile,
            ..Function::immutable(name, parameters, returns, description, run)
        }
    };
    // A result that depends on the session's time zone is constant only within one statement.
    let stable = |name,
                  parameters,
                  returns: ColumnType,
                  description,
                  run: fn(&Arguments<'_>) -> Result<_>| {
        Function {
            volatility: Volatility::Stable,
            ..Function::immutable(name, parameters, returns, description, run)
        }
    };
    vec![
        Function::immutable(
            "like_escape",
            &[&[Text, Text]],
            ColumnType::Text,
            "A pattern of LIKE with another escape character, rewritten with a backslash.",
            like_escape,
        ),
        volatile(
            "gen_random_uuid",
            &[&[]],
            ColumnType::Uuid,
            "A random (version 4) uuid.",
            random_uuids,
        ),
        Function::immutable(
            "uuid_in",
            &[&[Text]],
            ColumnType::Uuid,
            "Reads a uuid: what a cast of text to uuid calls.",
            |arguments| parsed(arguments, &ColumnType::Uuid),
        ),
        Function::immutable(
            "bytea_in",
            &[&[Text]],
            ColumnType::Bytea,
            "Reads bytes written as '\\x0a0b' or with escapes: what a cast of text to bytea calls.",
            |arguments| parsed(arguments, &ColumnType::Bytea),
        ),
        Function::immutable(
            "interval_in",
            &[&[Text]],
            ColumnType::Interval,
            "Reads an interval: what a cast of text to interval calls.",
            |arguments| parsed(arguments, &ColumnType::Interval),
        ),
        stable(
            "text",
            &[&[Any]],
            ColumnType::Text,
            "The value as text: what a cast to text calls.",
            crate::text_form::texts,
        ),
        volatile(
            "clock_timestamp",
            &[&[]],
            ColumnType::TimestampTz { precision: 6 },
            "The current time, which changes within a statement.",
            clock_timestamp,
        ),
        Function::immutable(
            "pg_typeof",
            &[&[Any]],
            ColumnType::Text,
            "Name of the type of a value.",
            type_names,
        ),
        Function::immutable(
            "quote_ident",
            &[&[Text]],
            ColumnType::Text,
            "A name, in double quotes if SQL needs quotes.",
            |arguments| each_text(arguments, |text| Some(quote_ident(text))),
        ),
        Function::immutable(
            "quote_literal",
            &[&[Any]],
            ColumnType::Text,
            "A string in single quotes.",
            |arguments| quoted(arguments, None),
        ),
        Function::immutable(
            "quote_nullable",
            &[&[Any]],
            ColumnType::Text,
            "A string in single quotes; NULL as the word.",
            |arguments| quoted(arguments, Some("NULL")),
        ),
        Function::immutable(
            "array_lower",
            &[&[Array, Integer]],
            ColumnType::Integer,
            "First subscript of an array: 1, or NULL for an empty array.",
            |arguments| bounds(arguments, |_| 1),
        ),
        Function::immutable(
            "array_upper",
            &[&[Array, Integer]],
            ColumnType::Integer,
            "Last subscript of an array, or NULL for an empty array.",
            |arguments| bounds(arguments, |length| length),
        ),
        Function::immutable(
            "make_interval",
            &[
                &[],
                &[Integer],
                &[Integer, Integer],
                &[Integer, Integer, Integer],
                &[Integer, Integer, Integer, Integer],
                &[Integer, Integer, Integer, Integer, Integer],
                &[Integer, Integer, Integer, Integer, Integer, Integer],
                &[Integer, Integer, Integer, Integer, Integer, Integer, Double],
            ],
            ColumnType::Interval,
            "An interval from years, months, weeks, days, hours, minutes and seconds.",
            interval::make,
        ),
        Function::immutable(
            "isfinite",
            &[&[Time], &[Interval]],
            ColumnType::Boolean,
            "Whether a time or an interval is finite: always true.",
            |arguments| {
                let given = arguments.array(0)?;
                Ok(Arc::new(BooleanArray::new(
                    BooleanBuffer::new_set(arguments.rows),
                    given.nulls().cloned(),
                )))
            },
        ),
        volatile(
            "timeofday",
            &[&[]],
            ColumnType::Text,
            "The current time as text such as 'Mon Jan 01 12:00:00.123456 2024 UTC', in the session's time zone.",
            interval::time_of_day,
        ),
        Function::immutable(
            "interval_of_time",
            &[&[Any]],
            ColumnType::Interval,
            "The time since midnight: what a cast of time to interval calls.",
            interval::of_time,
        ),
        Function::immutable(
            "time_of_interval",
            &[&[Interval]],
            ColumnType::Time,
            "The time of day that an interval is without its days: what a cast of interval to time calls.",
            interval::as_time,
        ),
        Function::immutable(
            "justify_days",
            &[&[Interval]],
            ColumnType::Interval,
            "30 days become a month.",
            |arguments| interval::map(arguments, interval::justify_days),
        ),
        Function::immutable(
            "justify_hours",
            &[&[Interval]],
            ColumnType::Interval,
            "24 hours become a day.",
            |arguments| interval::map(arguments, interval::justify_hours),
        ),
        Function::immutable(
            "justify_interval",
            &[&[Interval]],
            ColumnType::Interval,
            "24 hours become a day and 30 days become a month, all parts with one sign.",
            |arguments| interval::map(arguments, interval::justify_interval),
        ),
        Function::immutable(
            "age",
            &[&[Time, Time]],
            ColumnType::Interval,
            "The first time minus the second, in years, months, days and time.",
            interval::age,
        ),
    ]
}

fn like_escape(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (patterns, escapes) = (arguments.text(0)?, arguments.text(1)?);
    text_rows(arguments.rows, |row| {
        let (Some(pattern), Some(escape)) = (text_at(patterns, row), text_at(escapes, row)) else {
            return Ok(None);
        };
        let mut characters = escape.chars();
        let (escape, more) = (characters.next(), characters.next());
        if more.is_some() {
            return Err(failed(
                Error::new(ErrorKind::InvalidEscape, "invalid escape string")
                    .with_hint("Escape string must be empty or one character."),
            ));
        }
        Ok(Some(with_backslashes(pattern, escape)))
    })
}

/// Rewrites a LIKE pattern to an equivalent pattern whose escape character is the backslash.
/// `escape` is the escape character of `pattern`; `None` if it has none.
pub fn with_backslashes(pattern: &str, escape: Option<char>) -> String {
    let mut written = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        if Some(character) == escape {
            written.push('\\');
            written.extend(rest.next());
        } else {
            if character == '\\' {
                written.push('\\');
            }
            written.push(character);
        }
    }
    written
}

fn random_uuids(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let mut builder = FixedSizeBinaryBuilder::with_capacity(arguments.rows, 16);
    for _ in 0..arguments.rows {
        builder.append_value(uuid::Uuid::new_v4().as_bytes())?;
    }
    Ok(Arc::new(builder.finish()))
}

fn clock_timestamp(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let times = (0..arguments.rows).map(|_| chrono::Utc::now().timestamp_micros());
    Ok(Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC")))
}

/// Parses the texts in argument 0 to an array of `column_type`.
fn parsed(arguments: &Arguments<'_>, column_type: &ColumnType) -> Result<ArrayRef> {
    let text = arguments.text(0)?;
    let mut builder = stratalog_text::ColumnBuilder::new(column_type, arguments.rows);
    let style = crate::literal::style_of(arguments.config);
    for row in 0..arguments.rows {
        match text_at(text, row) {
            Some(text) => builder.append_text(text, &style).map_err(failed)?,
            None => builder.append_null(),
        }
    }
    Ok(builder.finish())
}

fn each_text(
    arguments: &Arguments<'_>,
    value: impl Fn(&str) -> Option<String>,
) -> Result<ArrayRef> {
    let text = arguments.text(0)?;
    text_rows(arguments.rows, |row| Ok(text_at(text, row).and_then(&value)))
}

fn quoted(arguments: &Arguments<'_>, null: Option<&str>) -> Result<ArrayRef> {
    let text = crate::text_form::texts(arguments)?;
    let text = text.as_string_view();
    text_rows(arguments.rows, |row| {
        Ok(text_at(text, row).map(quote_literal).or_else(|| null.map(str::to_string)))
    })
}

/// The name of a type without precision and scale.
fn plain_name(field: &Field) -> String {
    match ColumnType::from_arrow_field(field) {
        _ if field.data_type().is_null() => "unknown".to_string(),
        // DataFusion's counts have an unsigned type, and SQL has no unsigned types.
        _ if *field.data_type() == DataType::UInt64 => ColumnType::BigInt.to_string(),
        Some(ColumnType::Timestamp { .. }) => "timestamp without time zone".to_string(),
        Some(ColumnType::TimestampTz { .. }) => "timestamp with time zone".to_string(),
        Some(ColumnType::Numeric { .. }) => "numeric".to_string(),
        Some(ColumnType::Array(element)) => {
            format!("{}[]", plain_name(&element.arrow_field("item", true)))
        }
        Some(other) => other.to_string(),
        None => field.data_type().to_string(),
    }
}

fn type_names(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let name = arguments.fields.first().map(|field| plain_name(field)).unwrap_or_default();
    text_rows(arguments.rows, |_| Ok(Some(name.clone())))
}

fn bounds(arguments: &Arguments<'_>, bound: impl Fn(i32) -> i32) -> Result<ArrayRef> {
    let (list, dimensions) = (arguments.array(0)?, arguments.integers(1)?);
    let length = |row: usize| -> Option<i32> {
        if list.is_null(row) || dimensions.is_null(row) || dimensions.value(row) != 1 {
            return None;
        }
        let items = match list.data_type() {
            DataType::List(_) => usize::try_from(list.as_list::<i32>().value_length(row)).ok()?,
            DataType::LargeList(_) => {
                usize::try_from(list.as_list::<i64>().value_length(row)).ok()?
            }
            _ => list.as_fixed_size_list().value(row).len(),
        };
        i32::try_from(items).ok().filter(|items| *items > 0)
    };
    let values: Int32Array = (0..arguments.rows).map(|row| length(row).map(&bound)).collect();
    Ok(Arc::new(values))
}
