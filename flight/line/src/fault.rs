//! Errors of refused lines.

use std::fmt;

use stratalog_model::{Error, ErrorKind};

/// Maximal bytes shown of a refused line.
const LINE_EXCERPT_MAX: usize = 256;

/// Maximal bytes shown of a value or name.
const VALUE_EXCERPT_MAX: usize = 64;

/// The reason for refusing a line. A refused line leaves no row behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError {
    /// Number of the line in the request, from 1; for a line with newlines in a string, the number
    /// of its first line.
    pub line: u64,
    /// Class of the error.
    pub kind: ErrorKind,
    /// The mistake, its place in the line, and a hint to fix it.
    pub message: String,
    /// The original line, at most 256 bytes.
    pub original: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Counts all errors, and keeps the first of them.
#[derive(Debug, Default)]
pub(crate) struct LineErrors {
    pub(crate) count: u64,
    pub(crate) first_errors: Vec<LineError>,
}

impl LineErrors {
    pub(crate) fn add(&mut self, kept_max: usize, line: u64, original: &[u8], error: &Error) {
        self.count += 1;
        if self.first_errors.len() >= kept_max {
            return;
        }
        let message = match error.hint() {
            None => error.message().to_string(),
            Some(hint) => format!("{}; {hint}", error.message()),
        };
        let original = cut(original, LINE_EXCERPT_MAX);
        self.first_errors.push(LineError { line, kind: error.kind(), message, original });
    }
}

/// A name or value for a message.
pub(crate) fn excerpt(text: &str) -> String {
    let cut = cut(text.as_bytes(), VALUE_EXCERPT_MAX);
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

/// Like [`excerpt`], for bytes that are possibly not text.
pub(crate) fn excerpt_bytes(bytes: &[u8]) -> String {
    excerpt(&String::from_utf8_lossy(bytes.get(..4 * VALUE_EXCERPT_MAX).unwrap_or(bytes)))
}

/// At most `bytes_max` bytes of a text that may have invalid UTF-8, cut between characters.
fn cut(bytes: &[u8], bytes_max: usize) -> String {
    let head = bytes.get(..bytes_max).unwrap_or(bytes);
    let mut text = String::from_utf8_lossy(head).into_owned();
    if head.len() < bytes.len() {
        // The cut may split a character; the replacement character is not the line's fault.
        while text.ends_with(char::REPLACEMENT_CHARACTER) {
            text.pop();
        }
    }
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

#[cfg(test)]
mod tests;
