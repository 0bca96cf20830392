//! Writes the values of Arrow arrays in PostgreSQL's text format.

pub mod datetime;
mod extents;
pub mod interval;
pub mod number;
mod source;

use arrow::{array::Array, datatypes::Field};
use stratalog_model::Result;

use self::source::Source;
pub use self::source::type_name;
use crate::{TextStyle, style::ByteaOutput};

/// Writes the values of one Arrow array as text. [`Self::new`] selects the conversion for the
/// array's type only once.
#[derive(Debug)]
pub struct ColumnWriter<'a> {
    source: Source<'a>,
    style: &'a TextStyle,
}

impl<'a> ColumnWriter<'a> {
    /// Creates a writer for `array`. Its SQL type is the result of
    /// [`ColumnType::from_arrow_field`](stratalog_model::ColumnType::from_arrow_field) for `field`.
    ///
    /// # Errors
    /// `FeatureNotSupported` if the field has no SQL type.
    pub fn new(array: &'a dyn Array, field: &Field, style: &'a TextStyle) -> Result<Self> {
        Ok(Self { source: Source::new(array, field)?, style })
    }

    /// True if the value in `row` is NULL. The row must exist.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.source.is_null(row)
    }

    /// Appends the text of the value in `row`, and returns true. For NULL, appends nothing and
    /// returns `false`. The row must exist.
    #[inline]
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> bool {
        if self.source.is_null(row) {
            return false;
        }
        self.source.write(row, self.style, out);
        true
    }
}

/// The text of a single value of an array; `None` for NULL. For many values, use a
/// [`ColumnWriter`].
///
/// # Errors
/// `FeatureNotSupported` if the field has no SQL type.
pub fn write_value(
    array: &dyn Array,
    row: usize,
    field: &Field,
    style: &TextStyle,
) -> Result<Option<String>> {
    let writer = ColumnWriter::new(array, field, style)?;
    let mut out = Vec::new();
    let present = writer.write(row, &mut out);
    Ok(present.then(|| String::from_utf8_lossy(&out).into_owned()))
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[inline]
fn push_hex(byte: u8, out: &mut Vec<u8>) {
    let digit = |nibble: u8| HEX.get(usize::from(nibble & 15)).copied().unwrap_or(b'0');
    out.extend_from_slice(&[digit(byte >> 4), digit(byte)]);
}

/// Appends bytes in the given output format of bytea.
pub fn write_bytea(bytes: &[u8], style: ByteaOutput, out: &mut Vec<u8>) {
    match style {
        ByteaOutput::Hex => {
            out.reserve(2 + bytes.len() * 2);
            out.extend_from_slice(b"\\x");
            for byte in bytes {
                push_hex(*byte, out);
            }
        }
        ByteaOutput::Escape => {
            for byte in bytes {
                match byte {
                    b'\\' => out.extend_from_slice(b"\\\\"),
                    0x20..=0x7e => out.push(*byte),
                    _ => out.extend_from_slice(&[
                        b'\\',
                        b'0' + (byte >> 6),
                        b'0' + ((byte >> 3) & 7),
                        b'0' + (byte & 7),
                    ]),
                }
            }
        }
    }
}

/// Appends a UUID. If the length is not 16 bytes, appends plain hexadecimal digits.
pub fn write_uuid(bytes: &[u8], out: &mut Vec<u8>) {
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        push_hex(*byte, out);
    }
}

/// Appends the text of an array element, in quotes if the syntax of arrays requires quotes.
pub(crate) fn write_element(text: &[u8], out: &mut Vec<u8>) {
    let plain = !text.is_empty()
        && !text.eq_ignore_ascii_case(b"null")
        && !text
            .iter()
            .any(|byte| matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\' | b' ' | b'\t'..=b'\r'));
    if plain {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
