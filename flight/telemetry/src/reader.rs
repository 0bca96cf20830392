//! The reader, and the parts shared by all three kinds of requests.

use std::borrow::Cow;

use stratalog_line::{ColumnKind, FieldValue, RowBuilder, SeriesNumber, Tables};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    Encoding, Item, Names, Outcome, Signal, TelemetryLimits,
    fault::{Refusal, excerpt},
    json,
    name::{VALUE_COLUMN, table_of},
    origin::Origins,
    outcome::Tally,
    wire::put_varint,
};

/// Maximal capacity kept in the buffer for bodies.
const BODY_KEPT: usize = 4 << 20;

/// The interval, in rows, between two checks of the rows' bytes.
const BYTES_CHECK_ROWS: usize = 4_096;

/// The choice of tables for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout<'a> {
    /// A table per metric, with the name of the metric; labels are tags, `value` is the only field.
    /// A name of more than [`NAME_BYTES_MAX`](stratalog_line::NAME_BYTES_MAX) bytes is cut and gets
    /// a hash at its end.
    PerMetric,
    /// All metrics in the table of this name; as before, with the metric's name as the tag
    /// `metric`.
    Single(&'a str),
}

impl<'a> Layout<'a> {
    /// The table of a metric.
    pub(crate) fn table<'m>(self, metric: &'m str) -> Cow<'m, str>
    where
        'a: 'm,
    {
        match self {
            Self::PerMetric => table_of(metric),
            Self::Single(table) => Cow::Borrowed(table),
        }
    }

    /// Begins an identity: the bytes for finding a series or origin again. It starts with the kind
    /// and the target table.
    pub(crate) fn begin_identity(self, identity: &mut Vec<u8>, what: u8) {
        identity.clear();
        identity.push(what);
        match self {
            Self::PerMetric => identity.push(0),
            Self::Single(table) => {
                identity.push(1);
                put_varint(identity, table.len() as u64);
                identity.extend_from_slice(table.as_bytes());
            }
        }
    }
}

/// Reads bodies of telemetry, one after another, into rows.
///
/// The reader keeps its buffers and its caches of tables and series from one request to the next.
#[derive(Debug)]
pub struct TelemetryReader {
    pub(crate) limits: TelemetryLimits,
    pub(crate) rows: RowBuilder,
    pub(crate) origins: Origins,
    pub(crate) names: Names,
    pub(crate) tally: Tally,
    /// The identity of the series.
    pub(crate) identity: Vec<u8>,
    /// A decompressed or converted body.
    body: Vec<u8>,
    /// The number of rows at the last check of their bytes.
    checked_rows: usize,
    /// Bytes of text that was sent once and is stored several times.
    text_bytes: usize,
    /// Data points or records so far.
    pub(crate) items: u64,
    /// The latest tick of the present resource.
    pub(crate) latest_ns: Option<i64>,
}

impl TelemetryReader {
    /// A reader with empty caches.
    pub fn new(limits: TelemetryLimits) -> Self {
        Self::with_names(limits, Names::default())
    }

    /// A reader that shares its registry of names with other readers.
    pub fn with_names(limits: TelemetryLimits, names: Names) -> Self {
        Self {
            names,
            rows: RowBuilder::new(limits.rows),
            origins: Origins::new(limits.origins_max, limits.origins_bytes_max),
            tally: Tally::default(),
            identity: Vec::new(),
            body: Vec::new(),
            checked_rows: 0,
            text_bytes: 0,
            items: 0,
            latest_ns: None,
            limits,
        }
    }

    /// Begins a request and returns the buffer for its body.
    pub(crate) fn begin(&mut self) -> Vec<u8> {
        self.rows.begin();
        self.tally = Tally { errors_max: self.limits.errors_max, ..Tally::default() };
        self.checked_rows = 0;
        self.text_bytes = 0;
        self.items = 0;
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        body
    }

    /// Ends a request and returns the buffer of its body. A failed request leaves no rows.
    pub(crate) fn end(
        &mut self,
        body: Vec<u8>,
        signal: Signal,
        read: Result<(), Refusal>,
    ) -> Result<Outcome> {
        self.body = body;
        self.body.clear();
        self.body.shrink_to(BODY_KEPT);
        let read = match read {
            Ok(()) if self.rows.rows() > self.checked_rows => self.check_bytes(),
            other => other,
        };
        let failed = match read {
            Ok(()) => {
                let Tally { errors, errors_count, accepted, rejected, .. } =
                    std::mem::take(&mut self.tally);
                let tables = self.rows.take();
                return Ok(Outcome { signal, tables, errors, errors_count, accepted, rejected });
            }
            Err(refusal) => refusal,
        };
        self.rows.begin();
        self.tally = Tally::default();
        Err(match failed {
            Refusal::Malformed(fault) => malformed(signal, fault),
            Refusal::Request(error) | Refusal::Item(error) => error,
        })
    }

    /// Reads a request of OTLP in either encoding.
    pub(crate) fn otlp(
        &mut self,
        body: &[u8],
        encoding: Encoding,
        signal: Signal,
        rules: &'static [json::Rule],
        read: impl FnOnce(&mut Self, &[u8]) -> Result<(), Refusal>,
    ) -> Result<Outcome> {
        let mut converted = self.begin();
        let read = match encoding {
            Encoding::Protobuf => self.check_body(body).and_then(|()| read(self, body)),
            Encoding::Json => json::convert(body, rules, &self.limits, &mut converted)
                .map_err(Refusal::Request)
                .and_then(|()| read(self, &converted)),
        };
        self.end(converted, signal, read)
    }

