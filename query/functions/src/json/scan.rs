//! Reads normalized JSON text without building a tree.
//!
//! The text must be valid and normalized JSON. For any other text, the functions return `None` or
//! another arbitrary result, but never panic.

use stratalog_model::{Error, ErrorKind, Result};

use super::compare::compare;

/// The length in bytes of the JSON value at the start of `json`.
fn value_length(json: &str) -> Option<usize> {
    let bytes = json.as_bytes();
    match bytes.first()? {
        b'"' => string_length(json),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0_usize, 0_usize);
            while let Some(byte) = bytes.get(at) {
                match byte {
                    b'"' => {
                        at += string_length(json.get(at..)?)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
            None
        }
        _ => Some(
            bytes
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']' | b' '))
                .unwrap_or(bytes.len()),
        ),
    }
}

/// The length in bytes of the JSON string at the start of `json`, including the quotes.
fn string_length(json: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn after_separator(rest: &str) -> &str {
    rest.trim_start_matches([',', ' ', ':'])
}

/// Iterates over the members of a JSON object: pairs of the quoted key and the value.
pub fn members(json: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = json.strip_prefix('{').unwrap_or("");
    std::iter::from_fn(move || {
        rest = after_separator(rest);
        if !rest.starts_with('"') {
            return None;
        }
        let (key, tail) = rest.split_at_checked(string_length(rest)?)?;
        let tail = after_separator(tail);
        let (value, tail) = tail.split_at_checked(value_length(tail)?)?;
        rest = tail;
        Some((key, value))
    })
}

/// Iterates over the elements of a JSON array.
pub fn elements(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = json.strip_prefix('[').unwrap_or("");
    std::iter::from_fn(move || {
        rest = after_separator(rest);
        if rest.is_empty() || rest.starts_with(']') {
            return None;
        }
        let (value, tail) = rest.split_at_checked(value_length(rest)?)?;
        rest = tail;
        Some(value)
    })
}

/// True if `text` is the content of the JSON string `quoted`, without quotes and escapes.
fn has_content(quoted: &str, text: &str) -> bool {
    if quoted.contains('\\') {
        return as_text(quoted).as_deref() == Some(text);
    }
    quoted.strip_prefix('"').and_then(|quoted| quoted.strip_suffix('"')) == Some(text)
}

/// The value of a key; `None` if `json` is not an object or lacks the key.
pub fn member<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    members(json).find(|(name, _)| has_content(name, key)).map(|(_, value)| value)
}

/// The result of the operator `->` with a number: the element of an array at `position`. Like in
/// PostgreSQL, a scalar counts as an array of one element.
pub fn element_or_scalar(json: &str, position: i64) -> Option<&str> {
    match json.starts_with(['[', '{']) {
        true => element(json, position),
        false => matches!(position, 0 | -1).then_some(json),
    }
}

/// The element of an array at `position`, counted from 0. A negative position counts from the end.
/// `None` if the element does not exist, or if `json` is not an array.
pub fn element(json: &str, position: i64) -> Option<&str> {
    let at = if position >= 0 {
        usize::try_from(position).ok()?
    } else {
        let back = usize::try_from(position.unsigned_abs()).ok()?;
        array_length(json)?.checked_sub(back)?
    };
    elements(json).nth(at)
}

/// Follows one step of a path: returns the member with this key, or the element at this position.
pub fn step<'a>(json: &'a str, step: &str) -> Option<&'a str> {
    if json.starts_with('{') { member(json, step) } else { element(json, step.parse().ok()?) }
}

/// The number of elements of an array; `None` if `json` is not an array.
pub fn array_length(json: &str) -> Option<usize> {
    json.starts_with('[').then(|| elements(json).count())
}

/// The result of the operator `->>`: the content of a string, and the JSON text of other values;
/// `None` for null.
pub fn as_text(json: &str) -> Option<String> {
    if json == "null" {
        return None;
    }
    if !json.starts_with('"') {
        return Some(json.to_string());
    }
    serde_json::from_str::<String>(json).ok()
}

/// The result of `jsonb_typeof`: the name of the JSON type of a value.
pub fn type_name(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// The result of the operator `?`: true if `key` is a key of the object, a string in the array, or
/// the string itself.
pub fn exists(json: &str, key: &str) -> bool {
    match json.as_bytes().first() {
        Some(b'{') => member(json, key).is_some(),
        Some(b'[') => {
            elements(json).any(|element| element.starts_with('"') && has_content(element, key))
        }
        Some(b'"') => has_content(json, key),
        _ => false,
    }
}

/// The maximum nesting depth of the values that [`contains`] compares.
const DEPTH_MAX: usize = 512;

/// True if `json` contains `part` by the rules of `@>`: objects compare by members, and arrays by
/// elements in any order. At the top level an array also contains a scalar that is one of its
/// elements.
///
/// # Errors
/// `LimitExceeded` for values nested deeper than 512 levels.
pub fn contains(json: &str, part: &str) -> Result<bool> {
    if json.starts_with('[') && !part.starts_with(['[', '{']) {
        return Ok(elements(json).any(|element| compare(element, part).is_eq()));
    }
    contains_at(json, part, 0)
}

fn contains_at(json: &str, part: &str, depth: usize) -> Result<bool> {
    if depth > DEPTH_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("jsonb is nested deeper than {DEPTH_MAX} levels"),
        ));
    }
    match (json.as_bytes().first(), part.as_bytes().first()) {
        (Some(b'{'), Some(b'{')) => {
            for (key, wanted) in members(part) {
                let found = members(json).find(|(name, _)| *name == key);
                match found {
                    Some((_, value)) if contains_at(value, wanted, depth + 1)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (Some(b'['), Some(b'[')) => {
            for wanted in elements(part) {
                let mut found = false;
                for element in elements(json) {
                    if contains_at(element, wanted, depth + 1)? {
                        found = true;
                        break;
                    }
                }
                if !found {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(compare(json, part).is_eq()),
    }
}

/// The result of `jsonb_pretty`: the value as indented text with several lines.
pub fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut level = 0_usize;
    let mut rest = json;
    let indent = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", level));
    };
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let length = string_length(rest).unwrap_or(rest.len());
            let (string, tail) = rest.split_at(length);
            out.push_str(string);
            rest = tail;
            continue;
        }
        rest = rest.get(first.len_utf8()..).unwrap_or("");
        match first {
            '{' | '[' => {
                out.push(first);
                level += 1;
                // The closing bracket of an empty object or array is on a separate line.
                if !rest.trim_start().starts_with(['}', ']']) {
                    indent(&mut out, level);
                }
            }
            '}' | ']' => {
                level = level.saturating_sub(1);
                indent(&mut out, level);
                out.push(first);
            }
            ',' => {
                out.push(',');
                indent(&mut out, level);
                rest = rest.trim_start();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests;
