//! The formats of a query result in a response. Each format converts the result batch by batch.

use std::{io::Write, sync::Arc, time::Duration};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray},
    compute::cast,
    datatypes::{DataType, Field, Schema, SchemaRef},
    ipc::writer::StreamWriter,
};
use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use parquet::arrow::ArrowWriter;
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_query::{Rows, ShareReservation, batch_bytes};
use stratalog_text::{ColumnWriter, CopyHeader, CopyOptions, CopyWriter, TextStyle};
use tokio::time::{Instant, timeout_at};

use super::{RequestSession, json};
use crate::state::State;

/// Maximum rows of a row group of a Parquet response.
const GROUP_ROWS: usize = 131_072;

/// Maximum bytes that a Parquet response keeps in memory for an unfinished row group.
const GROUP_BYTES: usize = 4 << 20;

/// Approximate bytes of the rows that the server formats in one step, and maximum bytes of a chunk
/// of the response.
const PART_BYTES: usize = 256 << 10;

/// The server sends the status only after formatting this number of bytes, or after
/// [`OPENING_TIME`], so that an early error can become the status.
const OPENING_BYTES: usize = 64 << 10;

/// The maximum wait for [`OPENING_BYTES`], counted from the first formatted bytes.
const OPENING_TIME: Duration = Duration::from_millis(50);

/// The format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Lines,
    Csv,
    Arrow,
    Parquet,
}

