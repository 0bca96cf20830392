//! Parses values from text by PostgreSQL's rules, with PostgreSQL's errors.

pub mod array;
pub mod binary;
pub mod datetime;
pub mod interval;
pub mod number;
mod words;

pub use words::abbreviated;

use stratalog_model::{Error, ErrorKind, Result};

/// The error for a text that is not a value of the type `type_name`.
pub(crate) fn invalid_syntax(type_name: &str, text: &str) -> Error {
    Error::new(
        ErrorKind::InvalidTextRepresentation,
        format!("invalid input syntax for type {type_name}: \"{}\"", shortened(text)),
    )
}

/// The first 200 characters of a value. Messages contain only these, because a value may be very
/// long.
pub(crate) fn shortened(text: &str) -> std::borrow::Cow<'_, str> {
    const SHOWN_MAX: usize = 200;
    match text.char_indices().nth(SHOWN_MAX) {
        None => text.into(),
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default()).into(),
    }
}

/// Removes the white space around a text (the characters of C's `isspace`), which PostgreSQL
/// ignores for most types.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| matches!(c, ' ' | '\t'..='\r'))
}

/// Parses a boolean: a prefix of true, false, yes or no; on or off; 1 or 0; in upper or lower case.
///
/// # Errors
/// `InvalidTextRepresentation` for any other text.
pub fn parse_boolean(text: &str) -> Result<bool> {
    match text {
        "t" | "true" | "1" => return Ok(true),
        "f" | "false" | "0" => return Ok(false),
        _ => {}
    }
    let trimmed = trim(text);
    let prefix_of = |word: &str| {
        !trimmed.is_empty()
            && word.get(..trimmed.len()).is_some_and(|head| head.eq_ignore_ascii_case(trimmed))
    };
    if prefix_of("true") || prefix_of("yes") || trimmed == "1" {
        return Ok(true);
    }
    if prefix_of("false") || prefix_of("no") || trimmed == "0" {
        return Ok(false);
    }
    // The words "on" and "off" have no accepted prefixes, because the text "o" is ambiguous.
    if trimmed.eq_ignore_ascii_case("on") {
        return Ok(true);
    }
    if trimmed.len() >= 2 && prefix_of("off") {
        return Ok(false);
    }
    Err(invalid_syntax("boolean", text))
}

#[cfg(test)]
mod tests;
