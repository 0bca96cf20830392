//! Functions and operators of jsonb: `->`, `->>`, `#>`, `#>>`, `@>`, `?` and the corresponding
//! functions.
//!
//! A jsonb value is stored as normalized text. To read a member, a function scans the text for the
//! member, and returns a slice of the text. It builds no tree and writes no new text.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int32Array, ListArray, StringViewArray};
use datafusion::common::Result;
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_text::normalize_jsonb;

use crate::{
    failed,
    function::{Arguments, Function, Parameter, text_at, text_rows},
};

mod change;
mod choice;
mod compare;
mod document;
mod elements;
mod key;
mod operators;
mod reading;
pub mod scan;

pub use key::KEY;

pub use choice::choice;
pub use operators::JsonComparisons;

use Parameter::{Any, Array, Integer, Rest, Text};
use reading::{ElementForm, is_normalized, json_at};

/// The jsonb functions.
pub fn functions() -> Vec<Function> {
    vec![
        Function::immutable(
            "jsonb_object_field",
            &[&[Text, Text]],
            ColumnType::Jsonb,
            "The member of an object; `->` with a text key calls this function.",
            |arguments| member(arguments, ElementForm::Json),
        ),
        Function::immutable(
            "jsonb_object_field_text",
            &[&[Text, Text]],
            ColumnType::Text,
            "The member of an object as text; `->>` with a text key calls this function.",
            |arguments| member(arguments, ElementForm::Text),
        ),
        Function::immutable(
            "jsonb_array_element",
            &[&[Text, Integer]],
            ColumnType::Jsonb,
            "The element of an array, counted from 0, or from the end if negative; `->` with an integer calls this function. A scalar counts as an array of one element.",
            |arguments| element(arguments, ElementForm::Json),
        ),
        Function::immutable(
            "jsonb_array_element_text",
            &[&[Text, Integer]],
            ColumnType::Text,
            "The element of an array as text; `->>` with an integer calls this function.",
            |arguments| element(arguments, ElementForm::Text),
        ),
        Function::immutable(
            "jsonb_extract_path",
            &[
                &[Text, Text],
                &[Text, Array],
                &[Text, Text, Text],
                &[Text, Text, Text, Text],
                &[Text, Text, Text, Text, Text],
            ],
            ColumnType::Jsonb,
            "The value at a path of keys and array positions; `#>` calls this function.",
            |arguments| at_path(arguments, ElementForm::Json),
        ),
        Function::immutable(
            "jsonb_extract_path_text",
            &[
                &[Text, Text],
                &[Text, Array],
                &[Text, Text, Text],
                &[Text, Text, Text, Text],
                &[Text, Text, Text, Text, Text],
            ],
            ColumnType::Text,
            "The value at a path, as text; `#>>` calls this function.",
            |arguments| at_path(arguments, ElementForm::Text),
        ),
        Function::immutable(
            "jsonb_typeof",
            &[&[Text]],
            ColumnType::Text,
            "object, array, string, number, boolean or null.",
            |arguments| each(arguments, |json| Ok(Some(scan::type_name(json).to_string()))),
        ),
        Function::immutable(
            "jsonb_array_length",
            &[&[Text]],
            ColumnType::Integer,
            "Number of elements of an array.",
            array_length,
        ),
        Function::immutable(
            "jsonb_contains",
            &[&[Text, Text]],
            ColumnType::Boolean,
            "Whether the first value contains the second; `@>` calls this function.",
            |arguments| {
                test(arguments, |left, right| {
                    let right = normalize_jsonb(right).map_err(failed)?;
                    scan::contains(left, &right).map_err(failed)
                })
            },
        ),
        Function::immutable(
            "jsonb_concat",
            &[&[Text, Text]],
            ColumnType::Jsonb,
            "The members or elements of both values; `||` calls this function. Two objects give an object; otherwise a value other than an array counts as an array of one element.",
            |arguments| {
                let (left, right) = (arguments.text(0)?, arguments.text(1)?);
                text_rows(arguments.rows, |row| {
                    let (Some(left), Some(right)) = (text_at(left, row), text_at(right, row)) else {
                        return Ok(None);
                    };
                    let both = [left, right].map(|json| normalize_jsonb(json).map_err(failed));
                    let [left, right] = both;
                    document::concat(&left?, &right?).map(Some)
                })
            },
        ),
        Function::immutable(
            "jsonb_exists",
            &[&[Text, Text]],
            ColumnType::Boolean,
            "Whether an object has a key, or an array a string; `?` calls this function.",
            |arguments| test(arguments, |left, key| Ok(scan::exists(left, key))),
        ),
        Function::immutable(
            "jsonb_pretty",
            &[&[Text]],
            ColumnType::Text,
            "The value on several lines, indented by four spaces.",
            |arguments| each(arguments, |json| Ok(Some(scan::pretty(json)))),
        ),
        Function::immutable(
            "jsonb_in",
            &[&[Text]],
            ColumnType::Jsonb,
            "Reads jsonb: what a cast of text to jsonb calls.",
            |arguments| {
                let text = arguments.text(0)?;
                text_rows(arguments.rows, |row| {
                    text_at(text, row).map(|text| normalize_jsonb(text).map_err(failed)).transpose()
                })
            },
        ),
        Function::immutable(
            "to_jsonb",
            &[&[Any]],
            ColumnType::Jsonb,
            "The value as jsonb: numbers, booleans and arrays unchanged, all other values as a string.",
            document::of_value,
        ),
        Function::immutable(
            "jsonb_build_object",
            &[&[Rest]],
            ColumnType::Jsonb,
            "An object of alternating keys and values.",
            document::object,
        ),
        Function::immutable(
            "jsonb_build_array",
            &[&[Rest]],
            ColumnType::Jsonb,
            "An array of the arguments.",
            document::array,
        ),
        Function::immutable(
            elements::OF_JSON,
            &[&[Text]],
            ColumnType::Array(Box::new(ColumnType::Text)),
            "The elements of an array, as a list.",
            |arguments| elements::lists(arguments, ElementForm::Json),
        ),
        Function::immutable(
            elements::OF_TEXT,
            &[&[Text]],
            ColumnType::Array(Box::new(ColumnType::Text)),
            "The elements of an array, as a list of text.",
            |arguments| elements::lists(arguments, ElementForm::Text),
        ),
    ]
    .into_iter()
    .chain(compare::functions())
    .chain(key::functions())
    .chain(change::functions())
    .chain(elements::pairs())
    .map(|function| Function { aliases: names_of_json(function.name), ..function })
    .collect()
}

