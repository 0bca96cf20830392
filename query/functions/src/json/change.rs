//! Functions that change, add or remove members and elements of jsonb values.

use arrow::{
    array::{Array as _, ArrayRef, AsArray},
    compute::cast,
    datatypes::{DataType, Field},
};
use datafusion::common::Result;
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_text::normalize_jsonb;

use super::scan;
use crate::{
    failed,
    function::{Arguments, Function, Parameter, text_at, text_rows},
};

mod removal;

use removal::{delete, strip};

use Parameter::{Array, Boolean, Integer, Text};

/// The maximum nesting depth of a value that a function changes.
const DEPTH_MAX: usize = 512;

/// The SQL functions that this module declares.
pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::immutable(
            "jsonb_set",
            &[&[Text, Array, Text], &[Text, Array, Text, Boolean]],
            ColumnType::Jsonb,
            "A value with another value at a path; a missing member is added unless the fourth argument is false.",
            |arguments| changed(arguments, |path, new, add| JsonChange::Set { path, new, add }),
        ),
        Function::immutable(
            "jsonb_insert",
            &[&[Text, Array, Text], &[Text, Array, Text, Boolean]],
            ColumnType::Jsonb,
            "A value with another value inserted before an array element, after the element if the fourth argument is true, or as a new member of an object.",
            |arguments| {
                changed(arguments, |path, new, after| JsonChange::Insert { path, new, after })
            },
        ),
        Function::immutable(
            "jsonb_strip_nulls",
            &[&[Text]],
            ColumnType::Jsonb,
            "A value without null members of objects.",
            |arguments| {
                let json = arguments.text(0)?;
                text_rows(arguments.rows, |row| {
                    let json = text_at(json, row).map(normalize_jsonb).transpose();
                    json.map_err(failed)?
                        .map(|json| {
                            let mut out = String::with_capacity(json.len());
                            strip(&json, &mut out, 0).map_err(failed)?;
                            normalize_jsonb(&out).map_err(failed)
                        })
                        .transpose()
                })
            },
        ),
        Function::immutable(
            "jsonb_delete",
            &[&[Text, Text], &[Text, Integer], &[Text, Array]],
            ColumnType::Jsonb,
            "A value without a key or keys, or without the element at a position; `-` calls this function.",
            delete,
        ),
        Function::immutable(
            "jsonb_delete_path",
            &[&[Text, Array]],
            ColumnType::Jsonb,
            "A value without the part at a path; `#-` calls this function.",
            |arguments| {
                let (json, paths) = (arguments.text(0)?, texts(arguments, 1)?);
                text_rows(arguments.rows, |row| {
                    let (Some(json), Some(path)) = (text_at(json, row), paths.at(row)?) else {
                        return Ok(None);
                    };
                    let json = normalize_jsonb(json).map_err(failed)?;
                    rewritten(&json, &JsonChange::Delete { path: &path }).map(Some).map_err(failed)
                })
            },
        ),
        Function::immutable(
            "jsonb_exists_any",
            &[&[Text, Array]],
            ColumnType::Boolean,
            "Whether any of several keys exists; `?|` calls this function.",
            |arguments| {
                exist(arguments, |json, keys| keys.iter().any(|key| scan::exists(json, key)))
            },
        ),
        Function::immutable(
            "jsonb_exists_all",
            &[&[Text, Array]],
            ColumnType::Boolean,
            "Whether all of several keys exist; `?&` calls this function.",
            |arguments| {
                exist(arguments, |json, keys| keys.iter().all(|key| scan::exists(json, key)))
            },
        ),
        Function::immutable(
            "jsonb_object",
            &[&[Array], &[Array, Array]],
            ColumnType::Jsonb,
            "An object of strings, from an array of alternating keys and values, or from an array of keys and an array of values.",
            object,
        ),
    ]
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidParameterValue, message)
}

/// An argument that is an array of texts.
struct Texts(arrow::array::ListArray);

fn texts(arguments: &Arguments<'_>, at: usize) -> Result<Texts> {
    let item = Field::new_list_field(DataType::Utf8View, true);
    let lists = cast(arguments.array(at)?, &DataType::List(std::sync::Arc::new(item)))?;
    Ok(Texts(lists.as_list().clone()))
}

impl Texts {
    fn row(&self, row: usize) -> Option<Vec<Option<String>>> {
        self.0.is_valid(row).then(|| {
            let values = self.0.value(row);
            let values = values.as_string_view();
            (0..values.len()).map(|at| text_at(values, at).map(str::to_string)).collect()
        })
    }

