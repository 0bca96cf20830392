//! The format of the payload of an Events frame. "Coded" means dictionary-encoded.
//!
//! ```text
//!   0  u8   format (1)
//!   1  u8   flags: bit 0 = the last column of the rows message holds the ticks
//!   2  u16  columns, n
//!   4  u32  entries of all dictionaries together, 0 = no dictionary message
//!   8  n ×  u8 encoding: 0 as declared, 1 codes of u8, 2 codes of u16
//!      then one u32 per coded column: entries of its dictionary
//!      zeros up to a multiple of 64 (of 16 for fewer than 64 rows)
//!      [Arrow IPC message: one text column, the dictionaries one after another]
//!      Arrow IPC message: the rows; coded columns as their codes
//! ```
//!
//! The payload has no schema message, because the chronicle and the schema version determine the
//! types. Both messages are padded to 64 bytes (to 16 bytes for fewer than 64 rows), so that
//! readers can use the arrays in place, without a copy.

use std::{collections::HashMap, io, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray,
    },
    buffer::{Buffer, MutableBuffer, ScalarBuffer},
    compute::concat,
    datatypes::{DataType, Field, Schema, SchemaRef},
    ipc::{
        reader::RecordBatchDecoder,
        root_as_message,
        writer::{
            DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, StreamWriter,
        },
    },
};
use bytes::Bytes;
use stratalog_model::{Error, ErrorKind, Result};

use super::column::Column;

const FORMAT: u8 = 1;
const FLAG_TICKS: u8 = 1;
const ALIGNMENT: usize = 64;
const CONTINUATION: [u8; 4] = [0xFF; 4];

/// With at least this number of rows, each buffer is padded to 64 bytes. With fewer rows, the
/// padding is 16 bytes, the size of the widest value (a text view or a decimal).
const PADDED_ROWS_MIN: usize = 64;

/// If the columns have at least this number of bytes, the rows message is written directly into the
/// payload: this takes a little more work at the start, but saves a copy.
const DIRECT_BYTES_MIN: usize = 64 << 10;

/// Approximate bytes per column for the metadata and the padding of the buffers.
const HEAD_BYTES: usize = 384;

/// The decoded content of a payload.
#[derive(Debug, Clone)]
pub struct DecodedPayload {
    /// The columns, in the order of the schema version.
    pub columns: Vec<Column>,
    /// Ticks of the events; `None` if they follow from the tick column.
    pub ticks: Option<ScalarBuffer<i64>>,
}

