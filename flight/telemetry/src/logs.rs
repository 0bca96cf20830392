//! Reads OTLP logs into rows of one table.
//!
//! ```text
//! ExportLogsServiceRequest  1 resource_logs *
//! ResourceLogs              1 resource    2 scope_logs *
//! ScopeLogs                 1 scope       2 log_records *
//! LogRecord                 1 time  2 severity_number  3 severity_text  5 body  6 attributes *
//!                           8 flags  9 trace_id  10 span_id  11 observed_time  12 event_name
//! ```

use std::fmt::Write as _;

use stratalog_line::{ColumnKind, FieldValue, SeriesNumber, Tables};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    Encoding, Item, Layout, Outcome, Signal, TelemetryReader,
    attribute::{AnyValue, put_object},
    fault::Refusal,
    json,
    metrics::{head, time_out_of_range},
    origin::{scope_name, service_name},
    reader::{check_label_value, refused_sample},
    wire::{Field, Fields, once},
};

/// The tag column of a table of logs: the name of the service that wrote the record.
pub const SERVICE_COLUMN: &str = "service_name";

/// The other columns of a table of logs, in addition to its time and its tag, with the kinds of
/// their values. A column is NULL if the record lacks the value.
pub const LOG_COLUMNS: [(&str, ColumnKind); 12] = [
    ("severity_number", ColumnKind::Integer),
    ("severity_text", ColumnKind::Text),
    ("body", ColumnKind::Text),
    ("trace_id", ColumnKind::Text),
    ("span_id", ColumnKind::Text),
    ("flags", ColumnKind::Integer),
    ("event_name", ColumnKind::Text),
    ("attributes", ColumnKind::Text),
    ("resource_attributes", ColumnKind::Text),
    ("scope_name", ColumnKind::Text),
    ("scope_version", ColumnKind::Text),
    ("scope_attributes", ColumnKind::Text),
];

/// The destination of the rows of a request.
#[derive(Clone, Copy)]
struct LogTarget<'a> {
    table: &'a str,
    now_ns: i64,
    tables: &'a dyn Tables,
}

/// The values that all records of a resource and scope share.
#[derive(Debug, Default)]
struct Source<'a> {
    service: String,
    resource: Option<String>,
    scope: Option<String>,
    scope_name: &'a str,
    scope_version: &'a str,
}

/// The decoded fields of a log record.
#[derive(Debug, Default)]
struct Record<'a> {
    time_ns: u64,
    observed_ns: u64,
    severity_number: i32,
    severity_text: &'a str,
    body: Option<&'a [u8]>,
    has_attributes: bool,
    flags: u32,
    trace_id: &'a [u8],
    span_id: &'a [u8],
    event_name: &'a str,
}

impl TelemetryReader {
    /// Reads an OTLP logs request (`ExportLogsServiceRequest`) into rows of one table
    /// ([`SERVICE_COLUMN`], [`LOG_COLUMNS`]). A record without a time gets its observation time;
    /// without both, the record gets `now_ns`, in nanoseconds since 1970.
    ///
    /// # Errors
    /// `ProtocolViolation` for a malformed body; `LimitExceeded` for a body or a number of rows
    /// above the limit. These errors refuse the whole request. Errors of single records are in the
    /// [`Outcome`].
    pub fn logs(
        &mut self,
        body: &[u8],
        encoding: Encoding,
        table: &str,
        now_ns: i64,
        tables: &dyn Tables,
    ) -> Result<Outcome> {
        let target = LogTarget { table, now_ns, tables };
        self.otlp(body, encoding, Signal::Logs, &json::LOGS, |reader, body| {
            reader.logs_request(body, target)
        })
    }

    fn logs_request(&mut self, body: &[u8], target: LogTarget<'_>) -> Result<(), Refusal> {
        let mut fields = Fields::of(body);
        while let Some(field) = fields.next()? {
            if field.number != 1 {
                continue;
            }
            let message = field.bytes()?;
            let resource = head(message, "a resource")?;
            let mut fields = Fields::of(message);
            while let Some(field) = fields.next()? {
                if field.number == 2 {
                    self.scope_logs(field.bytes()?, resource, target)?;
                }
            }
        }
        Ok(())
    }

    fn scope_logs(
        &mut self,
        message: &[u8],
        resource: &[u8],
        target: LogTarget<'_>,
    ) -> Result<(), Refusal> {
        let scope = head(message, "a scope")?;
        let source = self.source(resource, scope);
        // An error in a resource or scope refuses all its records.
        let source = match source {
            Ok(source) => Ok(source),
            Err(Refusal::Item(error)) => Err(error),
            Err(other) => return Err(other),
        };
        let mut fields = Fields::of(message);
        while let Some(field) = fields.next()? {
            if field.number != 2 {
                continue;
            }
            let message = field.bytes()?;
            self.items += 1;
            let read = match &source {
                Ok(source) => self.record(message, source, target),
                Err(error) => Err(Refusal::Item(error.duplicate())),
            };
            self.tally.count_result(Item::LogRecord, self.items, 1, read)?;
        }
        Ok(())
    }

