//! The binary format of COPY.
//!
//! ```text
//!   signature  flags  length  extension │ fields  length value  length value …  │ … │ -1
//!   11 bytes   i32    i32     bytes     │ i16     i32    bytes                  │   │ i16
//! ```
//! Values have the same encoding as binary parameters and results. A length of -1 means NULL.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{Schema, SchemaRef},
};
use bytes::{Buf, Bytes, BytesMut};
use datafusion::common::ScalarValue;
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_text::{TextStyle, copy::CopyLimits, parse_value};

use crate::{parameter::decode, types::wire_type};

/// The first bytes of every binary COPY.
const SIGNATURE: [u8; 11] = *b"PGCOPY\n\xff\r\n\0";

/// Bytes of the header with an empty extension.
const HEADER_BYTES: usize = SIGNATURE.len() + 8;

/// The bits of the flags that mark a change of the format. The parser refuses data with any of
/// these bits.
const CRITICAL_FLAGS: u32 = 0xffff_0000;

/// The header that COPY TO sends.
pub(crate) fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    for (to, from) in header.iter_mut().zip(SIGNATURE) {
        *to = from;
    }
    header
}

/// The trailer that COPY TO sends: -1 in place of a number of fields.
pub(crate) const TRAILER: [u8; 2] = (-1_i16).to_be_bytes();

#[derive(Debug)]
struct ColumnReader {
    name: String,
    column_type: ColumnType,
    wire: u32,
    required: bool,
    values: Vec<ScalarValue>,
}

/// The part of the format that the parser expects next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedPart {
    Header,
    /// The header's extension. The number counts the bytes that have not arrived.
    Extension(usize),
    Row,
    Nothing,
}

/// Converts the data of a binary COPY FROM into record batches. The data comes in chunks that may
/// end at any byte. The limits and the largest chunk bound the memory.
#[derive(Debug)]
pub(crate) struct BinaryCopyParser {
    table: String,
    style: TextStyle,
    limits: CopyLimits,
    schema: SchemaRef,
    columns: Vec<ColumnReader>,
    /// The number of fields in every row. `None` before the first row if the last column is
    /// optional.
    fields: Option<usize>,
    pending: BytesMut,
    expected: ExpectedPart,
    line: u64,
    batch_rows: usize,
    batch_bytes: usize,
}

