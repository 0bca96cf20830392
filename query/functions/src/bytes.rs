//! Functions on bytea.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray, BinaryBuilder, Int32Array, Int64Array};
use datafusion::common::Result;
use stratalog_model::{ColumnType, Error, ErrorKind};

use crate::{
    failed,
    function::{Arguments, Function, Parameter, text_at, text_rows},
};

mod encodings;

use encodings::{convert_from, convert_to, decoded, encoded};

use Parameter::{Bytes, Integer, Text};

/// The SQL functions that this module declares.
pub fn functions() -> Vec<Function> {
    let bytes = |name, parameters, description, run: fn(&Arguments<'_>) -> Result<ArrayRef>| {
        Function::immutable(name, parameters, ColumnType::Bytea, description, run)
    };
    vec![
        Function::immutable(
            "get_byte",
            &[&[Bytes, Integer]],
            ColumnType::Integer,
            "The byte at a place, from 0.",
            |arguments| integers(arguments, |bytes, at| Ok(i32::from(byte_at(bytes, at)?))),
        ),
        Function::immutable(
            "get_bit",
            &[&[Bytes, Integer]],
            ColumnType::Integer,
            "The bit at a place, from 0: the lowest of the first byte.",
            |arguments| {
                integers(arguments, |bytes, at| {
                    let (byte, bit) = bit_at(bytes, at)?;
                    Ok(i32::from(byte_at(bytes, byte)? >> bit & 1))
                })
            },
        ),
        bytes(
            "set_byte",
            &[&[Bytes, Integer, Integer]],
            "Bytes with another byte at a position, counted from 0.",
            |arguments| {
                replaced(arguments, |bytes, at, new| {
                    byte_at(bytes, at)?;
                    let low = u8::try_from(new & 0xff).unwrap_or(0);
                    Ok(with_byte(bytes, at, |_| low))
                })
            },
        ),
        bytes(
            "set_bit",
            &[&[Bytes, Integer, Integer]],
            "Bytes with a bit at a place, from 0, set to 0 or 1.",
            |arguments| {
                replaced(arguments, |bytes, at, new| {
                    let (byte, bit) = bit_at(bytes, at)?;
                    match new {
                        0 => Ok(with_byte(bytes, byte, |old| old & !(1 << bit))),
                        1 => Ok(with_byte(bytes, byte, |old| old | 1 << bit)),
                        _ => Err(invalid("new bit must be 0 or 1")),
                    }
                })
            },
        ),
        Function::immutable(
            "bit_count",
            &[&[Bytes]],
            ColumnType::BigInt,
            "The number of bits with value 1.",
            |arguments| {
                let bytes = arguments.array(0)?.as_binary::<i32>();
                let ones =
                    |bytes: &[u8]| bytes.iter().map(|byte| i64::from(byte.count_ones())).sum();
                let counts: Int64Array = bytes.iter().map(|bytes| bytes.map(ones)).collect();
                Ok(Arc::new(counts))
            },
        ),
        Function::immutable(
            "convert_from",
            &[&[Bytes, Text]],
            ColumnType::Text,
            "Text decoded from bytes in an encoding, UTF8 or LATIN1.",
            convert_from,
        ),
        bytes("convert_to", &[&[Text, Text]], "A text in an encoding, UTF8 or LATIN1.", convert_to),
        Function::immutable(
            "encode",
            &[&[Bytes, Text]],
            ColumnType::Text,
            "Bytes as text: in hex, base64 or escape.",
            |arguments| {
                let (bytes, forms) = (arguments.array(0)?.as_binary::<i32>(), arguments.text(1)?);
                text_rows(arguments.rows, |row| {
                    let Some(form) = text_at(forms, row).filter(|_| bytes.is_valid(row)) else {
                        return Ok(None);
                    };
                    encoded(bytes.value(row), form).map(Some).map_err(failed)
                })
            },
        ),
        bytes(
            "decode",
            &[&[Text, Text]],
            "Bytes decoded from text in hex, base64 or escape.",
            |arguments| {
                let (texts, forms) = (arguments.text(0)?, arguments.text(1)?);
                built(arguments.rows, |row| match (text_at(texts, row), text_at(forms, row)) {
                    (Some(text), Some(form)) => decoded(text, form).map(Some),
                    _ => Ok(None),
                })
            },
        ),
        bytes(
            "bytea_btrim",
            &[&[Bytes, Bytes]],
            "Bytes without the bytes of a set at both ends; `btrim` calls this function.",
            |arguments| trimmed(arguments, true, true),
        ),
        bytes(
            "bytea_ltrim",
            &[&[Bytes, Bytes]],
            "Bytes without the bytes of a set at the beginning; `ltrim` calls this function.",
            |arguments| trimmed(arguments, true, false),
        ),
        bytes(
            "bytea_rtrim",
            &[&[Bytes, Bytes]],
            "Bytes without the bytes of a set at the end; `rtrim` calls this function.",
            |arguments| trimmed(arguments, false, true),
        ),
        bytes(
            "bytea_substr",
            &[&[Bytes, Integer], &[Bytes, Integer, Integer]],
            "A given number of bytes from a position on, counted from 1; `substr` calls this function.",
            substr,
        ),
        bytes(
            "bytea_overlay",
            &[&[Bytes, Bytes, Integer], &[Bytes, Bytes, Integer, Integer]],
            "Bytes with other bytes in place of the bytes from a position on; `overlay` calls this function.",
            overlay,
        ),
        Function::immutable(
            "bytea_position",
            &[&[Bytes, Bytes]],
            ColumnType::Integer,
            "Position of bytes in other bytes, counted from 1; 0 if not found; `strpos` calls this function.",
            |arguments| {
                let whole = arguments.array(0)?.as_binary::<i32>();
                let part = arguments.array(1)?.as_binary::<i32>();
                let places: Int32Array = whole
                    .iter()
                    .zip(part)
                    .map(|(whole, part)| Some(place_of(whole?, part?)))
                    .collect();
                Ok(Arc::new(places))
            },
        ),
    ]
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidParameterValue, message)
}