    /// Checks the size of a body that is not decompressed or converted.
    fn check_body(&self, body: &[u8]) -> Result<(), Refusal> {
        let (bytes, bytes_max) = (body.len(), self.limits.body_bytes_max);
        if bytes <= bytes_max {
            return Ok(());
        }
        let message = format!("the body has {bytes} bytes; the maximum is {bytes_max} bytes");
        Err(Refusal::Request(too_large(message)))
    }

    /// Checks that the limits allow `rows` more rows.
    #[inline]
    pub(crate) fn check_room(&mut self, rows: usize) -> Result<(), Refusal> {
        let sum = self.rows.rows().saturating_add(rows);
        if sum > self.limits.rows_max {
            let max = self.limits.rows_max;
            let error = too_large(format!("the request makes more than {max} rows"));
            return Err(Refusal::Request(error));
        }
        if sum >= self.checked_rows + BYTES_CHECK_ROWS { self.check_bytes() } else { Ok(()) }
    }

    #[cold]
    fn check_bytes(&mut self) -> Result<(), Refusal> {
        self.checked_rows = self.rows.rows();
        let bytes_max = self.limits.batch_bytes_max;
        if self.rows.bytes() <= bytes_max {
            return Ok(());
        }
        Err(Refusal::Request(too_many_bytes(bytes_max)))
    }

    /// Counts text that was sent once and is stored several times.
    pub(crate) fn spend_text(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.text_bytes = self.text_bytes.saturating_add(bytes);
        if self.text_bytes <= self.limits.batch_bytes_max {
            return Ok(());
        }
        Err(Refusal::Request(too_many_bytes(self.limits.batch_bytes_max)))
    }

    /// Adds a sample of a series.
    #[inline]
    pub(crate) fn sample(
        &mut self,
        series: SeriesNumber,
        value: f64,
        tick_ns: i64,
        line: u64,
        tables: &dyn Tables,
    ) -> Result<()> {
        let mut row = self.rows.row(series, tables)?;
        row.push(VALUE_COLUMN, FieldValue::Float(value))?;
        row.commit(tick_ns, u32::try_from(line).unwrap_or(u32::MAX))
    }

    /// Reports a problem without counting anything as refused.
    pub(crate) fn warn(&mut self, item: Item, number: u64, error: &Error) {
        self.tally.refuse(item, number, 0, error);
    }
}

/// The error of a sample that its table refuses, in terms of samples.
pub(crate) fn unfit(
    error: Error,
    table: &str,
    columns: &[(&str, ColumnKind)],
    tables: &dyn Tables,
) -> Error {
    if error.kind() != ErrorKind::DatatypeMismatch {
        return error;
    }
    let Some(definition) = tables.table(table) else { return error };
    let unfit = columns.iter().find_map(|(name, kind)| {
        let column = definition.column_named(name)?;
        let tick = column.id == definition.tick_column;
        (tick || !kind.fits(&column.column_type)).then_some((name, kind, column))
    });
    let Some((name, kind, column)) = unfit else { return error };
    Error::new(
        ErrorKind::DatatypeMismatch,
        format!(
            "column \"{name}\" of table \"{}\" is of type {}, but telemetry needs {}",
            excerpt(table),
            column.column_type,
            kind.column_type()
        ),
    )
    .with_hint("store the data in a table with another name, or let the server create the table")
}

fn too_many_bytes(bytes_max: usize) -> Error {
    too_large(format!("the rows of the request have more than {bytes_max} bytes"))
}

/// The error of a body above the size limit.
pub(crate) fn too_large(message: String) -> Error {
    Error::new(ErrorKind::LimitExceeded, message).with_hint("send the data in several requests")
}

fn malformed(signal: Signal, fault: crate::wire::Fault) -> Error {
    let (message, hint) = match signal {
        Signal::RemoteWrite => {
            ("prometheus.WriteRequest", "send remote write 1.0, protobuf in snappy's block format")
        }
        Signal::Metrics => {
            ("ExportMetricsServiceRequest", "send only OTLP metrics to the path of metrics")
        }
        Signal::Logs => ("ExportLogsServiceRequest", "send only OTLP logs to the path of logs"),
    };
    Error::new(ErrorKind::ProtocolViolation, format!("the body is not a valid {message}: {fault}"))
        .with_hint(hint)
}

/// Checks that a tag can hold the value; the error speaks of labels.
pub(crate) fn check_label_value(name: &str, value: &str) -> Result<()> {
    let what = match memchr::memchr2(b'\n', 0, value.as_bytes()) {
        None => return Ok(()),
        Some(at) if value.as_bytes().get(at) == Some(&0) => "a character of code 0",
        Some(_) => "a newline",
    };
    Err(Error::new(
        ErrorKind::UntranslatableCharacter,
        format!("the value of label \"{}\" has {what}, which a tag cannot contain", excerpt(name)),
    )
    .with_hint("drop or rewrite the label at the sender"))
}