impl BinaryCopyParser {
    /// The memory for the incomplete row at the end of the data so far, in bytes.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.capacity()
    }

    /// Creates a parser for `columns` of `table`. The batches have these columns in this order. All
    /// columns are nullable except the `required` columns.
    pub(crate) fn new(
        table: String,
        columns: Vec<(String, ColumnType)>,
        required: &[String],
        style: TextStyle,
        limits: CopyLimits,
    ) -> Self {
        let fields: Vec<_> =
            columns.iter().map(|(name, column_type)| column_type.arrow_field(name, true)).collect();
        let columns = columns.into_iter().map(|(name, column_type)| ColumnReader {
            wire: wire_type(&column_type).oid,
            required: required.contains(&name),
            values: Vec::new(),
            name,
            column_type,
        });
        Self {
            table,
            style,
            limits,
            schema: Arc::new(Schema::new(fields)),
            fields: Some(columns.len()),
            columns: columns.collect(),
            pending: BytesMut::new(),
            expected: ExpectedPart::Header,
            line: 0,
            batch_rows: 0,
            batch_bytes: 0,
        }
    }

    /// If `optional`, also accepts data in which all rows omit the last column, which is then NULL.
    /// The number of fields in the first row decides for all rows.
    pub(crate) fn with_optional_last(mut self, optional: bool) -> Self {
        if optional && self.columns.len() > 1 {
            self.fields = None;
        }
        self
    }

    /// Parses a chunk of data. Returns the completed batches.
    ///
    /// # Errors
    /// `BadCopyFormat`, `InvalidBinaryRepresentation`, `NotNullViolation`, `LimitExceeded`. Each
    /// error names the line and the column.
    pub(crate) fn push(&mut self, data: &[u8]) -> Result<Vec<RecordBatch>> {
        self.pending.extend_from_slice(data);
        let mut batches = Vec::new();
        while self.step()? {
            if self.batch_rows >= self.limits.batch_rows_max
                || self.batch_bytes >= self.limits.batch_bytes_max
            {
                batches.push(self.batch()?);
            }
        }
        if self.pending.len() > self.limits.record_bytes_max {
            return Err(self.at_line(Error::new(
                ErrorKind::LimitExceeded,
                format!("a row is longer than {} bytes", self.limits.record_bytes_max),
            )));
        }
        Ok(batches)
    }

    /// Handles the end of the data. Returns the last batch, if it has rows.
    ///
    /// # Errors
    /// `BadCopyFormat` if the data ends in the middle of the header or of a row.
    pub(crate) fn finish(&mut self) -> Result<Option<RecordBatch>> {
        match self.expected {
            // The trailer is optional, as in PostgreSQL.
            ExpectedPart::Row | ExpectedPart::Nothing if self.pending.is_empty() => {}
            ExpectedPart::Header => return Err(self.bad_header()),
            _ => {
                self.line += 1;
                self.check_fields()?;
                return Err(self.at_line(bad("unexpected EOF in COPY data")));
            }
        }
        if self.batch_rows == 0 { Ok(None) } else { self.batch().map(Some) }
    }

    /// Reads the expected part of the format. Returns `false` if the part has not arrived
    /// completely.
    fn step(&mut self) -> Result<bool> {
        match self.expected {
            ExpectedPart::Header => {
                let known = self.pending.len().min(SIGNATURE.len());
                if self.pending.get(..known) != SIGNATURE.get(..known) {
                    return Err(self.bad_header());
                }
                if self.pending.len() < HEADER_BYTES {
                    return Ok(false);
                }
                self.pending.advance(SIGNATURE.len());
                let flags = self.pending.get_u32();
                if flags & CRITICAL_FLAGS != 0 {
                    return Err(bad("unrecognized critical flags in COPY file header"));
                }
                let length = usize::try_from(self.pending.get_i32());
                let length = length.map_err(|_| bad("invalid COPY file header (wrong length)"))?;
                self.expected = ExpectedPart::Extension(length);
                Ok(true)
            }
            ExpectedPart::Extension(length) => {
                let here = length.min(self.pending.len());
                self.pending.advance(here);
                self.expected = match length - here {
                    0 => ExpectedPart::Row,
                    left => ExpectedPart::Extension(left),
                };
                Ok(self.expected == ExpectedPart::Row)
            }
            ExpectedPart::Row => self.row(),
            ExpectedPart::Nothing if self.pending.is_empty() => Ok(false),
            ExpectedPart::Nothing => {
                self.line += 1;
                Err(self.at_line(bad("received copy data after EOF marker")))
            }
        }
    }

    fn bad_header(&self) -> Error {
        bad("COPY file signature not recognized").with_context(format!("COPY {}", self.table))
    }

    /// Reads the next row. Returns `false` if the row has not arrived completely.
    fn row(&mut self) -> Result<bool> {
        let Some(bytes) = self.whole_row()? else { return Ok(false) };
        if self.expected == ExpectedPart::Nothing {
            return Ok(true);
        }
        self.line += 1;
        self.batch_bytes += bytes.len();
        self.batch_rows += 1;
        let mut rest = bytes;
        rest.advance(2);
        let fields = self.fields.unwrap_or(self.columns.len());
        for at in 0..self.columns.len() {
            let Some(column) = self.columns.get_mut(at) else { continue };
            if at >= fields {
                let null = column.null(&self.style)?;
                column.values.push(null);
                continue;
            }
            let value = match usize::try_from(rest.get_i32()) {
                Ok(length) => Some(rest.split_to(length)),
                Err(_) => None,
            };
            let decoded = column.decode(value.as_ref(), &self.table, &self.style);
            let place =
                || format!("COPY {}, line {}, column {}", self.table, self.line, column.name);
            let value = decoded.map_err(|error| error.with_context(place()))?;
            column.values.push(value);
        }
        Ok(true)
    }

    /// Removes and returns the bytes of the next row; `None` if the row has not arrived completely.
    fn whole_row(&mut self) -> Result<Option<Bytes>> {
        let Some((count, _)) = self.pending.split_first_chunk::<2>() else { return Ok(None) };
        let count = i16::from_be_bytes(*count);
        if count == -1 {
            self.pending.advance(2);
            self.expected = ExpectedPart::Nothing;
            return Ok(Some(Bytes::new()));
        }
        let wrong = |error: Error| {
            error.with_context(format!("COPY {}, line {}", self.table, self.line + 1))
        };
        let (all, given) = (self.columns.len(), usize::try_from(count).ok());
        let fields = self.fields.unwrap_or(match given {
            Some(given) if given + 1 == all => given,
            _ => all,
        });
        if given != Some(fields) {
            return Err(wrong(bad(format!("row field count is {count}, expected {fields}"))));
        }
        self.fields = Some(fields);
        let mut end = 2;
        for _ in 0..fields {
            let rest = self.pending.get(end..).unwrap_or_default();
            let Some((length, _)) = rest.split_first_chunk::<4>() else { return Ok(None) };
            let length = i32::from_be_bytes(*length);
            end += 4;
            match usize::try_from(length) {
                Ok(length) => end += length,
                Err(_) if length == -1 => {}
                Err(_) => return Err(wrong(bad("invalid field size"))),
            }
            if end > self.pending.len() {
                return Ok(None);
            }
        }
        Ok(Some(self.pending.split_to(end).freeze()))
    }

    /// Checks the complete values of an incomplete row, to find errors before the whole row is in
    /// memory.
    fn check_fields(&mut self) -> Result<()> {
        if self.expected != ExpectedPart::Row || self.pending.len() < 2 {
            return Ok(());
        }
        let mut rest = self.pending.split().freeze();
        rest.advance(2);
        let fields = self.fields.unwrap_or(self.columns.len());
        for column in self.columns.iter().take(fields) {
            let Some((length, _)) = rest.split_first_chunk::<4>() else { break };
            let length = usize::try_from(i32::from_be_bytes(*length)).ok();
            rest.advance(4);
            if length.is_some_and(|length| length > rest.len()) {
                break;
            }
            let value = length.map(|length| rest.split_to(length));
            let place =
                || format!("COPY {}, line {}, column {}", self.table, self.line, column.name);
            column
                .decode(value.as_ref(), &self.table, &self.style)
                .map_err(|error| error.with_context(place()))?;
        }
        Ok(())
    }

    fn batch(&mut self) -> Result<RecordBatch> {
        (self.batch_rows, self.batch_bytes) = (0, 0);
        let style = &self.style;
        let arrays = self.columns.iter_mut().map(|column| column.finish(style));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), arrays)?)
    }

    fn at_line(&self, error: Error) -> Error {
        error.with_context(format!("COPY {}, line {}", self.table, self.line))
    }
}

impl ColumnReader {
    fn decode(&self, value: Option<&Bytes>, table: &str, style: &TextStyle) -> Result<ScalarValue> {
        match (value, self.required) {
            (None, true) => Err(Error::not_null(&self.name, table)),
            _ => decode(value, 1, self.wire, &self.column_type, style),
        }
    }

    /// A NULL of the column's type.
    fn null(&self, style: &TextStyle) -> Result<ScalarValue> {
        decode(None, 1, self.wire, &self.column_type, style)
    }

    fn finish(&mut self, style: &TextStyle) -> Result<ArrayRef> {
        let values = std::mem::take(&mut self.values);
        if values.is_empty() {
            return Ok(parse_value(None, &self.column_type, style)?.slice(0, 0));
        }
        ScalarValue::iter_to_array(values).map_err(|error| {
            Error::internal(format!("values of type {}: {error}", self.column_type))
        })
    }
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadCopyFormat, message)
}

#[cfg(test)]
mod tests;
