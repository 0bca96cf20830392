//! Converts bytea to text and back: in a character encoding (`convert_from`, `convert_to`), or in a
//! format for bytes (`encode`, `decode`).

use arrow::array::{Array as _, ArrayRef, AsArray};
use base64::{Engine as _, engine::general_purpose};
use datafusion::common::Result;
use stratalog_model::{Error, ErrorKind};

use super::{built, invalid};
use crate::{
    failed,
    function::{Arguments, text_at, text_rows},
};

/// The number of characters in a line of base64, as in PostgreSQL.
const LINE: usize = 76;

/// A supported character encoding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextEncoding {
    Utf8,
    Latin1,
    Ascii,
}

/// The encoding with this name. `which` is the name of the argument in the error message.
fn encoding(name: &str, which: &str) -> Result<TextEncoding, Error> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Ok(TextEncoding::Utf8),
        "latin1" | "iso88591" => Ok(TextEncoding::Latin1),
        "sqlascii" => Ok(TextEncoding::Ascii),
        _ => Err(invalid(&format!("invalid {which} encoding name \"{name}\""))),
    }
}

/// Computes `convert_from(bytes, encoding)`.
pub(super) fn convert_from(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (bytes, names) = (arguments.array(0)?.as_binary::<i32>(), arguments.text(1)?);
    text_rows(arguments.rows, |row| {
        let Some(name) = text_at(names, row).filter(|_| bytes.is_valid(row)) else {
            return Ok(None);
        };
        let given = bytes.value(row);
        if encoding(name, "source").map_err(failed)? == TextEncoding::Latin1 {
            return Ok(Some(given.iter().copied().map(char::from).collect()));
        }
        match std::str::from_utf8(given) {
            Ok(text) if !text.contains('\0') => Ok(Some(text.to_string())),
            checked => {
                let at = checked.err().map_or(0, |error| error.valid_up_to());
                let shown: Vec<String> = given
                    .get(at..)
                    .unwrap_or_default()
                    .iter()
                    .take(1)
                    .map(|byte| format!("0x{byte:02x}"))
                    .collect();
                Err(failed(Error::new(
                    ErrorKind::InvalidEncoding,
                    format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
                )))
            }
        }
    })
}

/// Computes `convert_to(text, encoding)`.
pub(super) fn convert_to(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (texts, names) = (arguments.text(0)?, arguments.text(1)?);
    built(arguments.rows, |row| {
        let (Some(text), Some(name)) = (text_at(texts, row), text_at(names, row)) else {
            return Ok(None);
        };
        if encoding(name, "destination")? != TextEncoding::Latin1 {
            return Ok(Some(text.as_bytes().to_vec()));
        }
        let bytes: Result<Vec<u8>, Error> = text
            .chars()
            .map(|letter| {
                u8::try_from(letter).map_err(|_| {
                    Error::new(
                        ErrorKind::UntranslatableCharacter,
                        format!("character \"{letter}\" has no equivalent in encoding \"LATIN1\""),
                    )
                })
            })
            .collect();
        bytes.map(Some)
    })
}

/// The error for a format other than hex, base64 and escape.
fn unknown_form(form: &str) -> Error {
    invalid(&format!("unrecognized encoding: \"{form}\""))
}

/// Computes `encode(bytes, format)`.
pub(super) fn encoded(bytes: &[u8], form: &str) -> Result<String, Error> {
    match form.to_ascii_lowercase().as_str() {
        "hex" => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        "base64" => {
            let text = general_purpose::STANDARD.encode(bytes);
            let mut out = String::with_capacity(text.len() + text.len() / LINE);
            for (at, letter) in text.chars().enumerate() {
                if at > 0 && at % LINE == 0 {
                    out.push('\n');
                }
                out.push(letter);
            }
            Ok(out)
        }
        "escape" => {
            let mut out = String::with_capacity(bytes.len());
            for byte in bytes {
                match byte {
                    0 | 128.. => out.push_str(&format!("\\{byte:03o}")),
                    b'\\' => out.push_str("\\\\"),
                    other => out.push(char::from(*other)),
                }
            }
            Ok(out)
        }
        _ => Err(unknown_form(form)),
    }
}

/// Computes `decode(text, format)`.
pub(super) fn decoded(text: &str, form: &str) -> Result<Vec<u8>, Error> {
    match form.to_ascii_lowercase().as_str() {
        "hex" => from_hex(text),
        "base64" => {
            let compact: String =
                text.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
            let is_symbol = |letter: char| letter.is_ascii_alphanumeric() || "+/=".contains(letter);
            if let Some(letter) = compact.chars().find(|letter| !is_symbol(*letter)) {
                return Err(invalid(&format!(
                    "invalid symbol \"{letter}\" found while decoding base64 sequence"
                )));
            }
            general_purpose::STANDARD.decode(compact).map_err(|_| {
                invalid("invalid base64 end sequence").with_hint(
                    "Input data is missing padding, is truncated, or is otherwise corrupted.",
                )
            })
        }
        "escape" => from_escape(text),
        _ => Err(unknown_form(form)),
    }
}

/// Decodes hexadecimal digits; white space is ignored.
fn from_hex(text: &str) -> Result<Vec<u8>, Error> {
    let mut digits = Vec::with_capacity(text.len());
    for letter in text.chars().filter(|letter| !matches!(letter, ' ' | '\n' | '\t' | '\r')) {
        let digit = letter.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let wrong = || invalid(&format!("invalid hexadecimal digit: \"{letter}\""));
        digits.push(digit.ok_or_else(wrong)?);
    }
    match digits.as_chunks::<2>() {
        (pairs, []) => Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect()),
        _ => Err(invalid("invalid hexadecimal data: odd number of digits")),
    }
}

/// Decodes the escape format: `\\` is a backslash, and `\nnn` is a byte as an octal number.
fn from_escape(text: &str) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                out.push(b'\\');
                rest = after;
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            (b'\\', _) => {
                return Err(Error::new(
                    ErrorKind::InvalidTextRepresentation,
                    "invalid input syntax for type bytea",
                ));
            }
            (other, after) => {
                out.push(*other);
                rest = after;
            }
        }
    }
    Ok(out)
}
