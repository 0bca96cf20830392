//! Errors of refused lines.

use std::fmt;

use stratalog_model::{Error, ErrorKind};

/// Maximal bytes of a refused line that an error shows.
const LINE_EXCERPT_MAX: usize = 256;

/// Maximal bytes of a value or name that an error shows.
const VALUE_EXCERPT_MAX: usize = 64;

/// A refused line and the reason for the refusal. A refused line does not become a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError {
    /// The number of the line in the request, from 1. Newlines within strings also count. A refused
    /// line that spans several of these lines has the number of its first line.
    pub line: u64,
    /// Class of the error.
    pub kind: ErrorKind,
    /// The mistake, its place in the line, and how to correct it.
    pub message: String,
    /// The beginning of the original line, at most 256 bytes.
    pub original: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// The number of all errors, and the first errors themselves.
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

/// A name or value, shortened for a message.
pub(crate) fn excerpt(text: &str) -> String {
    let cut = cut(text.as_bytes(), VALUE_EXCERPT_MAX);
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

/// Bytes that may not be valid text, shortened for a message.
pub(crate) fn excerpt_bytes(bytes: &[u8]) -> String {
    excerpt(&String::from_utf8_lossy(bytes.get(..4 * VALUE_EXCERPT_MAX).unwrap_or(bytes)))
}

/// The first `bytes_max` bytes of a text, cut between characters. Replaces invalid UTF-8 by U+FFFD.
fn cut(bytes: &[u8], bytes_max: usize) -> String {
    let head = bytes.get(..bytes_max).unwrap_or(bytes);
    let mut text = String::from_utf8_lossy(head).into_owned();
    if head.len() < bytes.len() {
        // The cut may have split a character: remove the replacement for its remaining bytes.
        while text.ends_with(char::REPLACEMENT_CHARACTER) {
            text.pop();
        }
    }
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

#[cfg(test)]
mod tests;
