//! Splits a qualified name into its parts, for the function `parse_ident`.

use std::{iter::Peekable, str::Chars};

use stratalog_model::{Error, ErrorKind, Result};

/// Returns the parts of a name such as `a."B".c`, without quotes. A part without quotes becomes
/// lower case. If `strict`, text after the last part is an error.
///
/// # Errors
/// `InvalidParameterValue` if the text is not a name.
pub(super) fn identifiers(text: &str, strict: bool) -> Result<Vec<String>> {
    let wrong = || {
        let message = format!("string is not a valid identifier: \"{text}\"");
        Error::new(ErrorKind::InvalidParameterValue, message)
    };
    let mut parts: Vec<String> = Vec::new();
    let mut rest = text.chars().peekable();
    loop {
        skip_blanks(&mut rest);
        let part = match rest.peek() {
            Some('"') => {
                let quoted = quoted(&mut rest)
                    .ok_or_else(|| wrong().with_detail("String has unclosed double quotes."))?;
                if quoted.is_empty() {
                    return Err(wrong().with_detail("Quoted identifier must not be empty."));
                }
                quoted
            }
            Some(first) if begins(*first) => {
                let mut plain = String::new();
                while let Some(letter) = rest.next_if(|letter| continues(*letter)) {
                    plain.push(letter.to_ascii_lowercase());
                }
                plain
            }
            Some('.') => {
                return Err(wrong().with_detail("No valid identifier before \".\"."));
            }
            _ if !parts.is_empty() => {
                return Err(wrong().with_detail("No valid identifier after \".\"."));
            }
            _ => return Err(wrong()),
        };
        parts.push(part);
        skip_blanks(&mut rest);
        match rest.next() {
            Some('.') => {}
            None => return Ok(parts),
            Some(_) if strict => return Err(wrong()),
            Some(_) => return Ok(parts),
        }
    }
}

fn skip_blanks(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|letter| matches!(letter, ' ' | '\t' | '\n' | '\r' | '\u{c}')).is_some() {}
}

/// Reads the text up to the closing quote; a doubled quote stands for one quote. `None` if there is
/// no closing quote.
fn quoted(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    rest.next()?;
    let mut part = String::new();
    loop {
        match rest.next()? {
            '"' if rest.next_if_eq(&'"').is_none() => return Some(part),
            letter => part.push(letter),
        }
    }
}

fn begins(letter: char) -> bool {
    letter == '_' || letter.is_ascii_alphabetic() || !letter.is_ascii()
}

fn continues(letter: char) -> bool {
    begins(letter) || letter.is_ascii_digit() || letter == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_by_postgresql() {
        let strict = |text: &str| identifiers(text, true).ok();
        let parts = |parts: &[&str]| Some(parts.iter().map(|part| (*part).to_string()).collect());
        assert_eq!(strict("a.\"  b  \""), parts(&["a", "  b  "]));
        assert_eq!(strict(" A . \"B\"\"c\" . d1$ "), parts(&["a", "B\"c", "d1$"]));
        for wrong in ["", "a b", "1020", "a[]", ".a", "a.", "a..b", "\"\"", "\"a"] {
            assert_eq!(strict(wrong), None, "{wrong}");
        }
        assert_eq!(identifiers("a b", false).ok(), parts(&["a"]));
        assert_eq!(identifiers("a[]", false).ok(), parts(&["a"]));
    }
}
