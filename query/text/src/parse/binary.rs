//! Parses bytea and uuid.

use stratalog_model::{Error, ErrorKind, Result};

use super::{invalid_syntax, trim};

#[inline]
fn nibble(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Parses a bytea, and appends its bytes to `out`. The text is `\x` with hexadecimal digits, or has
/// the escape format.
///
/// # Errors
/// `InvalidTextRepresentation`; `InvalidParameterValue` for wrong hexadecimal digits.
pub fn parse_bytea(text: &str, out: &mut Vec<u8>) -> Result<()> {
    match text.as_bytes() {
        [b'\\', b'x', hex @ ..] => parse_hex(hex, out),
        bytes => parse_escapes(bytes, out),
    }
}

fn parse_hex(hex: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.reserve(hex.len() / 2);
    let mut rest = hex.iter();
    while let Some(first) = rest.next() {
        if matches!(first, b' ' | b'\t'..=b'\r') {
            continue;
        }
        let digit = |byte: u8| {
            nibble(byte).ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidParameterValue,
                    format!("invalid hexadecimal digit: \"{}\"", char::from(byte)),
                )
            })
        };
        let high = digit(*first)?;
        let Some(second) = rest.next() else {
            return Err(Error::new(
                ErrorKind::InvalidParameterValue,
                "invalid hexadecimal data: odd number of digits",
            ));
        };
        out.push(high << 4 | digit(*second)?);
    }
    Ok(())
}

fn parse_escapes(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut rest = bytes;
    while let Some((byte, tail)) = rest.split_first() {
        rest = match (byte, tail) {
            (b'\\', [b'\\', after @ ..]) => {
                out.push(b'\\');
                after
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            (b'\\', _) => {
                return Err(Error::new(
                    ErrorKind::InvalidTextRepresentation,
                    "invalid input syntax for type bytea",
                ));
            }
            (byte, after) => {
                out.push(*byte);
                after
            }
        };
    }
    Ok(())
}

/// Parses a UUID of 32 hexadecimal digits. A hyphen after each group of four digits, and braces
/// around the text, are optional.
///
/// # Errors
/// `InvalidTextRepresentation` for any other text.
pub fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let invalid = || invalid_syntax("uuid", text);
    let trimmed = trim(text);
    let inner = match trimmed.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(invalid)?,
        None => trimmed,
    };
    let mut bytes = inner.bytes().peekable();
    let mut uuid = [0; 16];
    for (at, byte) in uuid.iter_mut().enumerate() {
        let mut digit = || bytes.next().and_then(nibble).ok_or_else(invalid);
        *byte = digit()? << 4 | digit()?;
        if at % 2 == 1 && at < 15 && bytes.peek() == Some(&b'-') {
            bytes.next();
        }
    }
    if bytes.next().is_some() {
        return Err(invalid());
    }
    Ok(uuid)
}