impl Format {
    /// The format with the given name, in any case.
    ///
    /// # Errors
    /// `InvalidParameterValue` for an unknown name.
    pub(super) fn named(name: &str) -> Result<Self> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "json" => Format::Json,
            "ndjson" | "jsonl" | "json_lines" => Format::Lines,
            "csv" => Format::Csv,
            "arrow" | "ipc" => Format::Arrow,
            "parquet" => Format::Parquet,
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidParameterValue,
                    format!("format \"{name}\" is unknown"),
                )
                .with_hint("use json, ndjson, csv, arrow or parquet"));
            }
        })
    }

    /// The first supported format in the value of the header Accept; JSON if there is none.
    pub(super) fn accepted(accepted: Option<&str>) -> Self {
        let forms = [Format::Json, Format::Lines, Format::Csv, Format::Arrow, Format::Parquet];
        let kinds = accepted.unwrap_or_default().split(',');
        let kinds = kinds.map(|kind| kind.split(';').next().unwrap_or_default().trim());
        let found = kinds.filter_map(|kind| {
            forms.into_iter().find(|form| form.content_type().split(';').next() == Some(kind))
        });
        found.into_iter().next().unwrap_or(Format::Json)
    }

    fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Lines => "application/x-ndjson",
            Format::Csv => "text/csv; charset=utf-8",
            Format::Arrow => "application/vnd.apache.arrow.stream",
            Format::Parquet => "application/vnd.apache.parquet",
        }
    }

    /// Builds the response with the rows of a query. The response begins after [`OPENING_BYTES`]
    /// formatted bytes, or [`OPENING_TIME`] after the first bytes. An earlier error becomes the
    /// status of the response.
    ///
    /// # Errors
    /// The first error of the query; `OutOfMemory`; `Internal` for a column that the format does
    /// not support.
    pub(super) async fn answer(
        self,
        rows: Rows,
        state: Arc<State>,
        ended: RequestSession,
    ) -> Result<Response> {
        let writer = Writer::begin(self, rows.schema(), ended.session().text_style())?;
        let charge = ended.session().share().hold(0)?;
        let (sending, unsent) = (None, Vec::new());
        let answer = Answer {
            rows,
            writer: Some(writer),
            sending,
            unsent,
            sent: 0,
            charge,
            state,
            _ended: ended,
        };
        let parts = stream::unfold(Some(answer), |answer| async move {
            let mut answer = answer?;
            match answer.part().await {
                Ok(Some(part)) => Some((Ok(part), Some(answer))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        // `opening` reads a short result up to its end, and the response then polls the stream
        // again: `fuse` makes this safe.
        let mut parts = Box::pin(parts.fuse());
        let opening = opening(&mut parts).await?;
        let opening = stream::iter(opening.into_iter().map(Ok));
        let others = parts.map_err(|error| broken(&error));
        let mut response = Body::from_stream(opening.chain(others)).into_response();
        let kind = HeaderValue::from_static(self.content_type());
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(response)
    }
}

/// The state of a response that streams a query result. While a slow client reads, formatted bytes
/// and one batch stay in memory. The bytes count toward the memory limit of the session, and the
/// batch toward the limit of the statement.
struct Answer {
    rows: Rows,
    /// `None` after the end of the result.
    writer: Option<Writer>,
    sending: Option<BatchSender>,
    /// The formatted bytes. The first `sent` bytes are already passed to the response.
    unsent: Vec<u8>,
    sent: usize,
    /// The memory reservation for the writer and the unsent bytes.
    charge: ShareReservation,
    state: Arc<State>,
    _ended: RequestSession,
}

/// A batch that the server formats in slices of about [`PART_BYTES`].
struct BatchSender {
    batch: RecordBatch,
    /// The index of the first row that is not yet formatted.
    next: usize,
    /// The number of rows in a slice.
    part_rows: usize,
}

impl BatchSender {
    fn of(batch: RecordBatch) -> Self {
        let part_rows = batch.num_rows().saturating_mul(PART_BYTES) / batch_bytes(&batch).max(1);
        Self { batch, next: 0, part_rows: part_rows.max(1) }
    }

    /// Returns the next slice of the batch; `None` at the end.
    fn part(&mut self) -> Option<RecordBatch> {
        let left = self.batch.num_rows().checked_sub(self.next).filter(|left| *left > 0)?;
        let part = self.batch.slice(self.next, left.min(self.part_rows));
        self.next += part.num_rows();
        Some(part)
    }
}

impl Answer {
    /// Formats and returns the next bytes of the response; `None` at the end.
    ///
    /// # Errors
    /// The errors of [`Format::answer`].
    async fn part(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(bytes) = self.unsent_part()? {
                return Ok(Some(bytes));
            }
            let Some(writer) = &mut self.writer else { return Ok(None) };
            if let Some(part) = self.sending.as_mut().and_then(BatchSender::part) {
                self.state.compute(batch_bytes(&part), || writer.write(&part)).await?;
                self.unsent = writer.output.take();
                self.charge.resize(self.unsent.capacity().saturating_add(writer.buffered()))?;
                continue;
            }
            self.sending = None;
            match self.rows.next().await.transpose()? {
                Some(batch) => self.sending = Some(BatchSender::of(batch)),
                None => {
                    self.unsent =
                        self.writer.take().map(Writer::end).transpose()?.unwrap_or_default()
                }
            }
        }
    }

    /// Takes the next unsent bytes, at most [`PART_BYTES`]; `None` if there are none. Longer output
    /// is copied in chunks, because the connection keeps the whole buffer of a chunk in memory
    /// until the client reads the chunk.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn unsent_part(&mut self) -> Result<Option<Bytes>> {
        let left = self.unsent.get(self.sent..).unwrap_or_default();
        if self.sent == 0 && left.len() <= PART_BYTES {
            let whole = std::mem::take(&mut self.unsent);
            return Ok((!whole.is_empty()).then(|| Bytes::from(whole)));
        }
        let part = Bytes::copy_from_slice(left.get(..PART_BYTES).unwrap_or(left));
        self.sent += part.len();
        if self.sent == self.unsent.len() {
            (self.unsent, self.sent) = (Vec::new(), 0);
            self.charge.resize(self.writer.as_ref().map_or(0, Writer::buffered))?;
        }
        Ok(Some(part))
    }
}

/// Reads the first chunks of a response, up to [`OPENING_BYTES`] or for [`OPENING_TIME`].
///
/// # Errors
/// The error of any of these chunks.
async fn opening(parts: &mut (impl Stream<Item = Result<Bytes>> + Unpin)) -> Result<Vec<Bytes>> {
    let mut opening = Vec::new();
    let mut bytes = 0;
    let Some(first) = parts.next().await else { return Ok(opening) };
    let mut part = Some(first);
    let deadline = Instant::now() + OPENING_TIME;
    while let Some(next) = part.transpose()? {
        bytes += next.len();
        opening.push(next);
        if bytes >= OPENING_BYTES {
            break;
        }
        // After the deadline the stream keeps a chunk in progress, so no bytes are lost.
        match timeout_at(deadline, parts.next()).await {
            Ok(next) => part = next,
            Err(_) => break,
        }
    }
    Ok(opening)
}

/// Converts an error to an I/O error, which makes the server break the connection: the client must
/// not mistake half a result for a complete result.
fn broken(error: &Error) -> std::io::Error {
    tracing::info!(%error, "an answer ended early");
    std::io::Error::other(error.message().to_string())
}

/// The output buffer of a format's encoder. The response takes the bytes from this buffer.
#[derive(Debug, Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Writer {
    output: Output,
    style: TextStyle,
    schema: SchemaRef,
    form: Form,
}

enum Form {
    Json { rows: u64 },
    Lines,
    Csv(Box<CopyWriter>),
    Arrow(Box<StreamWriter<Output>>),
    Parquet(Box<ArrowWriter<Output>>),
}

