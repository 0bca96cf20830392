//! Formats values as in DataFusion's test files: Arrow's text, and floats as plain decimals with at
//! most twelve fraction digits.

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{DataType, Float32Type, Float64Type},
    util::display::{ArrayFormatter, DurationFormat, FormatOptions},
};

use crate::Failure;

/// Maximum number of fraction digits of a float.
const FLOAT_DIGITS: usize = 12;

/// Formats the rows of a batch, without the columns at the positions `left_out`.
///
/// # Errors
/// If Arrow cannot format a type.
pub fn rows(batch: &RecordBatch, left_out: &[usize]) -> Result<Vec<Vec<String>>, Failure> {
    let mut columns = Vec::new();
    for (at, array) in batch.columns().iter().enumerate() {
        if !left_out.contains(&at) {
            columns.push(column(array.as_ref())?);
        }
    }
    Ok((0..batch.num_rows())
        .map(|row| columns.iter().filter_map(|column| column.get(row).cloned()).collect())
        .collect())
}

fn column(array: &dyn Array) -> Result<Vec<String>, Failure> {
    let options =
        FormatOptions::new().with_null("NULL").with_duration_format(DurationFormat::Pretty);
    let formatter = ArrayFormatter::try_new(array, &options)
        .map_err(|error| Failure::of_harness(error.to_string()))?;
    Ok((0..array.len())
        .map(|row| {
            if array.is_null(row) {
                return "NULL".to_string();
            }
            match array.data_type() {
                DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
                DataType::Float32 => {
                    let value = array.as_primitive::<Float32Type>().value(row);
                    if value.is_finite() {
                        rounded(&value.to_string())
                    } else {
                        float(value.into())
                    }
                }
                DataType::Decimal32(..)
                | DataType::Decimal64(..)
                | DataType::Decimal128(..)
                | DataType::Decimal256(..) => trimmed(&formatter.value(row).to_string()),
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                    text(&formatter.value(row).to_string())
                }
                _ => formatter.value(row).to_string(),
            }
        })
        .collect())
}

fn text(value: &str) -> String {
    if value.is_empty() {
        "(empty)".to_string()
    } else {
        value.trim_end_matches('\n').replace('\0', "\\0")
    }
}

fn float(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_string()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".to_string() } else { "-Infinity".to_string() }
    } else {
        rounded(&value.to_string())
    }
}

/// Rounds a plain decimal to [`FLOAT_DIGITS`] fraction digits, half to even, without trailing
/// zeros.
fn rounded(plain: &str) -> String {
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", plain),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.len() <= FLOAT_DIGITS {
        return signed(sign, &trimmed(digits));
    }
    let (kept, dropped) = fraction.split_at(FLOAT_DIGITS);
    let mut number: Vec<u8> = whole.bytes().chain(kept.bytes()).collect();
    let half = dropped.starts_with('5') && dropped.bytes().skip(1).all(|digit| digit == b'0');
    let odd = number.last().is_some_and(|digit| digit % 2 == 1);
    let up =
        if half { odd } else { dropped.as_bytes().first().is_some_and(|digit| *digit >= b'5') };
    if up {
        increment(&mut number);
    }
    let split = number.len().saturating_sub(FLOAT_DIGITS);
    let (whole, kept) = number.split_at(split);
    let joined = format!("{}.{}", String::from_utf8_lossy(whole), String::from_utf8_lossy(kept));
    signed(sign, &trimmed(&joined))
}

fn signed(sign: &str, digits: &str) -> String {
    if digits == "0" { digits.to_string() } else { format!("{sign}{digits}") }
}

fn increment(number: &mut Vec<u8>) {
    for digit in number.iter_mut().rev() {
        if *digit == b'9' {
            *digit = b'0';
        } else {
            *digit += 1;
            return;
        }
    }
    number.insert(0, b'1');
}

fn trimmed(plain: &str) -> String {
    if plain.contains('.') {
        plain.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        plain.to_string()
    }
}

#[cfg(test)]
mod tests;