/// The names of the same function for the type json. Here, json is the same type as jsonb.
fn names_of_json(name: &str) -> &'static [&'static str] {
    match name {
        "jsonb_extract_path" => &["json_extract_path"],
        "jsonb_extract_path_text" => &["json_extract_path_text"],
        "jsonb_typeof" => &["json_typeof"],
        "jsonb_array_length" => &["json_array_length"],
        "to_jsonb" => &["to_json", "array_to_json"],
        "jsonb_build_object" => &["json_build_object"],
        "jsonb_build_array" => &["json_build_array"],
        _ => &[],
    }
}

fn each(
    arguments: &Arguments<'_>,
    value: impl Fn(&str) -> Result<Option<String>>,
) -> Result<ArrayRef> {
    let (json, normalized) = (arguments.text(0)?, is_normalized(arguments));
    text_rows(arguments.rows, |row| match json_at(json, row, normalized)? {
        Some(json) => value(&json),
        None => Ok(None),
    })
}

fn member(arguments: &Arguments<'_>, take: ElementForm) -> Result<ArrayRef> {
    let (json, keys, normalized) =
        (arguments.text(0)?, arguments.text(1)?, is_normalized(arguments));
    text_rows(arguments.rows, |row| match (json_at(json, row, normalized)?, text_at(keys, row)) {
        (Some(json), Some(key)) => Ok(take.of(scan::member(&json, key))),
        _ => Ok(None),
    })
}

fn element(arguments: &Arguments<'_>, take: ElementForm) -> Result<ArrayRef> {
    use arrow::array::Array as _;
    let (json, positions, normalized) =
        (arguments.text(0)?, arguments.integers(1)?, is_normalized(arguments));
    text_rows(arguments.rows, |row| match json_at(json, row, normalized)? {
        Some(json) if !positions.is_null(row) => {
            Ok(take.of(scan::element_or_scalar(&json, positions.value(row))))
        }
        _ => Ok(None),
    })
}

fn at_path(arguments: &Arguments<'_>, take: ElementForm) -> Result<ArrayRef> {
    let (json, normalized) = (arguments.text(0)?, is_normalized(arguments));
    let second = arguments.array(1)?;
    let list: Option<&ListArray> = arrow::array::AsArray::as_list_opt(second.as_ref());
    text_rows(arguments.rows, |row| {
        let Some(json) = json_at(json, row, normalized)? else { return Ok(None) };
        let steps = match list {
            Some(list) => list_texts(list, row)?,
            None => (1..arguments.arrays.len())
                .map(|at| Ok(text_at(arguments.text(at)?, row).map(str::to_string)))
                .collect::<Result<Option<Vec<_>>>>()?,
        };
        let Some(steps) = steps else { return Ok(None) };
        let found = steps.iter().try_fold(json.as_ref(), |json, step| scan::step(json, step));
        Ok(take.of(found))
    })
}

/// The texts of the list in a row; `None` if the list or one of its elements is NULL.
fn list_texts(list: &ListArray, row: usize) -> Result<Option<Vec<String>>> {
    use arrow::array::Array as _;
    if list.is_null(row) {
        return Ok(None);
    }
    let texts = arrow::compute::cast(&list.value(row), &arrow::datatypes::DataType::Utf8View)?;
    let texts: &StringViewArray = arrow::array::AsArray::as_string_view(texts.as_ref());
    Ok((0..texts.len()).map(|at| text_at(texts, at).map(str::to_string)).collect())
}

fn array_length(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (json, normalized) = (arguments.text(0)?, is_normalized(arguments));
    let lengths = (0..arguments.rows)
        .map(|row| {
            let Some(json) = json_at(json, row, normalized)? else { return Ok(None) };
            let length = scan::array_length(&json).ok_or_else(|| {
                let what = match scan::type_name(&json) {
                    "object" => "non-array",
                    _ => "scalar",
                };
                failed(Error::new(
                    ErrorKind::InvalidParameterValue,
                    format!("cannot get array length of a {what}"),
                ))
            })?;
            Ok(Some(i32::try_from(length).unwrap_or(i32::MAX)))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Int32Array::from(lengths)))
}

fn test(arguments: &Arguments<'_>, holds: impl Fn(&str, &str) -> Result<bool>) -> Result<ArrayRef> {
    let (json, other, normalized) =
        (arguments.text(0)?, arguments.text(1)?, is_normalized(arguments));
    let results = (0..arguments.rows)
        .map(|row| match (json_at(json, row, normalized)?, text_at(other, row)) {
            (Some(json), Some(other)) => holds(&json, other).map(Some),
            _ => Ok(None),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(BooleanArray::from(results)))
}
