//! Removes members and elements from jsonb values: `jsonb_strip_nulls` and the operator `-`.

use arrow::{
    array::{Array as _, ArrayRef},
    datatypes::DataType,
};
use datafusion::common::Result;
use stratalog_model::{Error, ErrorKind};
use stratalog_text::normalize_jsonb;

use super::{DEPTH_MAX, JsonChange, invalid, rewritten, scan, separated, texts};
use crate::{
    failed,
    function::{Arguments, text_at, text_rows},
};

/// Appends a value to `out` without the object members whose value is null, at any depth.
///
/// # Errors
/// `LimitExceeded` for a value nested deeper than [`DEPTH_MAX`].
pub(super) fn strip(json: &str, out: &mut String, depth: usize) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(Error::new(ErrorKind::LimitExceeded, "the value has more than 512 levels"));
    }
    let mut first = true;
    match scan::type_name(json) {
        "object" => {
            out.push('{');
            for (key, value) in scan::members(json).filter(|(_, value)| *value != "null") {
                separated(out, &mut first);
                out.push_str(key);
                out.push(':');
                strip(value, out, depth + 1)?;
            }
            out.push('}');
        }
        "array" => {
            out.push('[');
            for value in scan::elements(json) {
                separated(out, &mut first);
                strip(value, out, depth + 1)?;
            }
            out.push(']');
        }
        _ => out.push_str(json),
    }
    Ok(())
}

/// Computes `jsonb - text`, `jsonb - text[]` and `jsonb - integer`.
pub(super) fn delete(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let json = arguments.text(0)?;
    let what = arguments.array(1)?.data_type();
    if *what == DataType::Int64 {
        let places = arguments.integers(1)?;
        return text_rows(arguments.rows, |row| {
            let Some(json) = text_at(json, row).filter(|_| places.is_valid(row)) else {
                return Ok(None);
            };
            let json = normalize_jsonb(json).map_err(failed)?;
            match scan::type_name(&json) {
                "array" => {}
                "object" => {
                    return Err(failed(invalid("cannot delete from object using integer index")));
                }
                _ => return Err(failed(invalid("cannot delete from scalar"))),
            }
            let place = [places.value(row).to_string()];
            rewritten(&json, &JsonChange::Delete { path: &place }).map(Some).map_err(failed)
        });
    }
    let one = (*what == DataType::Utf8View).then(|| arguments.text(1)).transpose()?;
    let several = if one.is_none() { Some(texts(arguments, 1)?) } else { None };
    text_rows(arguments.rows, |row| {
        let keys = match (&one, &several) {
            (Some(one), _) => text_at(one, row).map(|key| vec![key.to_string()]),
            (None, Some(several)) => several.keys(row),
            (None, None) => None,
        };
        let (Some(json), Some(keys)) = (text_at(json, row), keys) else { return Ok(None) };
        let json = normalize_jsonb(json).map_err(failed)?;
        let is_key = |text: &str| scan::as_text(text).is_some_and(|text| keys.contains(&text));
        let mut first = true;
        let mut out = String::with_capacity(json.len());
        match scan::type_name(&json) {
            "object" => {
                out.push('{');
                for (key, value) in scan::members(&json).filter(|(key, _)| !is_key(key)) {
                    separated(&mut out, &mut first);
                    out.push_str(&format!("{key}:{value}"));
                }
                out.push('}');
            }
            "array" => {
                out.push('[');
                let kept = |value: &&str| scan::type_name(value) != "string" || !is_key(value);
                for value in scan::elements(&json).filter(kept) {
                    separated(&mut out, &mut first);
                    out.push_str(value);
                }
                out.push(']');
            }
            _ => return Err(failed(invalid("cannot delete from scalar"))),
        }
        normalize_jsonb(&out).map(Some).map_err(failed)
    })
}
