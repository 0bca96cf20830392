//! Errors in a request, and the part of the request that each error refuses.

use std::fmt;

use stratalog_model::{Error, ErrorKind};

use crate::wire::Fault;

/// Maximal bytes of a value or name that an error shows.
const EXCERPT_BYTES_MAX: usize = 64;

/// The kind of an item of a request. The reader can refuse an item and accept the rest of the
/// request.
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

/// A refused item of a request, and the reason for the refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryError {
    /// The kind of the refused item.
    pub item: Item,
    /// The number of the refused item among the items of its kind, from 1.
    pub number: u64,
    /// Class of the error.
    pub kind: ErrorKind,
    /// The mistake, and how to correct it.
    pub message: String,
}

impl fmt::Display for TelemetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.item, self.number, self.message)
    }
}

/// An error, and the part of the request that the error refuses.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The whole request, because the body is malformed.
    Malformed(Fault),
    /// The whole request, for another reason.
    Request(Error),
    /// One series, point or record.
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

/// Message and hint of an error in one line.
pub(crate) fn message_of(error: &Error) -> String {
    match error.hint() {
        None => error.message().to_string(),
        Some(hint) => format!("{}; {hint}", error.message()),
    }
}

/// A name or value, shortened for a message.
pub(crate) fn excerpt(text: &str) -> String {
    let end = text.floor_char_boundary(EXCERPT_BYTES_MAX);
    let head = text.get(..end).unwrap_or_default();
    let mut excerpt: String = head.escape_debug().to_string();
    if end < text.len() {
        excerpt.push('…');
    }
    excerpt
}

/// Bytes that may not be valid text, shortened for a message.
pub(crate) fn excerpt_bytes(bytes: &[u8]) -> String {
    excerpt(&String::from_utf8_lossy(bytes.get(..4 * EXCERPT_BYTES_MAX).unwrap_or(bytes)))
}
