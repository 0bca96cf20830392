//! Errors in a part of a request, and the scope of each.

use std::fmt;

use stratalog_model::{Error, ErrorKind};

use crate::wire::Fault;

/// Maximal bytes shown of a value or name.
const EXCERPT_BYTES_MAX: usize = 64;

/// A part of a request that can be refused alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Item {
    /// A time series of remote write, counted from 1.
    Series,
    /// A data point of OTLP metrics, counted from 1 over all metrics of the request.
    DataPoint,
    /// A record of OTLP logs, counted from 1 over all scopes of the request.
    LogRecord,
    /// A resource of OTLP metrics, counted from 1.
    Resource,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Series => "series",
            Self::DataPoint => "data point",
            Self::LogRecord => "log record",
            Self::Resource => "resource",
        })
    }
}

/// The reason for refusing a part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryError {
    /// The refused part, or the first of its kind.
    pub item: Item,
    /// The number of the part in the request, from 1.
    pub number: u64,
    /// Class of the error.
    pub kind: ErrorKind,
    /// The mistake, and a hint to fix it.
    pub message: String,
}

impl fmt::Display for TelemetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.item, self.number, self.message)
    }
}

/// The scope of an error.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The body is malformed: the whole request is refused.
    Malformed(Fault),
    /// The whole request is refused.
    Request(Error),
    /// A single series, point or record is refused.
    Item(Error),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Malformed(fault)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Item(error)
    }
}

/// The message and the hint of an error, in one line.
pub(crate) fn message_of(error: &Error) -> String {
    match error.hint() {
        None => error.message().to_string(),
        Some(hint) => format!("{}; {hint}", error.message()),
    }
}

/// A name or value for a message.
pub(crate) fn excerpt(text: &str) -> String {
    let end = text.floor_char_boundary(EXCERPT_BYTES_MAX);
    let head = text.get(..end).unwrap_or_default();
    let mut excerpt: String = head.escape_debug().to_string();
    if end < text.len() {
        excerpt.push('…');
    }
    excerpt
}

/// Like [`excerpt`], for bytes that are possibly not text.
pub(crate) fn excerpt_bytes(bytes: &[u8]) -> String {
    excerpt(&String::from_utf8_lossy(bytes.get(..4 * EXCERPT_BYTES_MAX).unwrap_or(bytes)))
}