fn out_of_range(at: i64, length: usize) -> Error {
    let last = i64::try_from(length).unwrap_or(i64::MAX) - 1;
    Error::new(ErrorKind::ArraySubscript, format!("index {at} out of valid range, 0..{last}"))
}

fn byte_at(bytes: &[u8], at: i64) -> Result<u8, Error> {
    let place = usize::try_from(at).ok();
    place.and_then(|place| bytes.get(place)).copied().ok_or_else(|| out_of_range(at, bytes.len()))
}

/// The index of the byte that contains the bit `at`, and the position of the bit in this byte (0 is
/// the lowest bit). Bits count from 0. A bit outside of the bytes is an error.
fn bit_at(bytes: &[u8], at: i64) -> Result<(i64, i64), Error> {
    let (byte, bit) = (at.div_euclid(8), at.rem_euclid(8));
    match usize::try_from(byte).is_ok_and(|byte| byte < bytes.len()) {
        true => Ok((byte, bit)),
        false => Err(out_of_range(at, bytes.len().saturating_mul(8))),
    }
}

fn with_byte(bytes: &[u8], at: i64, change: impl Fn(u8) -> u8) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    if let Some(byte) = usize::try_from(at).ok().and_then(|at| changed.get_mut(at)) {
        *byte = change(*byte);
    }
    changed
}

fn built(
    rows: usize,
    mut value: impl FnMut(usize) -> Result<Option<Vec<u8>>, Error>,
) -> Result<ArrayRef> {
    let mut builder = BinaryBuilder::new();
    for row in 0..rows {
        builder.append_option(value(row).map_err(failed)?);
    }
    Ok(Arc::new(builder.finish()))
}

fn integers(
    arguments: &Arguments<'_>,
    value: fn(&[u8], i64) -> Result<i32, Error>,
) -> Result<ArrayRef> {
    let (bytes, places) = (arguments.array(0)?.as_binary::<i32>(), arguments.integers(1)?);
    let values = bytes.iter().zip(places).map(|pair| match pair {
        (Some(bytes), Some(place)) => value(bytes, place).map(Some).map_err(failed),
        _ => Ok(None),
    });
    Ok(Arc::new(values.collect::<Result<Int32Array>>()?))
}

