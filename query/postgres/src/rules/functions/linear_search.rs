//! Makes text search and trim functions run in linear time. DataFusion compares the searched text
//! at each position, and each character of a trimmed text with each character of the set. Two long
//! arguments could occupy a thread for hours, longer than any timeout (CL-10).

use std::{collections::HashSet, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int32Array, StringViewArray},
    compute::cast,
    datatypes::DataType,
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF},
};
use stratalog_functions::{governor, metered::expanded};
use stratalog_model::Error;

use crate::{
    errors::to_datafusion,
    rules::layers::{self, ScalarLayer},
};

/// Minimum length of the searched text, or of the trim set, for the linear algorithm, in bytes. For
/// shorter texts, DataFusion's functions are used.
const LONG_BYTES_MIN: usize = 64;

/// Wraps text search and trim functions to use linear time for long arguments. Other
/// functions stay unchanged.
pub fn linear(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    let search = match function.name() {
        "strpos" => LinearSearch::Position,
        "btrim" => LinearSearch::Trim { start: true, end: true },
        "ltrim" => LinearSearch::Trim { start: true, end: false },
        "rtrim" => LinearSearch::Trim { start: false, end: true },
        _ => return function,
    };
    layers::scalar(function, search)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LinearSearch {
    /// Returns the position of a text within another text, in characters from 1, or 0 if not found.
    Position,
    /// Removes the characters of a set at the start, at the end, or at both ends of a text.
    Trim { start: bool, end: bool },
}

impl ScalarLayer for LinearSearch {
    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [text, other] = arguments.args.as_slice() else {
            return inner.invoke_with_args(arguments);
        };
        if !is_long(other) {
            return inner.invoke_with_args(arguments);
        }
        let constant =
            matches!((text, other), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { arguments.number_rows };
        let (text, other) = (texts(text, rows)?, texts(other, rows)?);
        let pairs = text.iter().zip(&other).map(|(text, other)| -> Result<_> {
            governor::check()?;
            Ok(text.zip(other))
        });
        let result: ArrayRef = match *self {
            LinearSearch::Position => Arc::new(
                pairs
                    .map(|pair| Ok(pair?.map(|(text, part)| position(text, part))))
                    .collect::<Result<Int32Array>>()?,
            ),
            LinearSearch::Trim { start, end } => {
                let mut set = CharacterSet::default();
                Arc::new(
                    pairs
                        .map(|pair| {
                            Ok(pair?.map(|(text, characters)| {
                                trimmed(text, set.of(characters), start, end)
                            }))
                        })
                        .collect::<Result<StringViewArray>>()?,
                )
            }
        };
        let result = cast(&result, arguments.return_field.data_type())?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

/// Whether a value is long enough to need the linear algorithm.
fn is_long(value: &ColumnarValue) -> bool {
    match value {
        ColumnarValue::Scalar(value) => {
            value.try_as_str().flatten().is_some_and(|text| text.len() >= LONG_BYTES_MIN)
        }
        ColumnarValue::Array(array) => {
            let long = |text: Option<&str>| text.is_some_and(|text| text.len() >= LONG_BYTES_MIN);
            match array.data_type() {
                DataType::Utf8 => array.as_string::<i32>().iter().any(long),
                DataType::LargeUtf8 => array.as_string::<i64>().iter().any(long),
                DataType::Utf8View => array.as_string_view().iter().any(long),
                _ => false,
            }
        }
    }
}

fn texts(value: &ColumnarValue, rows: usize) -> Result<StringViewArray> {
    let array = cast(&expanded(value, rows)?, &DataType::Utf8View)?;
    array
        .as_string_view_opt()
        .cloned()
        .ok_or_else(|| to_datafusion(Error::internal("a search has texts")))
}

fn position(text: &str, part: &str) -> i32 {
    let at = memchr::memmem::find(text.as_bytes(), part.as_bytes());
    let characters = at.and_then(|at| text.get(..at)).map(|before| before.chars().count() + 1);
    characters.and_then(|position| i32::try_from(position).ok()).unwrap_or(0)
}

/// The set of characters to trim, cached for the next row: a constant set has the same text in all
/// rows.
#[derive(Default)]
struct CharacterSet<'a> {
    text: &'a str,
    characters: HashSet<char>,
}

impl<'a> CharacterSet<'a> {
    fn of(&mut self, text: &'a str) -> &HashSet<char> {
        if self.text != text {
            *self = Self { text, characters: text.chars().collect() };
        }
        &self.characters
    }
}

fn trimmed<'a>(text: &'a str, set: &HashSet<char>, start: bool, end: bool) -> &'a str {
    let in_set = |character: char| set.contains(&character);
    let text = if start { text.trim_start_matches(in_set) } else { text };
    if end { text.trim_end_matches(in_set) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters() {
        let part = "é".repeat(40);
        assert_eq!(position(&format!("aé{part}"), &part), 2);
        assert_eq!(position(&format!("ab{part}"), &part), 3);
        assert_eq!(position("ab", &part), 0);
    }

    #[test]
    fn trims_at_the_wanted_ends() {
        let mut set = CharacterSet::default();
        assert_eq!(trimmed("abxba", set.of("ab"), true, true), "x");
        assert_eq!(trimmed("abxba", set.of("ab"), true, false), "xba");
        assert_eq!(trimmed("abxba", set.of("ab"), false, true), "abx");
        assert_eq!(trimmed("abba", set.of("ba"), false, true), "");
        assert_eq!(trimmed("abba", set.of(""), true, true), "abba");
    }
}
