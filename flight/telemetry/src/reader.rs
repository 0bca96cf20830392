//! The telemetry reader, and the code that all three kinds of requests share.

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

/// Maximal capacity in bytes that the buffer for bodies keeps between requests.
const BODY_KEPT: usize = 4 << 20;

/// The number of rows after which the reader checks the bytes of the rows again.
const BYTES_CHECK_ROWS: usize = 4_096;

/// The destination tables of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout<'a> {
    /// One table per metric, with the name of the metric. The labels are tags; `value` is the only
    /// field. A name of more than [`NAME_BYTES_MAX`](stratalog_line::NAME_BYTES_MAX) bytes is
    /// shortened and ends with a hash.
    PerMetric,
    /// One table with this name for all metrics. The labels are tags, and the tag `metric` contains
    /// the name of the metric.
    Single(&'a str),
}

impl<'a> Layout<'a> {
    /// The name of the table for a metric.
    pub(crate) fn table<'m>(self, metric: &'m str) -> Cow<'m, str>
    where
        'a: 'm,
    {
        match self {
            Self::PerMetric => table_of(metric),
            Self::Single(table) => Cow::Borrowed(table),
        }
    }

    /// Begins an identity, the bytes that identify a series or an origin (resource and scope) in a
    /// cache. An identity begins with `what`, a byte for the kind of request, and with the table.
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
/// Buffers and caches of tables and series stay from one request to the next.
#[derive(Debug)]
pub struct TelemetryReader {
    pub(crate) limits: TelemetryLimits,
    pub(crate) rows: RowBuilder,
    pub(crate) origins: Origins,
    pub(crate) names: Names,
    pub(crate) tally: Tally,
    /// The identity of the current series.
    pub(crate) identity: Vec<u8>,
    /// The buffer of decompressed or converted bodies.
    body: Vec<u8>,
    /// The number of rows at the last check of the rows' bytes.
    checked_rows: usize,
    /// Bytes of texts that occur once in the request but are repeated in several rows.
    text_bytes: usize,
    /// The number of data points or records so far.
    pub(crate) items: u64,
    /// The latest time among the points of the current resource.
    pub(crate) latest_ns: Option<i64>,
}

impl TelemetryReader {
    /// Creates a reader with empty caches.
    pub fn new(limits: TelemetryLimits) -> Self {
        Self::with_names(limits, Names::default())
    }

    /// Creates a reader with empty caches. `names` is the registry of OTLP names, which all readers
    /// share.
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

    /// Ends a request: keeps the buffer of its body for later requests, and returns the outcome. A
    /// failed request leaves no rows.
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

    /// Reads an OTLP request in protobuf or JSON.
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

    /// Checks the size of a body that needs neither decompression nor conversion.
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

    /// Counts bytes of texts that several rows repeat, and checks the limit.
    pub(crate) fn spend_text(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.text_bytes = self.text_bytes.saturating_add(bytes);
        if self.text_bytes <= self.limits.batch_bytes_max {
            return Ok(());
        }
        Err(Refusal::Request(too_many_bytes(self.limits.batch_bytes_max)))
    }

    /// Adds a row with one sample of a series.
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

    /// Records an error that refuses no sample, data point or log record.
    pub(crate) fn warn(&mut self, item: Item, number: u64, error: &Error) {
        self.tally.refuse(item, number, 0, error);
    }
}

/// Improves the error for a refused sample: if a column of the table has an unsuitable type, the
/// new error names the column. `columns` lists the needed columns with the kinds of their values.
pub(crate) fn refused_sample(
    error: Error,
    table: &str,
    columns: &[(&str, ColumnKind)],
    tables: &dyn Tables,
) -> Error {
    if error.kind() != ErrorKind::DatatypeMismatch {
        return error;
    }
    let Some(definition) = tables.table(table) else { return error };
    let misfit = columns.iter().find_map(|(name, kind)| {
        let column = definition.column_named(name)?;
        let tick = column.id == definition.tick_column;
        (tick || !kind.fits(&column.column_type)).then_some((name, kind, column))
    });
    let Some((name, kind, column)) = misfit else { return error };
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

/// The error for a body that exceeds the size limit.
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

/// Checks that a table can store the value of a label: it contains neither a newline nor U+0000.
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
