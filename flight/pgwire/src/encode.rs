//! Rows of a batch as messages, each column encoded by a writer made once per batch.

mod binary;

use arrow::array::RecordBatch;
use stratalog_model::Result;
use stratalog_text::{ColumnWriter, TextStyle};

pub use self::binary::BinaryWriter;
pub(crate) use self::binary::POSTGRES_EPOCH_MICROS;
use crate::{
    outbound::{Outbound, patch, row_too_large},
    types::field_type,
};

/// Format code of values as text.
pub const TEXT: i16 = 0;

/// Format code of binary values.
pub const BINARY: i16 = 1;

/// The format that a Bind message asks for a column.
pub fn format_of(formats: &[i16], column: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(column).copied().unwrap_or(0),
    }
}

/// Writes the values of one column.
enum Column<'a> {
    Text(ColumnWriter<'a>),
    Binary(BinaryWriter),
}

/// Writes the rows of one batch as DataRow messages.
pub(crate) struct RowWriter<'a> {
    columns: Vec<Column<'a>>,
}

impl<'a> RowWriter<'a> {
    /// # Errors
    /// `FeatureNotSupported` for a column that no SQL type fits.
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
                    BinaryWriter::new(array, field, field_type(field).oid).map(Column::Binary)
                } else {
                    ColumnWriter::new(array.as_ref(), field, style).map(Column::Text)
                }
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { columns })
    }

    /// Appends a DataRow. On an error nothing is appended.
    pub(crate) fn write(&self, row: usize, out: &mut Outbound) -> Result<()> {
        self.write_as(b'D', &[], row, out)
    }

    /// Appends a row in a message of another kind, behind `first`: those of COPY in binary look the
    /// same.
    pub(crate) fn write_as(
        &self,
        kind: u8,
        first: &[u8],
        row: usize,
        out: &mut Outbound,
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
        out: &mut Outbound,
    ) -> Result<()> {
        let start = out.begin(kind);
        out.bytes.extend_from_slice(first);
        let count = u16::try_from(self.columns.len()).unwrap_or(u16::MAX);
        out.bytes.extend_from_slice(&count.to_be_bytes());
        for column in &self.columns {
            let length_at = out.bytes.len();
            out.bytes.extend_from_slice(&[0; 4]);
            let present = match column {
                Column::Text(writer) => writer.write(row, &mut out.bytes),
                Column::Binary(writer) => writer.write(row, &mut out.bytes)?,
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