/// A function that returns a copy of bytes with one bit or byte replaced. Its parameters are the
/// bytes, the position, and the new value.
type ByteReplacement = fn(&[u8], i64, i64) -> Result<Vec<u8>, Error>;

fn replaced(arguments: &Arguments<'_>, value: ByteReplacement) -> Result<ArrayRef> {
    let bytes = arguments.array(0)?.as_binary::<i32>();
    let (places, new) = (arguments.integers(1)?, arguments.integers(2)?);
    built(arguments.rows, |row| {
        if bytes.is_null(row) || places.is_null(row) || new.is_null(row) {
            return Ok(None);
        }
        value(bytes.value(row), places.value(row), new.value(row)).map(Some)
    })
}

fn trimmed(arguments: &Arguments<'_>, start: bool, end: bool) -> Result<ArrayRef> {
    let bytes = arguments.array(0)?.as_binary::<i32>();
    let sets = arguments.array(1)?.as_binary::<i32>();
    built(arguments.rows, |row| {
        if bytes.is_null(row) || sets.is_null(row) {
            return Ok(None);
        }
        let mut bytes = bytes.value(row);
        let mut members = [false; 256];
        for byte in sets.value(row) {
            if let Some(member) = members.get_mut(usize::from(*byte)) {
                *member = true;
            }
        }
        let in_set = |byte: &u8| members.get(usize::from(*byte)) == Some(&true);
        while start
            && let Some((first, rest)) = bytes.split_first()
            && in_set(first)
        {
            bytes = rest;
        }
        while end
            && let Some((last, rest)) = bytes.split_last()
            && in_set(last)
        {
            bytes = rest;
        }
        Ok(Some(bytes.to_vec()))
    })
}

/// The bytes from position `from` up to and excluding position `to`; positions count from 1.
fn slice(bytes: &[u8], from: i64, to: i64) -> &[u8] {
    let place = |at: i64| usize::try_from(at.saturating_sub(1).max(0)).unwrap_or(usize::MAX);
    let to = place(to).min(bytes.len());
    bytes.get(place(from).min(to)..to).unwrap_or_default()
}

fn substr(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let bytes = arguments.array(0)?.as_binary::<i32>();
    let from = arguments.integers(1)?;
    let length = arguments.has(2).then(|| arguments.integers(2)).transpose()?;
    built(arguments.rows, |row| {
        if bytes.is_null(row)
            || from.is_null(row)
            || length.is_some_and(|length| length.is_null(row))
        {
            return Ok(None);
        }
        let from = from.value(row);
        let to = match length.map(|length| length.value(row)) {
            Some(..0) => return Err(negative_length()),
            Some(length) => from.saturating_add(length),
            None => i64::MAX,
        };
        Ok(Some(slice(bytes.value(row), from, to).to_vec()))
    })
}

fn negative_length() -> Error {
    Error::new(ErrorKind::Substring, "negative substring length not allowed")
}

fn overlay(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let bytes = arguments.array(0)?.as_binary::<i32>();
    let over = arguments.array(1)?.as_binary::<i32>();
    let from = arguments.integers(2)?;
    let length = arguments.has(3).then(|| arguments.integers(3)).transpose()?;
    built(arguments.rows, |row| {
        if bytes.is_null(row)
            || over.is_null(row)
            || from.is_null(row)
            || length.is_some_and(|length| length.is_null(row))
        {
            return Ok(None);
        }
        let (bytes, over, from) = (bytes.value(row), over.value(row), from.value(row));
        if from < 1 {
            return Err(negative_length());
        }
        let own = i64::try_from(over.len()).unwrap_or(i64::MAX);
        let length = length.map_or(own, |length| length.value(row));
        let behind = slice(bytes, from.saturating_add(length), i64::MAX);
        Ok(Some([slice(bytes, 1, from), over, behind].concat()))
    })
}

fn place_of(whole: &[u8], part: &[u8]) -> i32 {
    if part.is_empty() {
        return 1;
    }
    let found = memchr::memmem::find(whole, part);
    found.and_then(|at| i32::try_from(at + 1).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