impl Writer {
    fn begin(format: Format, schema: &SchemaRef, style: TextStyle) -> Result<Self> {
        let mut output = Output::default();
        let unwritten = |error: std::io::Error| Error::io("an answer", error);
        let columns = match format {
            Format::Json | Format::Lines | Format::Csv => Arc::clone(schema),
            Format::Arrow | Format::Parquet => plain(schema),
        };
        let form = match format {
            Format::Json => {
                output.write_all(b"[").map_err(unwritten)?;
                Form::Json { rows: 0 }
            }
            Format::Lines => Form::Lines,
            Format::Csv => {
                let options = CopyOptions { header: CopyHeader::Present, ..CopyOptions::csv() };
                let writer = CopyWriter::new(options, Arc::clone(schema), style.clone());
                let mut bytes = Vec::new();
                writer.write_header(&mut bytes)?;
                output.write_all(&bytes).map_err(unwritten)?;
                Form::Csv(Box::new(writer))
            }
            Format::Arrow => Form::Arrow(Box::new(
                StreamWriter::try_new(output.clone(), &columns).map_err(Error::from)?,
            )),
            Format::Parquet => {
                let writer = ArrowWriter::try_new(output.clone(), Arc::clone(&columns), None);
                Form::Parquet(Box::new(writer.map_err(no_parquet)?))
            }
        };
        Ok(Self { output, style, schema: columns, form })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let unwritten = |error: std::io::Error| Error::io("an answer", error);
        match &mut self.form {
            Form::Json { rows } => {
                for object in json::objects(batch, &self.style)? {
                    let separator: &[u8] = if *rows > 0 { b",\n" } else { b"" };
                    self.output.write_all(separator).map_err(unwritten)?;
                    self.output.write_all(object.as_bytes()).map_err(unwritten)?;
                    *rows += 1;
                }
            }
            Form::Lines => {
                for object in json::objects(batch, &self.style)? {
                    self.output.write_all(object.as_bytes()).map_err(unwritten)?;
                    self.output.write_all(b"\n").map_err(unwritten)?;
                }
            }
            Form::Csv(writer) => {
                let mut bytes = Vec::new();
                writer.write_batch(batch, &mut bytes)?;
                self.output.write_all(&bytes).map_err(unwritten)?;
            }
            Form::Arrow(writer) => {
                writer.write(&as_plain(batch, &self.schema)?).map_err(Error::from)?;
            }
            Form::Parquet(writer) => {
                writer.write(&as_plain(batch, &self.schema)?).map_err(no_parquet)?;
                let bytes = writer.memory_size();
                if writer.in_progress_rows() >= GROUP_ROWS || bytes >= GROUP_BYTES {
                    writer.flush().map_err(no_parquet)?;
                }
            }
        }
        Ok(())
    }

    /// The number of bytes that the format's encoder buffers and has not yet written.
    fn buffered(&self) -> usize {
        match &self.form {
            Form::Parquet(writer) => writer.memory_size(),
            _ => 0,
        }
    }

    fn end(self) -> Result<Vec<u8>> {
        let Self { mut output, form, .. } = self;
        match form {
            Form::Json { .. } => {
                output.write_all(b"]\n").map_err(|error| Error::io("an answer", error))?;
            }
            Form::Lines | Form::Csv(_) => {}
            Form::Arrow(mut writer) => writer.finish().map_err(Error::from)?,
            Form::Parquet(writer) => {
                writer.close().map_err(no_parquet)?;
            }
        }
        Ok(output.take())
    }
}

fn no_parquet(error: parquet::errors::ParquetError) -> Error {
    Error::new(
        ErrorKind::FeatureNotSupported,
        format!("the result cannot be written as Parquet: {error}"),
    )
}

/// Converts a schema to types that common tools can read: string views to text, binary views to
/// bytes, intervals to text.
fn plain(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let kind = match field.data_type() {
            DataType::Utf8View => DataType::Utf8,
            DataType::BinaryView => DataType::Binary,
            DataType::Interval(_) | DataType::Null => DataType::Utf8,
            DataType::List(item) if *item.data_type() == DataType::Utf8View => {
                DataType::List(Arc::new(item.as_ref().clone().with_data_type(DataType::Utf8)))
            }
            other => other.clone(),
        };
        let json = ColumnType::from_arrow_field(field) == Some(ColumnType::Jsonb);
        let plain = Field::new(field.name(), kind, field.is_nullable());
        match json {
            true => plain,
            false => {
                let mut metadata = field.metadata().clone();
                metadata.retain(|name, _| name.starts_with("ARROW:"));
                plain.with_metadata(metadata)
            }
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

fn as_plain(batch: &RecordBatch, wanted: &SchemaRef) -> Result<RecordBatch> {
    let schema = batch.schema();
    let style = TextStyle::default();
    let columns = batch.columns().iter().zip(schema.fields()).zip(wanted.fields());
    let columns = columns.map(|((array, field), wanted)| match array.data_type() {
        kind if kind == wanted.data_type() => Ok(Arc::clone(array)),
        DataType::Interval(_) => {
            let writer = ColumnWriter::new(array, field, &style)?;
            let mut text = Vec::new();
            let texts = (0..array.len()).map(|row| {
                text.clear();
                let written = writer.write(row, &mut text);
                written.then(|| String::from_utf8_lossy(&text).into_owned())
            });
            Ok(Arc::new(texts.collect::<StringArray>()) as ArrayRef)
        }
        _ => cast(array, wanted.data_type()).map_err(Error::from),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(wanted), columns, &rows).map_err(Error::from)
}