/// Encodes stored columns as a payload. `ticks` is given if the ticks do not follow from the tick
/// column.
pub fn encode(columns: &[Column], ticks: Option<&ScalarBuffer<i64>>) -> Result<Bytes> {
    let rows = columns.first().map_or(0, Column::len);
    debug_assert!(columns.iter().all(|column| column.len() == rows));
    let mut prefix = Vec::with_capacity(ALIGNMENT);
    debug_assert!(
        ticks.is_none_or(|ticks| columns.is_empty() || ticks.len() == rows),
        "the ticks have another number of rows than the columns"
    );
    let mut entries: Vec<u32> = Vec::new();
    let mut values: Vec<&dyn Array> = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len() + 1);
    let count = u16::try_from(columns.len())
        .map_err(|_| Error::internal(format!("{} columns in one frame", columns.len())))?;
    prefix.extend([FORMAT, if ticks.is_some() { FLAG_TICKS } else { 0 }]);
    prefix.extend(count.to_le_bytes());
    prefix.extend([0; 4]);
    for column in columns {
        match column {
            Column::Plain(array) => {
                prefix.push(0);
                arrays.push(Arc::clone(array));
            }
            Column::Coded8 { codes, values: texts } => {
                prefix.push(1);
                entries.push(texts.len() as u32);
                values.push(texts);
                arrays.push(Arc::new(codes.clone()));
            }
            Column::Coded16 { codes, values: texts } => {
                prefix.push(2);
                entries.push(texts.len() as u32);
                values.push(texts);
                arrays.push(Arc::new(codes.clone()));
            }
        }
    }
    let total: u32 = entries.iter().sum();
    if let Some(slot) = prefix.get_mut(4..8) {
        slot.copy_from_slice(&total.to_le_bytes());
    }
    for count in &entries {
        prefix.extend(count.to_le_bytes());
    }
    debug_assert_eq!(
        prefix.len(),
        8 + columns.len() + 4 * entries.len(),
        "the prefix has another length than a reader expects"
    );
    debug_assert_eq!(entries.len(), values.len(), "a dictionary has no number of entries");
    if let Some(ticks) = ticks {
        arrays.push(Arc::new(Int64Array::new(ticks.clone(), None)));
    }

    let padding = if rows < PADDED_ROWS_MIN { 16 } else { ALIGNMENT };
    let mut context = IpcWriteContext::default();
    let texts = if total > 0 {
        let joined_values = concat(&values)?;
        let texts = joined_values.as_string_view().gc();
        Some(message(vec![Arc::new(texts)], total as usize, padding, &mut context)?)
    } else {
        None
    };
    let texts_len = texts.as_ref().map_or(0, Message::len);
    let prefix_len = prefix.len().next_multiple_of(padding);
    let columns_len: usize = columns.iter().map(Column::bytes).sum();
    let rows_message = match columns_len >= DIRECT_BYTES_MIN {
        true => Err(arrays),
        false => Ok(message(arrays, rows, padding, &mut context)?),
    };
    let rows_len = match &rows_message {
        Ok(message) => message.len(),
        Err(_) => columns_len + rows * size_of::<i64>() + HEAD_BYTES * (columns.len() + 2),
    };
    let mut payload = MutableBuffer::with_capacity(prefix_len + texts_len + rows_len);
    payload.extend_from_slice(&prefix);
    payload.resize(prefix_len, 0);
    debug_assert!(payload.len() == prefix_len && prefix_len.is_multiple_of(padding));
    if let Some(texts) = texts {
        texts.write(&mut payload);
    }
    match rows_message {
        Ok(message) => message.write(&mut payload),
        Err(arrays) => payload = write_behind(payload, arrays, rows, padding)?,
    }
    Ok(Bytes::from_owner(Owner(payload.into())))
}

