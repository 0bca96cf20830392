//! Computes the sort key of a jsonb value. Equal values have equal keys, and the byte order of the
//! keys is the order of the values.
//!
//! ```text
//!   scalar   kind, then   null: nothing   text: its bytes, 0   boolean: 0 or 1
//!                         number: sign, exponent, digits       (complements if negative)
//!   array    5, count, elements            object   6, count, keys and values
//!   []       0, only at the top level
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryBuilder};
use datafusion::{common::Result, logical_expr::Volatility};
use stratalog_model::ColumnType;

use super::{
    reading::{is_normalized, json_at},
    scan,
};
use crate::function::{Arguments, Function, Parameter, Returns};

/// The name of the SQL function that computes the key. Sorts, groups and joins of jsonb values call
/// this function.
pub const KEY: &str = "jsonb_key";

pub(super) fn functions() -> Vec<Function> {
    vec![Function {
        name: KEY,
        aliases: &[],
        parameters: &[&[Parameter::Text]],
        returns: Returns::Type(ColumnType::Bytea),
        volatility: Volatility::Immutable,
        description: "Bytes that sort as values of jsonb do: equal values have the same.",
        run: Arc::new(run),
    }]
}

fn run(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (json, normalized) = (arguments.text(0)?, is_normalized(arguments));
    let mut keys = BinaryBuilder::new();
    let mut bytes = Vec::new();
    for row in 0..arguments.rows {
        match json_at(json, row, normalized)? {
            Some(json) => {
                bytes.clear();
                whole(&json, &mut bytes);
                keys.append_value(&bytes);
            }
            None => keys.append_null(),
        }
    }
    Ok(Arc::new(keys.finish()))
}

/// Appends the key of a top-level value.
pub(super) fn whole(json: &str, key: &mut Vec<u8>) {
    // The empty array sorts before all other values, but only at the top level.
    if json == "[]" { key.push(0) } else { inside(json, key) }
}

fn inside(json: &str, key: &mut Vec<u8>) {
    match scan::type_name(json) {
        "null" => key.push(1),
        "string" => {
            key.push(2);
            text(json, key);
        }
        "number" => {
            key.push(3);
            number(json, key);
        }
        "boolean" => key.extend([4, u8::from(json == "true")]),
        "array" => {
            key.push(5);
            count(scan::elements(json).count(), key);
            scan::elements(json).for_each(|element| inside(element, key));
        }
        _ => {
            key.push(6);
            count(scan::members(json).count(), key);
            for (name, value) in scan::members(json) {
                text(name, key);
                inside(value, key);
            }
        }
    }
}

fn count(elements: usize, key: &mut Vec<u8>) {
    key.extend(u32::try_from(elements).unwrap_or(u32::MAX).to_be_bytes());
}

/// Appends the key of a string: its bytes, and a zero byte as the end. jsonb strings contain no
/// zero byte.
fn text(quoted: &str, key: &mut Vec<u8>) {
    key.extend(scan::as_text(quoted).unwrap_or_default().bytes());
    key.push(0);
}

/// Appends the key of the number `0.digits × 10^exponent`. The digits begin and end with a nonzero
/// digit.
fn number(text: &str, key: &mut Vec<u8>) {
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    let zeros = digits().take_while(|digit| *digit == b'0').count();
    let from = key.len();
    let exponent = exponent.trim_start_matches('+').parse::<i64>().unwrap_or(0);
    let signed = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let exponent = exponent.saturating_add(signed(whole.len())).saturating_sub(signed(zeros));
    let clamped = i32::try_from(exponent.clamp(i32::MIN.into(), i32::MAX.into())).unwrap_or(0);
    // The inverted sign bit makes negative exponents sort before positive exponents.
    key.extend((clamped.cast_unsigned() ^ (1 << 31)).to_be_bytes());
    let digits_from = key.len();
    key.extend(digits().skip(zeros));
    while key.len() > digits_from && key.last() == Some(&b'0') {
        key.pop();
    }
    if key.len() == digits_from {
        key.truncate(from);
        key.push(1);
        return;
    }
    key.push(0);
    if negative {
        key.iter_mut().skip(from).for_each(|byte| *byte = !*byte);
    }
    key.insert(from, if negative { 0 } else { 2 });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::compare;

    #[test]
    fn keys_sort_as_the_values_compare() {
        let values = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "\"a\\\"\"",
            "\"ab\"",
            "\"b\"",
            "-10",
            "-9.5",
            "-9.50",
            "-1",
            "-0.1",
            "-0.01",
            "0",
            "0.0",
            "-0",
            "0.001",
            "0.0010",
            "0.5",
            "1",
            "1.0",
            "9",
            "10",
            "10.01",
            "100",
            "12345678901234567890",
            "false",
            "true",
            "[1]",
            "[1.0]",
            "[null]",
            "[[]]",
            "[{}]",
            "[2]",
            "[1, 2]",
            "{}",
            "{\"a\": 1}",
            "{\"a\": 1.00}",
            "{\"a\": []}",
            "{\"b\": 1}",
            "{\"a\": 1, \"b\": 2}",
            "{\"a\": 1, \"bc\": 0}",
        ];
        let key = |json: &str| {
            let mut key = Vec::new();
            whole(json, &mut key);
            key
        };
        for left in values {
            for right in values {
                assert_eq!(
                    key(left).cmp(&key(right)),
                    compare::compare(left, right),
                    "{left} {right}"
                );
            }
        }
    }
}
