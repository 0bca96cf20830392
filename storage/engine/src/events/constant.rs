//! Parses PostgreSQL's text form of a value into an Arrow array, for the defaults of added columns.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, BinaryArray, FixedSizeBinaryArray, IntervalMonthDayNanoArray, ListArray,
        StringViewArray, new_null_array,
    },
    buffer::OffsetBuffer,
    compute::{CastOptions, cast_with_options, concat},
    datatypes::{DataType, IntervalMonthDayNano, IntervalUnit},
};
use stratalog_model::{Error, Result};

/// Returns an array with a single value. `text` is the value in the form that PostgreSQL shows.
///
/// # Errors
/// `Internal`, and Arrow's errors, if the text is not a value of the type.
pub fn value(text: &str, data_type: &DataType) -> Result<ArrayRef> {
    let array: ArrayRef = match data_type {
        DataType::Binary => {
            let bytes = text.strip_prefix("\\x").and_then(unhex);
            let bytes = bytes.ok_or_else(|| not_a(text, "bytea"))?;
            Arc::new(BinaryArray::from_vec(vec![bytes.as_slice()]))
        }
        DataType::FixedSizeBinary(size) => {
            let digits: String = text.chars().filter(|c| *c != '-').collect();
            let bytes = unhex(&digits).filter(|bytes| bytes.len() == *size as usize);
            let bytes = bytes.ok_or_else(|| not_a(text, "uuid"))?;
            Arc::new(FixedSizeBinaryArray::try_from_iter([bytes].into_iter())?)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let interval = interval(text).ok_or_else(|| not_a(text, "interval"))?;
            Arc::new(IntervalMonthDayNanoArray::from(vec![interval]))
        }
        DataType::List(item) => {
            let elements = elements(text).ok_or_else(|| not_a(text, "array"))?;
            let values = elements.iter().map(|element| match element {
                Some(element) => value(element, item.data_type()),
                None => Ok(new_null_array(item.data_type(), 1)),
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            let views: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
            let values = match views.is_empty() {
                true => new_null_array(item.data_type(), 0),
                false => concat(&views)?,
            };
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, None)?)
        }
        _ => {
            let text: ArrayRef = Arc::new(StringViewArray::from_iter_values([text]));
            let options = CastOptions { safe: false, ..Default::default() };
            cast_with_options(&text, data_type, &options)?
        }
    };
    debug_assert_eq!(array.len(), 1, "a constant has several values");
    Ok(array)
}

fn not_a(text: &str, name: &str) -> Error {
    Error::internal(format!("\"{text}\" is not the text form of a value of type {name}"))
}

/// Parses an interval, for example `1 year 2 mons -3 days +04:05:06.5`.
fn interval(text: &str) -> Option<IntervalMonthDayNano> {
    let (mut months, mut days, mut nanos) = (0_i32, 0_i32, 0_i64);
    let mut words = text.split_ascii_whitespace();
    while let Some(word) = words.next() {
        if word.contains(':') {
            nanos = nanos.checked_add(time(word)?)?;
            continue;
        }
        let number: i32 = word.parse().ok()?;
        match words.next()?.trim_end_matches('s') {
            "year" => months = months.checked_add(number.checked_mul(12)?)?,
            "mon" => months = months.checked_add(number)?,
            "day" => days = days.checked_add(number)?,
            _ => return None,
        }
    }
    Some(IntervalMonthDayNano::new(months, days, nanos))
}

/// Parses a time span, for example `-04:05:06.000000007`, into nanoseconds.
fn time(word: &str) -> Option<i64> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let (clock, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut seconds = 0_i64;
    for part in clock.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    if fraction.len() > 9 {
        return None;
    }
    let fraction: i64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)?.checked_mul(sign)
}

/// Splits the text of an array, for example `{1,NULL,"a \"b\""}`, into its elements; an element
/// NULL becomes `None`.
fn elements(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut elements = Vec::new();
    let mut chars = inner.chars().peekable();
    while chars.peek().is_some() {
        let (mut element, mut quoted) = (String::new(), false);
        if chars.next_if_eq(&'"').is_some() {
            quoted = true;
            loop {
                match chars.next()? {
                    '"' => break,
                    '\\' => element.push(chars.next()?),
                    c => element.push(c),
                }
            }
        }
        while let Some(c) = chars.next_if(|c| *c != ',') {
            element.push(c);
        }
        let separated = chars.next().is_some();
        elements.push((quoted || element != "NULL").then_some(element));
        if separated && chars.peek().is_none() {
            return None;
        }
    }
    Some(elements)
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if digits.len() & 1 == 1 {
        return None;
    }
    let bytes = digits
        .chunks_exact(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect::<Option<Vec<u8>>>()?;
    debug_assert_eq!(bytes.len(), digits.len() / 2, "digits are lost");
    Some(bytes)
}
