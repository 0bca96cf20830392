//! Predicts the size of a function's result from the arguments, before the function allocates
//! memory.
//!
//! A prediction exists only for functions whose results may be far larger than their arguments. The
//! result of any other function is at most a few times as large as its arguments, and is charged
//! after the call.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array},
    compute::cast,
    datatypes::DataType,
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::ColumnarValue,
};

use crate::governor::value_bytes;

/// The size in bytes of an element of a text array, without the bytes of its text.
const ELEMENT_BYTES: usize = 16;

/// Below this number of bytes, a rough upper bound replaces the exact prediction.
const EXACT_BYTES_MIN: usize = 256 << 10;

/// The predicted size of a function's result for one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Growth {
    /// The predicted number of bytes of all rows together.
    pub total: usize,
    /// The predicted number of bytes of the largest row.
    pub largest: usize,
}

impl Growth {
    fn of_rows(rows: usize, mut bytes: impl FnMut(usize) -> usize) -> Self {
        let mut growth = Self::default();
        for row in 0..rows {
            let bytes = bytes(row);
            growth.total = growth.total.saturating_add(bytes);
            growth.largest = growth.largest.max(bytes);
        }
        growth
    }
}

/// An argument of a call, with access to the size of the value in each row.
enum SizedArgument {
    /// A text constant; `None` for NULL.
    Text(Option<String>),
    Number(Option<i64>),
    /// The size in bytes of a constant of another type.
    Sized(usize),
    Array(ArrayRef),
}

impl SizedArgument {
    fn of(value: &ColumnarValue) -> Self {
        match value {
            ColumnarValue::Array(array) => match array.data_type() {
                DataType::Dictionary(_, inner) => {
                    Self::Array(cast(array, inner).unwrap_or_else(|_| array.clone()))
                }
                _ => Self::Array(array.clone()),
            },
            ColumnarValue::Scalar(value) => match value.try_as_str() {
                Some(text) => Self::Text(text.map(str::to_owned)),
                None => match value.cast_to(&DataType::Int64) {
                    Ok(ScalarValue::Int64(number)) if value.data_type().is_integer() => {
                        Self::Number(number)
                    }
                    _ => match value {
                        ScalarValue::List(list) => {
                            Self::Sized(value_bytes(&(Arc::clone(list) as ArrayRef)))
                        }
                        value => Self::Sized(value.size()),
                    },
                },
            },
        }
    }