    /// The texts of a row, as the steps of a path; `None` if the array is NULL. A NULL element is
    /// an error.
    fn at(&self, row: usize) -> Result<Option<Vec<String>>> {
        let Some(steps) = self.row(row) else { return Ok(None) };
        let steps: Option<Vec<String>> = steps.into_iter().collect();
        steps.map(Some).ok_or_else(|| {
            failed(Error::new(ErrorKind::NullNotAllowed, "a path has no element that is null"))
        })
    }

    /// The texts of a row, as keys; `None` if the array is NULL. NULL elements are ignored.
    fn keys(&self, row: usize) -> Option<Vec<String>> {
        Some(self.row(row)?.into_iter().flatten().collect())
    }
}

fn exist(arguments: &Arguments<'_>, test: fn(&str, &[String]) -> bool) -> Result<ArrayRef> {
    let (json, keys) = (arguments.text(0)?, texts(arguments, 1)?);
    let found: arrow::array::BooleanArray =
        (0..arguments.rows).map(|row| Some(test(text_at(json, row)?, &keys.keys(row)?))).collect();
    Ok(std::sync::Arc::new(found))
}

/// The change that a function makes at the end of a path.
enum JsonChange<'a> {
    Set { path: &'a [String], new: &'a str, add: bool },
    Insert { path: &'a [String], new: &'a str, after: bool },
    Delete { path: &'a [String] },
}

fn changed(
    arguments: &Arguments<'_>,
    change: for<'a> fn(&'a [String], &'a str, bool) -> JsonChange<'a>,
) -> Result<ArrayRef> {
    let (json, paths, new) = (arguments.text(0)?, texts(arguments, 1)?, arguments.text(2)?);
    // If the call has no argument 3 (counted from 0), `jsonb_set` adds a missing member, and
    // `jsonb_insert` inserts before the given position.
    let default = matches!(change(&[], "", true), JsonChange::Set { .. });
    text_rows(arguments.rows, |row| {
        let create_missing = match arguments.has(3) {
            true => {
                let create_missing = arguments.array(3)?.as_boolean();
                if create_missing.is_null(row) {
                    return Ok(None);
                }
                create_missing.value(row)
            }
            false => default,
        };
        let (Some(json), Some(path), Some(new)) =
            (text_at(json, row), paths.at(row)?, text_at(new, row))
        else {
            return Ok(None);
        };
        let json = normalize_jsonb(json).map_err(failed)?;
        let new = normalize_jsonb(new).map_err(failed)?;
        rewritten(&json, &change(&path, &new, create_missing)).map(Some).map_err(failed)
    })
}

fn rewritten(json: &str, change: &JsonChange<'_>) -> Result<String, Error> {
    let path = match change {
        JsonChange::Set { path, .. }
        | JsonChange::Insert { path, .. }
        | JsonChange::Delete { path } => *path,
    };
    if !matches!(scan::type_name(json), "object" | "array") {
        return Err(match change {
            JsonChange::Delete { .. } => invalid("cannot delete path in scalar"),
            _ => invalid("cannot set path in scalar"),
        });
    }
    if path.is_empty() {
        return Ok(json.to_string());
    }
    let mut out = String::with_capacity(json.len() + 16);
    write(json, change, path, 0, &mut out)?;
    normalize_jsonb(&out)
}

/// Appends `json` to `out`, with the change applied at the end of `path`. `path` contains the steps
/// that are not walked yet.
fn write(
    json: &str,
    change: &JsonChange<'_>,
    path: &[String],
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(Error::new(ErrorKind::LimitExceeded, "a path has at most 512 steps"));
    }
    let Some((step, rest)) = path.split_first() else {
        out.push_str(json);
        return Ok(());
    };
    match scan::type_name(json) {
        "object" => in_object(json, change, (step, rest), depth, out),
        "array" => in_array(json, change, (step, rest), depth, out),
        _ => {
            out.push_str(json);
            Ok(())
        }
    }
}

fn separated(out: &mut String, first: &mut bool) {
    if !*first {
        out.push(',');
    }
    *first = false;
}

fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_string()).to_string()
}