/// The schema of the rows message if no column is dictionary-encoded.
pub fn schema_of(types: &[DataType]) -> SchemaRef {
    let fields = types.iter().map(|declared| Field::new("", declared.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Decodes a payload of `rows` events. `declared` is the result of [`schema_of`] for the declared
/// types. The arrays point into `payload` where its memory is aligned, and are copies otherwise.
///
/// # Errors
/// `DataCorrupted` if the bytes are not a valid payload.
pub fn decode(payload: &Bytes, declared: &SchemaRef, rows: usize) -> Result<DecodedPayload> {
    let head =
        payload.get(..8).ok_or_else(|| corrupted("the payload is shorter than its prefix"))?;
    let (format, flags, count, total) = match *head {
        [format, flags, c0, c1, e0, e1, e2, e3] => (
            format,
            flags,
            usize::from(u16::from_le_bytes([c0, c1])),
            u32::from_le_bytes([e0, e1, e2, e3]) as usize,
        ),
        _ => return Err(corrupted("the payload is shorter than its prefix")),
    };
    if format != FORMAT {
        return Err(corrupted(format!(
            "the payload has format {format}; this version reads format {FORMAT}"
        )));
    }
    let columns = declared.fields().len();
    if count != columns {
        return Err(corrupted(format!(
            "the payload has {count} columns, but the schema has {columns}"
        )));
    }
    let encodings = payload.get(8..8 + count).ok_or_else(|| corrupted("the prefix is cut off"))?;
    let coded = encodings.iter().filter(|encoding| **encoding != 0).count();
    let prefix_len = 8 + count + 4 * coded;
    let entries =
        payload.get(8 + count..prefix_len).ok_or_else(|| corrupted("the prefix is cut off"))?;
    let mut entries = entries.chunks_exact(4).map(|bytes| match *bytes {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
        _ => 0,
    });

    let explicit_ticks = flags & FLAG_TICKS != 0;
    let schema = if coded == 0 && !explicit_ticks {
        Arc::clone(declared)
    } else {
        let mut stored: Vec<DataType> = encodings
            .iter()
            .zip(declared.fields())
            .map(|(encoding, field)| match encoding {
                1 => DataType::UInt8,
                2 => DataType::UInt16,
                _ => field.data_type().clone(),
            })
            .collect();
        stored.extend(explicit_ticks.then_some(DataType::Int64));
        schema_of(&stored)
    };

    let padding = if rows < PADDED_ROWS_MIN { 16 } else { ALIGNMENT };
    let buffer = Buffer::from(payload.clone());
    let mut at = prefix_len.next_multiple_of(padding);
    let texts = if total > 0 {
        let (batch, end) = read_message(&buffer, at, schema_of(&[DataType::Utf8View]))?;
        at = end;
        let texts = batch.columns().first().and_then(|column| column.as_string_view_opt());
        Some(texts.cloned().ok_or_else(|| corrupted("a dictionary is missing"))?)
    } else {
        None
    };
    let (batch, _) = read_message(&buffer, at, schema)?;
    if batch.num_rows() != rows {
        return Err(corrupted(format!(
            "the payload has {} events, but the frame has {rows}",
            batch.num_rows()
        )));
    }

    let mut arrays = batch.columns().iter();
    let mut columns = Vec::with_capacity(count);
    let mut texts_at = 0;
    for encoding in encodings {
        let array = arrays.next().ok_or_else(|| corrupted("a column is missing"))?;
        columns.push(match encoding {
            0 => Column::Plain(Arc::clone(array)),
            1 | 2 => {
                let len = entries.next().unwrap_or(0);
                let values = dictionary(texts.as_ref(), texts_at, len)?;
                texts_at += len;
                coded_column(array, values)?
            }
            other => return Err(corrupted(format!("a column has the encoding {other}"))),
        });
    }
    let ticks = match explicit_ticks.then(|| arrays.next()).flatten() {
        Some(array) => {
            array.as_primitive_opt::<arrow::datatypes::Int64Type>().map(|t| t.values().clone())
        }
        None => None,
    };
    debug_assert!(columns.iter().all(|column| column.len() == rows), "a column lacks rows");
    debug_assert!(ticks.as_ref().is_none_or(|ticks| ticks.len() == rows), "a row has no tick");
    Ok(DecodedPayload { columns, ticks })
}

fn dictionary(
    texts: Option<&StringViewArray>,
    start: usize,
    len: usize,
) -> Result<StringViewArray> {
    match texts {
        // A column with only NULL values.
        _ if len == 0 => Ok(StringViewArray::new_null(0)),
        Some(texts) if start + len <= texts.len() => Ok(texts.slice(start, len)),
        _ => Err(corrupted("a dictionary is cut off")),
    }
}

/// Builds a dictionary-encoded column. Checks all codes once, so that later reads never find a code
/// without a dictionary entry.
fn coded_column(array: &ArrayRef, values: StringViewArray) -> Result<Column> {
    let len = values.len();
    let valid = |row: usize| !array.is_null(row);
    let outside = || corrupted("a code has no dictionary entry");
    if let Some(codes) = array.as_primitive_opt::<arrow::datatypes::UInt8Type>() {
        let mut codes_at = codes.values().iter().enumerate();
        if codes_at.any(|(row, code)| usize::from(*code) >= len && valid(row)) {
            return Err(outside());
        }
        return Ok(Column::Coded8 { codes: codes.clone(), values });
    }
    match array.as_primitive_opt::<arrow::datatypes::UInt16Type>() {
        Some(codes) => {
            let mut codes_at = codes.values().iter().enumerate();
            if codes_at.any(|(row, code)| usize::from(*code) >= len && valid(row)) {
                return Err(outside());
            }
            Ok(Column::Coded16 { codes: codes.clone(), values })
        }
        None => Err(corrupted("a coded column has no codes")),
    }
}

/// Lets [`Bytes`] own an Arrow buffer, whose memory is aligned for Arrow.
struct Owner(Buffer);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// An encapsulated Arrow IPC message, before it is written to the payload.
struct Message {
    metadata: Vec<u8>,
    body: Vec<u8>,
    padding: usize,
}

impl Message {
    fn head_len(&self) -> usize {
        (8 + self.metadata.len()).next_multiple_of(self.padding)
    }

    fn len(&self) -> usize {
        self.head_len() + self.body.len().next_multiple_of(self.padding)
    }

    fn write(&self, out: &mut MutableBuffer) {
        let start = out.len();
        debug_assert!(start.is_multiple_of(self.padding), "a message is not aligned");
        out.extend_from_slice(&CONTINUATION);
        out.extend_from_slice(&((self.head_len() - 8) as i32).to_le_bytes());
        out.extend_from_slice(&self.metadata);
        debug_assert!(out.len() - start <= self.head_len(), "the head of a message is cut off");
        out.resize(start + self.head_len(), 0);
        out.extend_from_slice(&self.body);
        debug_assert!(out.len() - start <= self.len(), "the body of a message is cut off");
        out.resize(start + self.len(), 0);
    }
}

/// Appends a message to `payload` without an intermediate copy. The bytes equal those of
/// [`Message::write`].
fn write_behind(
    payload: MutableBuffer,
    arrays: Vec<ArrayRef>,
    rows: usize,
    padding: usize,
) -> Result<MutableBuffer> {
    let start = payload.len();
    debug_assert!(start.is_multiple_of(padding), "a message is not aligned");
    let (batch, options) = to_write(arrays, rows, padding)?;
    let behind = SuffixWriter { payload, begun: false };
    let mut writer = StreamWriter::try_new_with_options(behind, &batch.schema(), options)?;
    // So far, only the schema message was written, and `SuffixWriter` dropped its bytes.
    writer.get_mut().begun = true;
    writer.write(&batch)?;
    let payload = std::mem::replace(&mut writer.get_mut().payload, MutableBuffer::new(0));
    debug_assert!(start < payload.len(), "a message has no bytes");
    Ok(payload)
}

/// A writer that drops all bytes until `begun` is set, and then appends to the payload.
struct SuffixWriter {
    payload: MutableBuffer,
    begun: bool,
}

impl io::Write for SuffixWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.begun {
            self.payload.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Builds a batch without column names; also returns the write options.
fn to_write(
    arrays: Vec<ArrayRef>,
    rows: usize,
    padding: usize,
) -> Result<(RecordBatch, IpcWriteOptions)> {
    let fields = arrays.iter().map(|array| Field::new("", array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
    Ok((batch, IpcWriteOptions::try_new(padding, false, arrow::ipc::MetadataVersion::V5)?))
}

fn message(
    arrays: Vec<ArrayRef>,
    rows: usize,
    padding: usize,
    context: &mut IpcWriteContext,
) -> Result<Message> {
    let (batch, options) = to_write(arrays, rows, padding)?;
    let mut tracker = DictionaryTracker::new(false);
    let (_, encoded) =
        IpcDataGenerator::default().encode(&batch, &mut tracker, &options, context)?;
    Ok(Message { metadata: encoded.ipc_message, body: encoded.arrow_data, padding })
}

fn read_message(buffer: &Buffer, at: usize, schema: SchemaRef) -> Result<(RecordBatch, usize)> {
    let cut = || corrupted("a message is cut off");
    let bytes = buffer.as_slice();
    let head = bytes.get(at..at + 8).ok_or_else(cut)?;
    let metadata_len = match *head {
        [0xFF, 0xFF, 0xFF, 0xFF, a, b, c, d] => i32::from_le_bytes([a, b, c, d]),
        _ => return Err(corrupted("a message has no continuation mark")),
    };
    let metadata_len = usize::try_from(metadata_len).map_err(|_| cut())?;
    let body_at = at + 8 + metadata_len;
    let metadata = bytes.get(at + 8..body_at).ok_or_else(cut)?;
    let message =
        root_as_message(metadata).map_err(|error| corrupted(format!("a message head: {error}")))?;
    let body_len = usize::try_from(message.bodyLength()).map_err(|_| cut())?;
    if body_at + body_len > bytes.len() {
        return Err(cut());
    }
    let header = message
        .header_as_record_batch()
        .ok_or_else(|| corrupted("a message is not a record batch"))?;
    let body = buffer.slice_with_length(body_at, body_len);
    let none = HashMap::new();
    let version = message.version();
    let batch = RecordBatchDecoder::try_new(&body, header, schema, &none, &version)?
        .with_require_alignment(false)
        .read_record_batch()
        .map_err(|error| corrupted(format!("a message body: {error}")))?;
    Ok((batch, body_at + body_len.next_multiple_of(16)))
}

fn corrupted(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::DataCorrupted, format!("the payload of an Events frame: {what}"))
}

#[cfg(test)]
mod tests;
