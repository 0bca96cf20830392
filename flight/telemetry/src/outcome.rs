//! The result of reading a request.

use std::fmt::Write as _;

use stratalog_line::TableRows;
use stratalog_model::{Error, Result};

use crate::{
    Encoding, Item, TelemetryError,
    fault::{Refusal, message_of},
    json::text::put_text,
    wire::{put_bytes, put_number},
};

/// Maximal number of errors that a message to the client names.
const ERRORS_LISTED_MAX: usize = 3;

/// Approximate maximal size of a message to the client, in bytes.
const MESSAGE_BYTES_MAX: usize = 2_000;

/// The kind of data that a request contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Prometheus remote write: samples.
    RemoteWrite,
    /// OTLP metrics: data points.
    Metrics,
    /// OTLP logs: log records.
    Logs,
}

impl Signal {
    /// The noun for `count` items of the request, for messages.
    fn noun(self, count: u64) -> &'static str {
        match (self, count) {
            (Self::RemoteWrite, 1) => "sample",
            (Self::RemoteWrite, _) => "samples",
            (Self::Metrics, 1) => "data point",
            (Self::Metrics, _) => "data points",
            (Self::Logs, 1) => "log record",
            (Self::Logs, _) => "log records",
        }
    }
}

/// The result of reading a request with a valid body.
#[derive(Debug)]
pub struct Outcome {
    /// The kind of the request.
    pub signal: Signal,
    /// The rows by table, in the order of the tables' first rows. [`TableRows::line`] returns the
    /// number of the series, data point or log record from which a row comes.
    pub tables: Vec<TableRows>,
    /// The first errors, at most [`errors_max`](crate::TelemetryLimits::errors_max).
    pub errors: Vec<TelemetryError>,
    /// The number of errors, including errors that are not in `errors`.
    pub errors_count: u64,
    /// The number of accepted samples, data points or log records.
    pub accepted: u64,
    /// The number of refused samples, data points or log records, including native histograms of
    /// remote write. Some rows of a refused histogram or summary may be among the accepted rows.
    pub rejected: u64,
}

impl Outcome {
    /// A message of one line for the client: the numbers of accepted and refused items, and the
    /// first errors.
    pub fn message(&self) -> String {
        let mut message = format!(
            "{} {} accepted, {} rejected",
            self.accepted,
            self.signal.noun(self.accepted),
            self.rejected
        );
        for (at, error) in self.errors.iter().take(ERRORS_LISTED_MAX).enumerate() {
            let _ = write!(message, "{} {error}", if at == 0 { ":" } else { " |" });
        }
        // Names in the message may contain control characters.
        message = message.replace(char::is_control, " ");
        let listed = self.errors.len().min(ERRORS_LISTED_MAX) as u64;
        if self.errors_count > listed {
            let _ = write!(message, " | and {} more errors", self.errors_count - listed);
        }
        if message.len() > MESSAGE_BYTES_MAX {
            message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
            message.push('…');
        }
        message
    }

    /// The body of OTLP's answer to a request that was accepted completely or partly
    /// (`ExportMetricsServiceResponse`, `ExportLogsServiceResponse`). The body has the number of
    /// refused items and [`Self::message`] if there were errors, and is empty otherwise. For remote
    /// write the body is always empty.
    pub fn response(&self, encoding: Encoding) -> Vec<u8> {
        let field = match self.signal {
            Signal::RemoteWrite => return Vec::new(),
            Signal::Metrics => "rejectedDataPoints",
            Signal::Logs => "rejectedLogRecords",
        };
        let clean = self.rejected == 0 && self.errors_count == 0;
        match encoding {
            Encoding::Protobuf if clean => Vec::new(),
            Encoding::Json if clean => b"{}".to_vec(),
            Encoding::Protobuf => {
                let mut partial = Vec::new();
                if self.rejected > 0 {
                    put_number(&mut partial, 1, self.rejected);
                }
                put_bytes(&mut partial, 2, self.message().as_bytes());
                let mut response = Vec::with_capacity(partial.len() + 8);
                put_bytes(&mut response, 1, &partial);
                response
            }
            Encoding::Json => {
                let mut text = format!(
                    "{{\"partialSuccess\":{{\"{field}\":\"{}\",\"errorMessage\":",
                    self.rejected
                );
                put_text(&mut text, &self.message());
                text.push_str("}}");
                text.into_bytes()
            }
        }
    }
}

/// The body of OTLP's answer to a request that was refused as a whole (`google.rpc.Status`). `code`
/// is the number of a gRPC status, as in [`Status::grpc`](stratalog_model::error::Status::grpc).
pub fn status(code: i32, message: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Protobuf => {
            let mut bytes = Vec::with_capacity(message.len() + 16);
            if code != 0 {
                put_number(&mut bytes, 1, i64::from(code).cast_unsigned());
            }
            if !message.is_empty() {
                put_bytes(&mut bytes, 2, message.as_bytes());
            }
            bytes
        }
        Encoding::Json => {
            let mut text = format!("{{\"code\":{code},\"message\":");
            put_text(&mut text, message);
            text.push('}');
            text.into_bytes()
        }
    }
}

/// The numbers of accepted and refused items so far, and the errors.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) errors: Vec<TelemetryError>,
    pub(crate) errors_max: usize,
    pub(crate) errors_count: u64,
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
}

impl Tally {
    /// Counts `count` refused items, and records `error` for the item with number `number`.
    #[cold]
    pub(crate) fn refuse(&mut self, item: Item, number: u64, count: u64, error: &Error) {
        self.rejected += count;
        self.errors_count += 1;
        if self.errors.len() < self.errors_max {
            let message = message_of(error);
            self.errors.push(TelemetryError { item, number, kind: error.kind(), message });
        }
    }

    /// Counts `count` items as accepted or refused, depending on the result of reading them.
    /// Returns an error only if it refuses the whole request.
    pub(crate) fn count_result(
        &mut self,
        item: Item,
        number: u64,
        count: u64,
        read: Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        match read {
            Ok(()) => self.accepted += count,
            Err(Refusal::Item(error)) => self.refuse(item, number, count, &error),
            Err(other) => return Err(other),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