    fn source<'a>(&self, resource: &[u8], scope: &'a [u8]) -> Result<Source<'a>, Refusal> {
        let depth_max = self.limits.depth_max;
        let service = service_name(resource, depth_max)?;
        check_label_value(SERVICE_COLUMN, &service)?;
        let scope_name = scope_name(scope)?;
        Ok(Source {
            service,
            resource: object(resource, 1, depth_max)?,
            scope: object(scope, 3, depth_max)?,
            scope_name: scope_name.name,
            scope_version: scope_name.version,
        })
    }

    fn record(
        &mut self,
        message: &[u8],
        source: &Source<'_>,
        target: LogTarget<'_>,
    ) -> Result<(), Refusal> {
        let depth_max = self.limits.depth_max;
        let record = Record::read(message)?;
        let tick_ns = match (record.time_ns, record.observed_ns) {
            (0, 0) => target.now_ns,
            (0, time_ns) | (time_ns, _) => {
                i64::try_from(time_ns).map_err(|_| time_out_of_range(time_ns))?
            }
        };
        let attributes = match record.has_attributes {
            true => object(message, 6, depth_max)?,
            false => None,
        };
        let made;
        let body = match record.body.map(AnyValue::read).transpose()? {
            None | Some(AnyValue::Empty) => None,
            Some(AnyValue::Text(text)) => Some(text),
            Some(other) => {
                made = other.to_text(depth_max)?;
                Some(made.as_str())
            }
        };
        let (trace_id, span_id) = (hex(record.trace_id), hex(record.span_id));
        let severity = i64::from(record.severity_number);
        let values: [Option<FieldValue<'_>>; LOG_COLUMNS.len()] = [
            (severity != 0).then_some(FieldValue::Integer(severity)),
            text_value(record.severity_text),
            body.map(FieldValue::Text),
            text_value(&trace_id),
            text_value(&span_id),
            (record.flags != 0).then_some(FieldValue::Integer(i64::from(record.flags))),
            text_value(record.event_name),
            attributes.as_deref().map(FieldValue::Text),
            source.resource.as_deref().map(FieldValue::Text),
            text_value(source.scope_name),
            text_value(source.scope_version),
            source.scope.as_deref().map(FieldValue::Text),
        ];
        let texts = values.iter().map(|value| match value {
            Some(FieldValue::Text(text)) => text.len(),
            _ => 0,
        });
        self.spend_text(texts.sum())?;
        self.check_room(1)?;
        let series = self.log_series(&source.service, target)?;
        let line = u32::try_from(self.items).unwrap_or(u32::MAX);
        let added = self.rows.row(series, target.tables).and_then(|mut row| {
            for ((name, _), value) in LOG_COLUMNS.iter().zip(values) {
                let Some(value) = value else { continue };
                if let FieldValue::Text(text) = value {
                    check_text(name, text)?;
                }
                row.push(name, value)?;
            }
            row.commit(tick_ns, line)
        });
        added.map_err(|error| {
            refused_sample(error, target.table, &LOG_COLUMNS, target.tables).into()
        })
    }

    fn log_series(&mut self, service: &str, target: LogTarget<'_>) -> Result<SeriesNumber> {
        Layout::Single(target.table).begin_identity(&mut self.identity, b'l');
        self.identity.extend_from_slice(service.as_bytes());
        match self.rows.find(&self.identity) {
            Some(series) => Ok(series),
            None => self.rows.intern(&self.identity, target.table, &[(SERVICE_COLUMN, service)]),
        }
    }
}

impl<'a> Record<'a> {
    fn read(message: &'a [u8]) -> Result<Self, Refusal> {
        let mut record = Self::default();
        let mut fields = Fields::of(message);
        while let Some(field) = fields.next()? {
            record.take(field)?;
        }
        Ok(record)
    }

    fn take(&mut self, field: Field<'a>) -> Result<(), Refusal> {
        match field.number {
            1 => self.time_ns = field.fixed64()?,
            // A protobuf enum has 32 bits, so the cast drops only meaningless bits.
            2 => self.severity_number = field.varint()? as i32,
            3 => self.severity_text = field.text("the severity of a log record")?,
            5 => once(&mut self.body, field.bytes()?, "the body of a log record")?,
            6 => {
                field.bytes()?;
                self.has_attributes = true;
            }
            8 => self.flags = field.fixed32()?,
            9 => self.trace_id = field.bytes()?,
            10 => self.span_id = field.bytes()?,
            11 => self.observed_ns = field.fixed64()?,
            12 => self.event_name = field.text("the name of an event")?,
            _ => {}
        }
        Ok(())
    }
}

/// Converts the attributes in field `number` of a message to a JSON object; `None` without
/// attributes.
fn object(message: &[u8], number: u32, depth_max: u32) -> Result<Option<String>, Refusal> {
    let mut out = String::new();
    put_object(&mut out, message, number, depth_max)?;
    Ok((out != "{}").then_some(out))
}

fn text_value(text: &str) -> Option<FieldValue<'_>> {
    (!text.is_empty()).then_some(FieldValue::Text(text))
}

/// Converts an id to hexadecimal. Returns '' if there are no bytes or only zero bytes: both mean
/// that the id is missing.
fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    if bytes.iter().any(|byte| *byte != 0) {
        for byte in bytes {
            let _ = write!(out, "{byte:02x}");
        }
    }
    out
}

/// Checks that a table can store the text: it contains no U+0000.
fn check_text(column: &str, text: &str) -> Result<()> {
    if memchr::memchr(0, text.as_bytes()).is_none() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::UntranslatableCharacter,
        format!(
            "the text for column \"{column}\" has a character of code 0, which text cannot contain"
        ),
    )
    .with_hint("remove the character"))
}
