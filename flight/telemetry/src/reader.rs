//! The reader, and what all three kinds of requests need of it.

use std::borrow::Cow;

use stratalog_line::{ColumnKind, FieldValue, RowBuilder, SeriesNumber, Tables};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    Encoding, Item, Names, Outcome, Signal, TelemetryLimits,
    fault::{Refusal, shown},
    json,
    name::{VALUE_COLUMN, table_of},
    origin::Origins,
    outcome::Tally,
    wire::put_varint,
};

/// Room for a body that is kept when it is done with.
const BODY_KEPT: usize = 4 << 20;

/// How often the bytes of the rows are looked at, in rows.
const BYTES_CHECK_ROWS: usize = 4_096;

/// Which tables metrics go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout<'a> {
    /// A table for each metric, of its name; labels are tags, `value` is the only field. Names of more
    /// than [`NAME_BYTES_MAX`](stratalog_line::NAME_BYTES_MAX) bytes become a beginning and a hash.
    PerMetric,
    /// All metrics in the table of this name; as before, and the metric's name is the tag `metric`.
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

    /// Begins the bytes by which something is found again: what it is, and where it goes.
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
/// Keeps its buffers, and what it knows of tables and series, from one request to the next.
#[derive(Debug)]
pub struct TelemetryReader {
    pub(crate) limits: TelemetryLimits,
    pub(crate) rows: RowBuilder,
    pub(crate) origins: Origins,
    pub(crate) names: Names,
    pub(crate) tally: Tally,
    /// The bytes by which a series is found.
    pub(crate) identity: Vec<u8>,
    /// A body that was compressed or converted.
    body: Vec<u8>,
    /// Rows when their bytes were looked at last.
    checked_rows: usize,
    /// Text of the rows that was sent once and is kept more often.
    text_bytes: usize,
    /// Data points or records so far.
    pub(crate) items: u64,
    /// The latest tick of the resource that is read.
    pub(crate) latest_ns: Option<i64>,
}

impl TelemetryReader {
    /// A reader that has read nothing yet.
    pub fn new(limits: TelemetryLimits) -> Self {
        Self::with_names(limits, Names::default())
    }

    /// A reader that shares with others which names are taken.
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

    /// Begins a request; hands out the buffer for its body.
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

    /// Ends a request, with the buffer of its body. Nothing is taken of one that failed.
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

    /// Reads a request of OTLP, as it came or converted.
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

    /// Checks the size of a body that is read as it came.
    fn check_body(&self, body: &[u8]) -> Result<(), Refusal> {
        let (bytes, bytes_max) = (body.len(), self.limits.body_bytes_max);
        if bytes <= bytes_max {
            return Ok(());
        }
        let message = format!("the body has {bytes} bytes, and {bytes_max} are the most");
        Err(Refusal::Request(too_large(message)))
    }

    /// Checks that there is room for so many rows more.
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

    /// Counts text that was sent once and is kept more often than that.
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

    /// Tells of something that is not as it should be, and counts nothing as refused.
    pub(crate) fn warn(&mut self, item: Item, number: u64, error: &Error) {
        self.tally.refuse(item, number, 0, error);
    }
}

/// The error of a sample that its table does not take, in words of samples.
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
            "column \"{name}\" of table \"{}\" is of type {}, and telemetry has {} there",
            shown(table),
            column.column_type,
            kind.column_type()
        ),
    )
    .with_hint("keep it in a table of another name, or in one that is made for it")
}

fn too_many_bytes(bytes_max: usize) -> Error {
    too_large(format!("the rows of the request have more than {bytes_max} bytes"))
}

/// The error of a body that is larger than it may be.
pub(crate) fn too_large(message: String) -> Error {
    Error::new(ErrorKind::LimitExceeded, message).with_hint("send it in several requests")
}

fn malformed(signal: Signal, fault: crate::wire::Fault) -> Error {
    let (message, hint) = match signal {
        Signal::RemoteWrite => {
            ("prometheus.WriteRequest", "send remote write 1.0, protobuf in snappy's block format")
        }
        Signal::Metrics => {
            ("ExportMetricsServiceRequest", "send OTLP's metrics, and only to their own path")
        }
        Signal::Logs => {
            ("ExportLogsServiceRequest", "send OTLP's logs, and only to their own path")
        }
    };
    Error::new(ErrorKind::ProtocolViolation, format!("the body is no {message}: {fault}"))
        .with_hint(hint)
}

/// Checks what a tag may say, in words of labels.
pub(crate) fn check_label_value(name: &str, value: &str) -> Result<()> {
    let what = match memchr::memchr2(b'\n', 0, value.as_bytes()) {
        None => return Ok(()),
        Some(at) if value.as_bytes().get(at) == Some(&0) => "a character of code 0",
        Some(_) => "a newline",
    };
    Err(Error::new(
        ErrorKind::UntranslatableCharacter,
        format!("the value of label \"{}\" has {what}, which a tag cannot hold", shown(name)),
    )
    .with_hint("drop or rewrite the label where it is sent"))
}
