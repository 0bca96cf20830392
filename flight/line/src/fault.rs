//! Lines that were refused.

use std::fmt;

use stratalog_model::{Error, ErrorKind};

/// Bytes of a refused line that are shown.
const LINE_SHOWN_MAX: usize = 256;

/// Bytes of a value or name that are shown.
const VALUE_SHOWN_MAX: usize = 64;

/// Why a line was refused: it left no row behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError {
    /// Number of the line in the request, from 1; of a line with newlines in a string, the first.
    pub line: u64,
    /// Class of the error.
    pub kind: ErrorKind,
    /// What is wrong, where in the line, and how to mend it.
    pub message: String,
    /// The line as it came, at most 256 bytes of it.
    pub original: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// All errors are counted, and the first of them kept.
#[derive(Debug, Default)]
pub(crate) struct LineErrors {
    pub(crate) count: u64,
    pub(crate) kept: Vec<LineError>,
}

impl LineErrors {
    pub(crate) fn add(&mut self, kept_max: usize, line: u64, original: &[u8], error: &Error) {
        self.count += 1;
        if self.kept.len() >= kept_max {
            return;
        }
        let message = match error.hint() {
            None => error.message().to_string(),
            Some(hint) => format!("{}; {hint}", error.message()),
        };
        let original = cut(original, LINE_SHOWN_MAX);
        self.kept.push(LineError { line, kind: error.kind(), message, original });
    }
}

/// A name or value for a message.
pub(crate) fn shown(text: &str) -> String {
    let cut = cut(text.as_bytes(), VALUE_SHOWN_MAX);
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

/// As [`shown`], of bytes that need not be text.
pub(crate) fn shown_bytes(bytes: &[u8]) -> String {
    shown(&String::from_utf8_lossy(bytes.get(..4 * VALUE_SHOWN_MAX).unwrap_or(bytes)))
}

/// At most so many bytes of a text that need not be one, cut between characters.
fn cut(bytes: &[u8], bytes_max: usize) -> String {
    let head = bytes.get(..bytes_max).unwrap_or(bytes);
    let mut text = String::from_utf8_lossy(head).into_owned();
    if head.len() < bytes.len() {
        // The character that was cut through, which is not the line's fault.
        while text.ends_with(char::REPLACEMENT_CHARACTER) {
            text.pop();
        }
    }
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

#[cfg(test)]
mod tests;
