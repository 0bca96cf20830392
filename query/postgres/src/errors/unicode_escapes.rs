//! Errors for wrong Unicode escapes in strings, `E'\u0061'`. The tokenizer reports such a string as
//! unterminated.

use stratalog_model::{Error, ErrorKind};

/// The error for a wrong Unicode escape in the string at the start of `text`; `None` without a
/// wrong escape. `before` is the number of characters in front of `text`.
pub(super) fn error(text: &str, before: usize) -> Option<Error> {
    let position = u32::try_from(before + invalid_escape(text)? + 1).ok()?;
    let error = Error::new(ErrorKind::InvalidEscape, "invalid Unicode escape")
        .with_hint("Unicode escapes must be \\uXXXX or \\UXXXXXXXX.");
    Some(error.with_position(position))
}

/// The offset of the backslash of the first wrong Unicode escape, in characters.
fn invalid_escape(text: &str) -> Option<usize> {
    let letters: Vec<char> = text.chars().collect();
    let ['E' | 'e', '\'', rest @ ..] = letters.as_slice() else { return None };
    let mut at = 0;
    loop {
        match rest.get(at..)? {
            ['\'', '\'', ..] => at += 2,
            ['\'', ..] => return None,
            ['\\', letter @ ('u' | 'U'), digits @ ..] => {
                let wanted = if *letter == 'u' { 4 } else { 8 };
                let found = digits.iter().take(wanted).take_while(|c| c.is_ascii_hexdigit());
                if found.count() < wanted {
                    return Some(at + 2);
                }
                at += 2 + wanted;
            }
            ['\\', ..] => at += 2,
            [_, ..] => at += 1,
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_escapes_are_found() {
        for (text, place) in [
            (r"E'\u061'", Some(2)),
            (r"E'a\u0061\U00061 '", Some(9)),
            (r"E'a\\u061'", None),
            (r"E'it''s \u0061'", None),
            (r"'\u061'", None),
            (r"E'\u0061", None),
        ] {
            assert_eq!(invalid_escape(text), place, "{text}");
        }
    }
}