fn in_object(
    json: &str,
    change: &JsonChange<'_>,
    (step, rest): (&String, &[String]),
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    let mut first = true;
    let mut found = false;
    out.push('{');
    for (key, value) in scan::members(json) {
        let here = scan::as_text(key).as_deref() == Some(step.as_str());
        found |= here;
        if here && rest.is_empty() && matches!(change, JsonChange::Delete { .. }) {
            continue;
        }
        separated(out, &mut first);
        out.push_str(key);
        out.push(':');
        match change {
            _ if !here => out.push_str(value),
            JsonChange::Set { new, .. } if rest.is_empty() => out.push_str(new),
            JsonChange::Insert { .. } if rest.is_empty() => {
                return Err(invalid("cannot replace existing key")
                    .with_hint("Try using the function jsonb_set to replace key value."));
            }
            _ => write(value, change, rest, depth + 1, out)?,
        }
    }
    if !found
        && rest.is_empty()
        && let JsonChange::Set { new, add: true, .. } | JsonChange::Insert { new, .. } = change
    {
        separated(out, &mut first);
        out.push_str(&quoted(step));
        out.push(':');
        out.push_str(new);
    }
    out.push('}');
    Ok(())
}

fn in_array(
    json: &str,
    change: &JsonChange<'_>,
    (step, rest): (&String, &[String]),
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    let length =
        scan::array_length(json).and_then(|length| i64::try_from(length).ok()).unwrap_or(0);
    let at: i64 = step.trim().parse().map_err(|_| {
        Error::new(
            ErrorKind::InvalidTextRepresentation,
            format!("path element at position {} is not an integer: \"{step}\"", depth + 1),
        )
    })?;
    let at = if at < 0 { at + length } else { at };
    let mut first = true;
    out.push('[');
    let adds = match change {
        JsonChange::Set { add, new, .. } => (*add && rest.is_empty()).then_some(*new),
        JsonChange::Insert { new, .. } => rest.is_empty().then_some(*new),
        JsonChange::Delete { .. } => None,
    };
    // A position before the first element inserts at the beginning of the array, and any other
    // missing position inserts at the end.
    if let Some(new) = adds.filter(|_| at < 0) {
        separated(out, &mut first);
        out.push_str(new);
    }
    for (place, value) in (0_i64..).zip(scan::elements(json)) {
        if place != at {
            separated(out, &mut first);
            out.push_str(value);
            continue;
        }
        match change {
            JsonChange::Delete { .. } if rest.is_empty() => {}
            JsonChange::Set { new, .. } if rest.is_empty() => {
                separated(out, &mut first);
                out.push_str(new);
            }
            JsonChange::Insert { new, after, .. } if rest.is_empty() => {
                let (one, other) = if *after { (value, *new) } else { (*new, value) };
                for value in [one, other] {
                    separated(out, &mut first);
                    out.push_str(value);
                }
            }
            _ => {
                separated(out, &mut first);
                write(value, change, rest, depth + 1, out)?;
            }
        }
    }
    if let Some(new) = adds.filter(|_| at >= length) {
        separated(out, &mut first);
        out.push_str(new);
    }
    out.push(']');
    Ok(())
}

fn object(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let keys = texts(arguments, 0)?;
    let values = arguments.has(1).then(|| texts(arguments, 1)).transpose()?;
    text_rows(arguments.rows, |row| {
        let Some(keys) = keys.row(row) else { return Ok(None) };
        let pairs: Vec<(Option<String>, Option<String>)> = match &values {
            None => {
                let (pairs, []) = keys.as_chunks::<2>() else {
                    return Err(failed(Error::new(
                        ErrorKind::ArraySubscript,
                        "array must have even number of elements",
                    )));
                };
                pairs.iter().map(|[key, value]| (key.clone(), value.clone())).collect()
            }
            Some(values) => {
                let Some(values) = values.row(row) else { return Ok(None) };
                if keys.len() != values.len() {
                    return Err(failed(Error::new(
                        ErrorKind::ArraySubscript,
                        "mismatched array dimensions",
                    )));
                }
                keys.into_iter().zip(values).collect()
            }
        };
        let mut out = String::from("{");
        let mut first = true;
        for (key, value) in pairs {
            let key = key.ok_or_else(|| {
                failed(Error::new(
                    ErrorKind::NullNotAllowed,
                    "null value not allowed for object key",
                ))
            })?;
            separated(&mut out, &mut first);
            let value = value.map_or_else(|| "null".to_string(), |value| quoted(&value));
            out.push_str(&format!("{}:{value}", quoted(&key)));
        }
        out.push('}');
        normalize_jsonb(&out).map(Some).map_err(failed)
    })
}

#[cfg(test)]
mod tests;
