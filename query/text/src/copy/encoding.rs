//! The encodings of COPY data.

use stratalog_model::{Error, ErrorKind, Result};

/// A character encoding of COPY data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CopyEncoding {
    /// UTF8; also SQL_ASCII, which means that no encoding is known. In both cases, the data must be
    /// valid UTF-8.
    #[default]
    Utf8,
    /// LATIN1 (ISO 8859-1): each byte is the code point of a character.
    Latin1,
}

impl CopyEncoding {
    /// The encoding with this name; `None` for an encoding that is not supported. As in
    /// `client_encoding`, only letters and digits are compared, in upper or lower case.
    pub fn named(name: &str) -> Option<Self> {
        let plain: String = name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|letter| letter.to_ascii_lowercase())
            .collect();
        match plain.as_str() {
            "utf8" | "unicode" | "sqlascii" => Some(Self::Utf8),
            "latin1" | "iso88591" => Some(Self::Latin1),
            _ => None,
        }
    }
}

/// Converts LATIN1 bytes to UTF-8, and appends them to `out`.
pub(super) fn from_latin1(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            0..0x80 => out.push(*byte),
            high => out.extend_from_slice(&[0xc0 | (high >> 6), 0x80 | (high & 0x3f)]),
        }
    }
}

/// Converts the text in `out` from byte `start` on from UTF-8 to LATIN1, in place.
///
/// # Errors
/// `UntranslatableCharacter` for a character that LATIN1 does not have.
pub(super) fn to_latin1(out: &mut Vec<u8>, start: usize) -> Result<()> {
    let tail = out.get(start..).unwrap_or_default();
    if tail.is_ascii() {
        return Ok(());
    }
    let text = std::str::from_utf8(tail)
        .map_err(|_| Error::internal("a row of COPY data is not UTF-8"))?
        .to_string();
    out.truncate(start);
    for character in text.chars() {
        out.push(u8::try_from(u32::from(character)).map_err(|_| no_equivalent(character))?);
    }
    Ok(())
}

fn no_equivalent(character: char) -> Error {
    let mut bytes = [0; 4];
    let shown: Vec<String> =
        character.encode_utf8(&mut bytes).bytes().map(|byte| format!("0x{byte:02x}")).collect();
    Error::new(
        ErrorKind::UntranslatableCharacter,
        format!(
            "character with byte sequence {} in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\"",
            shown.join(" ")
        ),
    )
}