    /// The text in a row; `None` for NULL and for values other than text.
    fn text(&self, row: usize) -> Option<&str> {
        match self {
            Self::Text(text) => text.as_deref(),
            Self::Array(array) if array.is_valid(row) => match array.data_type() {
                DataType::Utf8View => Some(array.as_string_view().value(row)),
                DataType::Utf8 => Some(array.as_string::<i32>().value(row)),
                DataType::LargeUtf8 => Some(array.as_string::<i64>().value(row)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The size in bytes of the value in a row.
    fn bytes(&self, row: usize) -> usize {
        match self {
            Self::Text(text) => text.as_ref().map_or(0, String::len),
            Self::Number(_) => size_of::<i64>(),
            Self::Sized(bytes) => *bytes,
            Self::Array(array) if array.is_null(row) => 0,
            Self::Array(array) => match array.data_type() {
                DataType::BinaryView => array.as_binary_view().value(row).len(),
                DataType::Binary => array.as_binary::<i32>().value(row).len(),
                DataType::LargeBinary => array.as_binary::<i64>().value(row).len(),
                DataType::List(_) | DataType::LargeList(_) => self.list_bytes(row),
                _ => self.text(row).map_or(ELEMENT_BYTES, str::len),
            },
        }
    }

    /// The elements of the list in a row; `None` for other values.
    fn elements(&self, row: usize) -> Option<ArrayRef> {
        let Self::Array(array) = self else { return None };
        match array.data_type() {
            _ if array.is_null(row) => None,
            DataType::List(_) => Some(array.as_list::<i32>().value(row)),
            DataType::LargeList(_) => Some(array.as_list::<i64>().value(row)),
            DataType::FixedSizeList(_, _) => Some(array.as_fixed_size_list().value(row)),
            _ => None,
        }
    }

    fn list_bytes(&self, row: usize) -> usize {
        let Some(elements) = self.elements(row) else { return 0 };
        let length = elements.len();
        let texts = Self::Array(elements);
        (0..length).map(|at| texts.text(at).map_or(0, str::len) + ELEMENT_BYTES).sum()
    }

    /// The number in each row; `None` for NULL.
    fn numbers(&self) -> Result<Numbers> {
        Ok(match self {
            Self::Number(number) => Numbers::Same(*number),
            Self::Array(array) => {
                Numbers::Each(cast(array, &DataType::Int64)?.as_primitive().clone())
            }
            Self::Text(_) | Self::Sized(_) => Numbers::Same(None),
        })
    }
}

enum Numbers {
    Same(Option<i64>),
    Each(Int64Array),
}

impl Numbers {
    fn value(&self, row: usize) -> Option<i64> {
        match self {
            Self::Same(number) => *number,
            Self::Each(numbers) => numbers.is_valid(row).then(|| numbers.value(row)),
        }
    }

    fn at(&self, row: usize) -> usize {
        usize::try_from(self.value(row).unwrap_or(0)).unwrap_or(0)
    }
}

/// How the size of a function's result depends on its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The result repeats argument 1; argument 2 is the number of copies.
    Times,
    /// The result is argument 1, padded with argument 3; argument 2 is the length in characters.
    Padded,
    /// The result consists of spaces; argument 1 is the number of spaces.
    Spaces,
    /// The result is argument 1 with each occurrence of argument 2 replaced by argument 3.
    Replaced,
    /// The result is argument 1 with single characters replaced.
    Translated,
    /// The result joins all arguments; each becomes at most this many times as long.
    Joined(usize),
    /// The result joins all arguments after the first, separated by the first.
    JoinedBy,
    /// The result joins the elements of the array in argument 1, separated by argument 2.
    Elements,
    /// The result is an array: argument 1, split at each occurrence of argument 2.
    Split,
    /// The result is an array whose elements are all equal to argument 1; argument 2 is the number
    /// of elements.
    Copies,
    /// The result is the array in argument 1, extended with copies of argument 3; argument 2 is the
    /// number of elements.
    Resized,
}

fn shape_of(name: &str) -> Option<Shape> {
    Some(match name {
        "repeat" => Shape::Times,
        "lpad" | "rpad" => Shape::Padded,
        "space" => Shape::Spaces,
        "replace" => Shape::Replaced,
        "translate" => Shape::Translated,
        "concat_ws" => Shape::JoinedBy,
        "array_to_string" => Shape::Elements,
        "string_to_array" => Shape::Split,
        "array_repeat" => Shape::Copies,
        "array_resize" => Shape::Resized,
        "concat" | "text_concat" | "overlay" | "bytea_overlay" | "bytea_concat" | "make_array"
        | "array_append" | "array_prepend" | "array_concat" | "jsonb_concat" | "jsonb_set"
        | "jsonb_insert" | "jsonb_build_array" | "jsonb_build_object" | "format" => {
            Shape::Joined(1)
        }
        "encode" | "quote_literal" | "quote_ident" | "quote_nullable" => Shape::Joined(2),
        // JSON writes a control character with six bytes.
        "to_jsonb" => Shape::Joined(6),
        _ => return None,
    })
}

/// An upper bound for the total bytes of an argument in all rows.
fn bytes_at_most(argument: &ColumnarValue, rows: usize) -> usize {
    match argument {
        ColumnarValue::Array(array) if array.data_type().is_nested() => value_bytes(array),
        ColumnarValue::Array(array) => array.get_array_memory_size(),
        ColumnarValue::Scalar(ScalarValue::List(list)) => {
            value_bytes(&(Arc::clone(list) as ArrayRef)).saturating_mul(rows)
        }
        ColumnarValue::Scalar(value) => value.size().saturating_mul(rows),
    }
}

/// The number of bytes that a call may need to copy each list in its arguments. The copies can be
/// larger than the lists, because the elements of a list can share one text.
pub fn copies_of_lists(arguments: &[ColumnarValue], rows: usize) -> usize {
    let lists = arguments.iter().filter(|argument| argument.data_type().is_list());
    lists.map(|list| bytes_at_most(list, rows)).fold(0, usize::saturating_add)
}

/// True if the function has a prediction, that is, if its results may be much longer than its
/// arguments.
pub fn is_predicted(name: &str) -> bool {
    shape_of(name).is_some()
}

/// The predicted size of a call's result; `None` if the function has no prediction.
///
/// # Errors
/// Fails if a number in an argument is out of range.
pub fn predict(name: &str, arguments: &[ColumnarValue], rows: usize) -> Result<Option<Growth>> {
    let Some(shape) = shape_of(name) else { return Ok(None) };
    if let Shape::Joined(times) = shape {
        let most = arguments.iter().map(|argument| bytes_at_most(argument, rows));
        let most = most.fold(0, usize::saturating_add).saturating_mul(times);
        if most < EXACT_BYTES_MIN {
            return Ok(Some(Growth { total: most, largest: most }));
        }
    }
    let arguments: Vec<SizedArgument> = arguments.iter().map(SizedArgument::of).collect();
    let (Some(first), second, third) = (arguments.first(), arguments.get(1), arguments.get(2))
    else {
        return Ok(None);
    };
    let counts = match shape {
        Shape::Spaces => first.numbers()?,
        _ => second.map_or(Ok(Numbers::Same(None)), SizedArgument::numbers_or_none)?,
    };
    let sum = |row: usize| {
        arguments.iter().map(|argument| argument.bytes(row)).fold(0, usize::saturating_add)
    };
    Ok(Some(Growth::of_rows(rows, |row| match shape {
        Shape::Times => first.bytes(row).saturating_mul(counts.at(row)),
        Shape::Spaces => counts.at(row),
        Shape::Padded => match (first.text(row), fill_of(third, row)) {
            (Some(text), Some("")) => text.len(),
            (Some(text), Some(fill)) => {
                let plain = text.is_ascii() && fill.is_ascii();
                counts.at(row).saturating_mul(if plain { 1 } else { 4 })
            }
            // A NULL argument gives NULL.
            _ => 0,
        },
        Shape::Replaced => replaced(
            first.text(row),
            second.and_then(|from| from.text(row)),
            third.and_then(|to| to.text(row)),
        ),
        Shape::Translated => {
            let wide = third.and_then(|to| to.text(row)).is_some_and(|to| !to.is_ascii());
            first.bytes(row).saturating_mul(if wide { 4 } else { 1 })
        }
        Shape::Joined(times) => sum(row).saturating_mul(times),
        Shape::JoinedBy => {
            let between = arguments.len().saturating_sub(2);
            sum(row).saturating_add(first.bytes(row).saturating_mul(between))
        }
        Shape::Elements => {
            let elements = first.elements(row).map_or(0, |elements| elements.len());
            let between = second.map_or(0, |between| between.bytes(row));
            let null = third.map_or(0, |null| null.bytes(row));
            first.bytes(row).saturating_add(elements.saturating_mul(between.saturating_add(null)))
        }
        Shape::Split => {
            let text = first.text(row).unwrap_or("");
            let parts = match second.and_then(|at| at.text(row)) {
                _ if text.len() < EXACT_BYTES_MIN => 0,
                Some("") => 1,
                Some(at) => text.matches(at).count() + 1,
                None => text.chars().count(),
            };
            text.len().saturating_add(parts.saturating_mul(ELEMENT_BYTES))
        }
        Shape::Resized => {
            let element = third.map_or(0, |element| element.bytes(row)).max(size_of::<i64>());
            first.bytes(row).saturating_add(element.saturating_mul(counts.at(row)))
        }
        Shape::Copies => first.bytes(row).max(size_of::<i64>()).saturating_mul(counts.at(row)),
    })))
}

/// The fill text of `lpad` or `rpad` in a row: a space if the call has no such argument; `None` for
/// NULL.
fn fill_of(fill: Option<&SizedArgument>, row: usize) -> Option<&str> {
    fill.map_or(Some(" "), |fill| fill.text(row))
}

/// The lengths that a call of `lpad` or `rpad` passes to DataFusion: its second argument, with
/// limits. DataFusion allocates memory for the lengths of all rows before the first row. A negative
/// length becomes 0. If the fill text is empty, the length is at most the length of the text. The
/// length for a NULL text or fill text is 0.
///
/// # Errors
/// Fails if a number in an argument is out of range.
pub fn padded_lengths(arguments: &[ColumnarValue], rows: usize) -> Result<Int64Array> {
    let arguments: Vec<SizedArgument> = arguments.iter().map(SizedArgument::of).collect();
    let [text, lengths, fill @ ..] = arguments.as_slice() else {
        return Ok(Int64Array::new_null(rows));
    };
    let lengths = lengths.numbers_or_none()?;
    let length = |row: usize| {
        let most = match (text.text(row), fill_of(fill.first(), row)) {
            (Some(text), Some("")) => i64::try_from(text.len()).unwrap_or(i64::MAX),
            (Some(_), Some(_)) => i64::MAX,
            // The result of this row is NULL.
            _ => 0,
        };
        lengths.value(row).map(|length| length.clamp(0, most))
    };
    Ok((0..rows).map(length).collect())
}

impl SizedArgument {
    /// The number in each row, as [`Self::numbers`] returns it. `None` also for arguments that are
    /// not numbers.
    fn numbers_or_none(&self) -> Result<Numbers> {
        match self {
            Self::Array(array) if !array.data_type().is_integer() => Ok(Numbers::Same(None)),
            other => other.numbers(),
        }
    }
}

fn replaced(text: Option<&str>, from: Option<&str>, to: Option<&str>) -> usize {
    let (Some(text), Some(from), Some(to)) = (text, from, to) else { return 0 };
    if from.is_empty() || to.len() <= from.len() {
        return text.len();
    }
    let most = (text.len() / from.len()).saturating_mul(to.len() - from.len());
    let more = match most > EXACT_BYTES_MIN {
        true => text.matches(from).count().saturating_mul(to.len() - from.len()),
        false => most,
    };
    text.len().saturating_add(more)
}

#[cfg(test)]
mod tests;
