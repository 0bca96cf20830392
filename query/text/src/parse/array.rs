//! Parses one-dimensional arrays, for example `{a,"b c",NULL}`.

use std::borrow::Cow;

use stratalog_model::{Error, ErrorKind, Result};

use super::{shortened, trim};

/// Parses an array, and passes the text of each element to `each`; `None` is a NULL element.
///
/// # Errors
/// `InvalidTextRepresentation` for malformed text, `FeatureNotSupported` for several dimensions,
/// and the errors of `each`.
pub fn parse_array(text: &str, mut each: impl FnMut(Option<&str>) -> Result<()>) -> Result<()> {
    let malformed = |detail: &str| {
        Error::new(
            ErrorKind::InvalidTextRepresentation,
            format!("malformed array literal: \"{}\"", shortened(text)),
        )
        .with_detail(detail)
    };
    let trimmed = trim(text);
    if trimmed.starts_with('[') {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "arrays with explicit bounds are not supported",
        ));
    }
    let Some(mut rest) = trimmed.strip_prefix('{') else {
        return Err(malformed("Array value must start with \"{\" or dimension information."));
    };
    rest = rest.trim_start();
    if let Some(after) = rest.strip_prefix('}') {
        return match trim(after) {
            "" => Ok(()),
            _ => Err(malformed("Junk after closing right brace.")),
        };
    }
    loop {
        rest = rest.trim_start();
        let after = if let Some(quoted) = rest.strip_prefix('"') {
            let (value, after) =
                quoted_element(quoted).ok_or_else(|| malformed("Unexpected end of input."))?;
            each(Some(&value))?;
            after.trim_start()
        } else if rest.starts_with('{') {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                "arrays of more than one dimension are not supported",
            ));
        } else {
            let (value, after, bare) =
                plain_element(rest).ok_or_else(|| malformed("Unexpected end of input."))?;
            if value.is_empty() {
                return Err(malformed("Unexpected \",\" or \"}\" character."));
            }
            if bare {
                return Err(malformed("Incorrectly quoted array element."));
            }
            if matches!(&value, Cow::Borrowed(plain) if plain.eq_ignore_ascii_case("null")) {
                each(None)?;
            } else {
                each(Some(&value))?;
            }
            after
        };
        if let Some(next) = after.strip_prefix(',') {
            rest = next;
        } else if let Some(end) = after.strip_prefix('}') {
            return match trim(end) {
                "" => Ok(()),
                _ => Err(malformed("Junk after closing right brace.")),
            };
        } else if after.is_empty() {
            return Err(malformed("Unexpected end of input."));
        } else {
            return Err(malformed("Unexpected array element."));
        }
    }
}

/// Parses a quoted element after its opening quote: returns its content, and the text after the
/// closing quote.
fn quoted_element(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = text.find(['"', '\\'])?;
    if text.as_bytes().get(end) == Some(&b'"') {
        return Some((text.get(..end)?.into(), text.get(end + 1..)?));
    }
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value.into(), text.get(at + 1..)?)),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

/// Parses an element without quotes, up to the next comma or brace. Returns three results: the
/// element without surrounding space, the text after it, and whether it contains an unescaped quote
/// or brace. The element is borrowed if it contains no escape.
fn plain_element(text: &str) -> Option<(Cow<'_, str>, &str, bool)> {
    let end = text.find([',', '}', '\\'])?;
    if text.as_bytes().get(end) != Some(&b'\\') {
        let value = trim(text.get(..end)?);
        return Some((value.into(), text.get(end..)?, value.contains(['"', '{'])));
    }
    let mut value = String::new();
    let mut bare = false;
    let mut escaped_length = 0;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            ',' | '}' => {
                // Trailing space is removed unless it is escaped.
                let kept = value.trim_end().len().max(escaped_length);
                value.truncate(kept);
                return Some((value.into(), text.get(at..)?, bare));
            }
            '\\' => {
                value.push(characters.next()?.1);
                escaped_length = value.len();
            }
            other => {
                bare |= matches!(other, '"' | '{');
                value.push(other);
            }
        }
    }
    None
}
