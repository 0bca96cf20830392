//! The SQL functions `normalize`, `unistr` and `levenshtein`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array};
use datafusion::common::Result;
use stratalog_model::{ColumnType, Error, ErrorKind};
use unicode_normalization::UnicodeNormalization as _;

use crate::{
    failed,
    function::{Arguments, Function, Parameter, text_at, text_rows},
    governor,
};

use Parameter::Text;

/// The SQL functions that this module declares.
pub fn functions() -> Vec<Function> {
    vec![
        Function::immutable(
            "normalize",
            &[&[Text], &[Text, Text]],
            ColumnType::Text,
            "A text in a normal form of Unicode: NFC, NFD, NFKC or NFKD.",
            normalize,
        ),
        Function::immutable(
            "unistr",
            &[&[Text]],
            ColumnType::Text,
            "A text with \\XXXX, \\+XXXXXX, \\uXXXX and \\UXXXXXXXX replaced by characters of Unicode.",
            |arguments| {
                let texts = arguments.text(0)?;
                text_rows(arguments.rows, |row| {
                    text_at(texts, row).map(unescaped).transpose().map_err(failed)
                })
            },
        ),
        Function::immutable(
            "levenshtein",
            &[&[Text, Text]],
            ColumnType::Integer,
            "The number of inserted, deleted or replaced characters that turn one text into the other.",
            |arguments| {
                let (left, right) = (arguments.text(0)?, arguments.text(1)?);
                let distances = (0..arguments.rows).map(|row| {
                    match (text_at(left, row), text_at(right, row)) {
                        (Some(left), Some(right)) => distance(left, right).map(Some),
                        _ => Ok(None),
                    }
                });
                Ok(Arc::new(distances.collect::<Result<Int32Array>>()?))
            },
        ),
    ]
}

/// The Levenshtein distance of two texts. Only one row of the distance matrix is in memory. After
/// each row, the function checks whether the statement must stop.
fn distance(left: &str, right: &str) -> Result<i32> {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, letter) in left.chars().enumerate() {
        governor::check()?;
        let mut diagonal = above;
        let mut before = above + 1;
        if let Some(first) = row.first_mut() {
            *first = before;
        }
        for (cell, other) in row.iter_mut().skip(1).zip(&right) {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = *cell;
            before = replaced.min(before + 1).min(*cell + 1);
            *cell = before;
        }
    }
    let last = row.last().copied().unwrap_or(0);
    Ok(i32::try_from(last).unwrap_or(i32::MAX))
}

fn normalize(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let texts = arguments.text(0)?;
    let forms = arguments.has(1).then(|| arguments.text(1)).transpose()?;
    text_rows(arguments.rows, |row| {
        let form = forms.map_or(Some("NFC"), |forms| text_at(forms, row));
        let (Some(text), Some(form)) = (text_at(texts, row), form) else { return Ok(None) };
        Ok(Some(match form.to_ascii_uppercase().as_str() {
            "NFC" => text.nfc().collect(),
            "NFD" => text.nfd().collect(),
            "NFKC" => text.nfkc().collect(),
            "NFKD" => text.nfkd().collect(),
            _ => {
                return Err(failed(Error::new(
                    ErrorKind::InvalidParameterValue,
                    format!("invalid normalization form: {form}"),
                )));
            }
        }))
    })
}

fn unescaped(text: &str) -> Result<String, Error> {
    let wrong = || {
        Error::new(ErrorKind::SyntaxError, "invalid Unicode escape")
            .with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
    };
    let unit = |digits: &str| {
        let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        plain.then(|| u32::from_str_radix(digits, 16).ok())?
    };
    let mut out = String::with_capacity(text.len());
    let mut high: Option<u32> = None;
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let after = rest.get(letter.len_utf8()..).unwrap_or("");
        if letter != '\\' || after.starts_with('\\') {
            if high.is_some() {
                return Err(Error::new(ErrorKind::SyntaxError, "invalid Unicode surrogate pair"));
            }
            out.push(letter);
            rest = if letter == '\\' { after.get(1..).unwrap_or("") } else { after };
            continue;
        }
        let (start, length) = match after.chars().next() {
            Some('+') => (1, 6),
            Some('u') => (1, 4),
            Some('U') => (1, 8),
            _ => (0, 4),
        };
        let code = after.get(start..start + length).and_then(unit).ok_or_else(wrong)?;
        rest = after.get(start + length..).unwrap_or("");
        let pair = || Error::new(ErrorKind::SyntaxError, "invalid Unicode surrogate pair");
        match (high.take(), code) {
            (None, 0xd800..0xdc00) => high = Some(code),
            (Some(first), 0xdc00..0xe000) => {
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (code - 0xdc00);
                out.push(char::from_u32(code).ok_or_else(pair)?);
            }
            (Some(_), _) => return Err(pair()),
            (None, code) => out.push(char::from_u32(code).filter(|_| code != 0).ok_or_else(pair)?),
        }
    }
    match high {
        Some(_) => Err(Error::new(ErrorKind::SyntaxError, "invalid Unicode surrogate pair")),
        None => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_characters() {
        for (left, right, wanted) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
            ("né", "ne", 1),
            ("abc", "abc", 0),
        ] {
            assert_eq!(distance(left, right).unwrap(), wanted, "{left} {right}");
            assert_eq!(distance(right, left).unwrap(), wanted, "{right} {left}");
        }
    }

    // The expected values are the results of PostgreSQL 15.
    #[test]
    fn escapes_are_characters() {
        assert_eq!(unescaped("d\\0061t\\+000061").unwrap(), "data");
        assert_eq!(unescaped("\\D83D\\DE00 \\\\").unwrap(), "😀 \\");
        for text in ["\\00", "\\D83D", "\\D83Dx", "\\uzzzz"] {
            assert_eq!(unescaped(text).unwrap_err().kind(), ErrorKind::SyntaxError, "{text}");
        }
    }
}
