//! Compares jsonb values in PostgreSQL's order. Numbers are compared by value, so 1.0 equals 1.

use std::{cmp::Ordering, sync::Arc};

use arrow::array::{ArrayRef, BooleanArray};
use datafusion::{common::Result, logical_expr::Volatility};
use stratalog_model::ColumnType;

use super::{reading::json_at, scan};
use crate::function::{Arguments, Function, Parameter, Returns};

/// The SQL functions that replace the comparison operators of jsonb.
pub(super) fn functions() -> Vec<Function> {
    let compare = |name, description, holds: fn(Ordering) -> bool| Function {
        name,
        aliases: &[],
        parameters: &[&[Parameter::Text, Parameter::Text]],
        returns: Returns::Type(ColumnType::Boolean),
        volatility: Volatility::Immutable,
        description,
        run: Arc::new(move |arguments: &Arguments<'_>| run(arguments, holds)),
    };
    vec![
        compare(
            "jsonb_eq",
            "Whether two values are equal: what the operator = calls.",
            Ordering::is_eq,
        ),
        compare(
            "jsonb_ne",
            "Whether two values differ: what the operator <> calls.",
            Ordering::is_ne,
        ),
        compare(
            "jsonb_lt",
            "Whether one is before the other: what the operator < calls.",
            Ordering::is_lt,
        ),
        compare(
            "jsonb_le",
            "Whether one is not after: what the operator <= calls.",
            Ordering::is_le,
        ),
        compare(
            "jsonb_gt",
            "Whether one is after the other: what the operator > calls.",
            Ordering::is_gt,
        ),
        compare(
            "jsonb_ge",
            "Whether one is not before: what the operator >= calls.",
            Ordering::is_ge,
        ),
    ]
}

fn run(arguments: &Arguments<'_>, holds: fn(Ordering) -> bool) -> Result<ArrayRef> {
    let (left, right) = (arguments.text(0)?, arguments.text(1)?);
    let normalized = |at: usize| {
        arguments
            .fields
            .get(at)
            .is_some_and(|field| ColumnType::from_arrow_field(field) == Some(ColumnType::Jsonb))
    };
    let normalized = (normalized(0), normalized(1));
    let results = (0..arguments.rows)
        .map(|row| {
            let pair = (json_at(left, row, normalized.0)?, json_at(right, row, normalized.1)?);
            Ok(match pair {
                (Some(left), Some(right)) => Some(holds(compare(&left, &right))),
                _ => None,
            })
        })
        .collect::<Result<BooleanArray>>()?;
    Ok(Arc::new(results))
}

/// Compares two normalized values in PostgreSQL's order.
pub(super) fn compare(left: &str, right: &str) -> Ordering {
    if left == right {
        return Ordering::Equal;
    }
    let scalar = |json: &str| !json.starts_with(['[', '{']);
    // At the top level, a scalar is compared like an array of one element.
    match (left.starts_with('['), right.starts_with('[')) {
        (true, false) if scalar(right) => of_array_and_scalar(left),
        (false, true) if scalar(left) => of_array_and_scalar(right).reverse(),
        _ => inside(left, right),
    }
}

fn of_array_and_scalar(array: &str) -> Ordering {
    scan::array_length(array).unwrap_or(0).cmp(&1).then(Ordering::Greater)
}

/// The position of a value's type in the order of JSON types.
fn rank(json: &str) -> u8 {
    match scan::type_name(json) {
        "null" => 0,
        "string" => 1,
        "number" => 2,
        "boolean" => 3,
        "array" => 4,
        _ => 5,
    }
}

fn inside(left: &str, right: &str) -> Ordering {
    let kind = rank(left);
    let by_kind = kind.cmp(&rank(right));
    if by_kind.is_ne() || left == right {
        return by_kind;
    }
    match kind {
        1 => text(left).cmp(&text(right)),
        2 => numbers(left, right),
        3 => left.len().cmp(&right.len()).reverse(),
        4 => {
            let length = |json| scan::array_length(json).unwrap_or(0);
            length(left).cmp(&length(right)).then_with(|| {
                let mut pairs = scan::elements(left).zip(scan::elements(right));
                first_difference(pairs.by_ref().map(|(left, right)| inside(left, right)))
            })
        }
        5 => {
            let length = |json| scan::members(json).count();
            length(left).cmp(&length(right)).then_with(|| {
                let pairs = scan::members(left).zip(scan::members(right));
                first_difference(pairs.map(|((key, value), (other_key, other))| {
                    text(key).cmp(&text(other_key)).then_with(|| inside(value, other))
                }))
            })
        }
        _ => Ordering::Equal,
    }
}

fn first_difference(mut compared: impl Iterator<Item = Ordering>) -> Ordering {
    compared.find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
}

fn text(quoted: &str) -> String {
    scan::as_text(quoted).unwrap_or_default()
}

/// Compares two numbers, which may have any length but no exponents.
fn numbers(left: &str, right: &str) -> Ordering {
    let (left_negative, left_whole, left_fraction) = digits(left);
    let (right_negative, right_whole, right_fraction) = digits(right);
    let by_size = left_whole
        .len()
        .cmp(&right_whole.len())
        .then_with(|| left_whole.cmp(right_whole))
        .then_with(|| left_fraction.cmp(right_fraction));
    match (left_negative, right_negative) {
        (false, false) => by_size,
        (true, true) => by_size.reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

/// Splits a number: returns whether it is negative, and its digits before and after the decimal
/// point.
fn digits(number: &str) -> (bool, &str, &str) {
    let unsigned = number.strip_prefix('-');
    let (whole, fraction) = match unsigned.unwrap_or(number).split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (unsigned.unwrap_or(number), ""),
    };
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let zero = whole.is_empty() && fraction.is_empty();
    (unsigned.is_some() && !zero, whole, fraction)
}

#[cfg(test)]
mod tests;
