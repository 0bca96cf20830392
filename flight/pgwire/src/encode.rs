//! Encodes rows as DataRow messages. Each batch has one encoder per column.

mod binary;

use arrow::{
    array::{Array as _, ArrayRef, AsArray as _, RecordBatch},
    datatypes::{DataType, Schema},
};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_text::{ColumnWriter, TextStyle};

pub use self::binary::BinaryWriter;
pub(crate) use self::binary::POSTGRES_EPOCH_MICROS;
use crate::{
    outbound::{OutboundBuffer, patch, row_too_large},
    types::field_type,
};

/// The protocol's format code for values as text.
pub const TEXT: i16 = 0;

/// The protocol's format code for binary values.
pub const BINARY: i16 = 1;

/// The format code of a column, from the list of format codes in a Bind message.
pub fn format_of(formats: &[i16], column: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(column).copied().unwrap_or(0),
    }
}

/// Encodes the values of one column, in one format.
enum ColumnEncoder<'a> {
    Text(ColumnWriter<'a>),
    Binary(BinaryWriter),
}

/// Minimum bytes of the long values of a column or row for a separate memory reservation.
const LONG_BYTES_MIN: usize = 256 << 10;

/// The columns of a batch that may have long values.
#[derive(Debug)]
pub(crate) struct LongValues(Vec<ArrayRef>);

impl LongValues {
    pub(crate) fn of(batch: &RecordBatch) -> Self {
        let large = |column: &&ArrayRef| column.get_array_memory_size() >= LONG_BYTES_MIN;
        Self(batch.columns().iter().filter(large).cloned().collect())
    }

    /// The bytes of the values of one row in these columns.
    pub(crate) fn bytes(&self, row: usize) -> usize {
        let bytes = self.0.iter().map(|column| match column.data_type() {
            _ if column.is_null(row) => 0,
            DataType::Utf8View => column.as_string_view().value(row).len(),
            DataType::Utf8 => column.as_string::<i32>().value(row).len(),
            DataType::BinaryView => column.as_binary_view().value(row).len().saturating_mul(2),
            DataType::Binary => column.as_binary::<i32>().value(row).len().saturating_mul(2),
            DataType::List(_) => list_bytes(&column.as_list::<i32>().value(row)),
            _ => 0,
        });
        let bytes = bytes.fold(0, usize::saturating_add);
        if bytes < LONG_BYTES_MIN { 0 } else { bytes }
    }
}

/// The approximate length in bytes of an array's elements as text.
fn list_bytes(elements: &ArrayRef) -> usize {
    let texts = match elements.as_string_view_opt() {
        Some(texts) => texts.iter().flatten().map(str::len).sum(),
        None => elements.to_data().get_slice_memory_size().unwrap_or(0).saturating_mul(2),
    };
    texts.saturating_add(elements.len().saturating_mul(4))
}

/// Encodes the rows of a batch as DataRow messages.
pub(crate) struct RowWriter<'a> {
    columns: Vec<ColumnEncoder<'a>>,
    long: LongValues,
}

impl<'a> RowWriter<'a> {
    /// # Errors
    /// `FeatureNotSupported` for a column without a matching SQL type.
    pub(crate) fn new(
        batch: &'a RecordBatch,
        formats: &[i16],
        style: &'a TextStyle,
    ) -> Result<Self> {
        let schema = batch.schema_ref();
        let columns = batch
            .columns()
            .iter()
            .zip(schema.fields())
            .enumerate()
            .map(|(at, (array, field))| {
                if format_of(formats, at) == BINARY {
                    BinaryWriter::new(array, field, field_type(field).oid)
                        .map(ColumnEncoder::Binary)
                } else {
                    ColumnWriter::new(array.as_ref(), field, style).map(ColumnEncoder::Text)
                }
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { columns, long: LongValues::of(batch) })
    }

    /// Checks that no binary value loses digits beyond microseconds in [`Self::write`]. `schema`
    /// supplies the names of the columns for the error.
    ///
    /// # Errors
    /// `FeatureNotSupported` if a value has such digits.
    pub(crate) fn check_digits(&self, schema: &Schema) -> Result<()> {
        for (column, field) in self.columns.iter().zip(schema.fields()) {
            if let ColumnEncoder::Binary(writer) = column
                && writer.cuts_digits()
            {
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    format!(
                        "column \"{}\" has a value with nanoseconds, and the binary format of COPY has microseconds",
                        field.name()
                    ),
                )
                .with_hint(
                    "use the format text or csv, or round the times by a cast, for example to timestamptz(6)",
                ));
            }
        }
        Ok(())
    }

    /// The bytes of the values of a row in the columns with long values.
    pub(crate) fn long_bytes(&self, row: usize) -> usize {
        self.long.bytes(row)
    }

    /// Appends a row as a DataRow message. An error leaves `out` unchanged.
    pub(crate) fn write(&self, row: usize, out: &mut OutboundBuffer) -> Result<()> {
        self.write_as(b'D', &[], row, out)
    }

    /// Appends a message of type `kind` that contains the bytes `first` and then a row. Binary COPY
    /// uses this function, because its rows have the same encoding.
    pub(crate) fn write_as(
        &self,
        kind: u8,
        first: &[u8],
        row: usize,
        out: &mut OutboundBuffer,
    ) -> Result<()> {
        let before = out.bytes.len();
        let written = self.write_values((kind, first), row, out);
        if written.is_err() {
            out.bytes.truncate(before);
        }
        written
    }

    fn write_values(
        &self,
        (kind, first): (u8, &[u8]),
        row: usize,
        out: &mut OutboundBuffer,
    ) -> Result<()> {
        let start = out.begin(kind);
        out.bytes.extend_from_slice(first);
        let count = u16::try_from(self.columns.len()).unwrap_or(u16::MAX);
        out.bytes.extend_from_slice(&count.to_be_bytes());
        for column in &self.columns {
            let length_at = out.bytes.len();
            out.bytes.extend_from_slice(&[0; 4]);
            let present = match column {
                ColumnEncoder::Text(writer) => writer.write(row, &mut out.bytes),
                ColumnEncoder::Binary(writer) => writer.write(row, &mut out.bytes)?,
            };
            let length = if present {
                i32::try_from(out.bytes.len() - length_at - 4).map_err(|_| row_too_large())?
            } else {
                -1
            };
            patch(&mut out.bytes, length_at, length);
        }
        out.end(start)
    }
}

#[cfg(test)]
mod tests;
