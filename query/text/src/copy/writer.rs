//! Writes record batches in the text and CSV formats of COPY … TO.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use memchr::{memchr2, memchr3};
use stratalog_model::Result;

use super::{CopyEncoding, CopyFormat, CopyHeader, CopyOptions, encoding::to_latin1};
use crate::{ColumnWriter, TextStyle};

/// Writes the data of COPY … TO.
#[derive(Debug)]
pub struct CopyWriter {
    options: CopyOptions,
    schema: SchemaRef,
    style: TextStyle,
    force_quote: Vec<bool>,
}

impl CopyWriter {
    /// Creates a writer for batches with `schema`.
    pub fn new(options: CopyOptions, schema: SchemaRef, style: TextStyle) -> Self {
        let force_quote =
            schema.fields().iter().map(|field| options.force_quote.has(field.name())).collect();
        Self { options, schema, style, force_quote }
    }

    /// Appends the header line if the options request a header line.
    ///
    /// # Errors
    /// The errors of [`CopyRows::write`].
    pub fn write_header(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.options.header == CopyHeader::Absent {
            return Ok(());
        }
        let start = out.len();
        for (at, field) in self.schema.fields().iter().enumerate() {
            if at > 0 {
                out.push(self.options.delimiter);
            }
            match self.options.format {
                CopyFormat::Text => write_text(field.name().as_bytes(), &self.options, out),
                CopyFormat::Csv => {
                    let single = self.schema.fields().len() == 1;
                    write_csv(field.name().as_bytes(), false, single, &self.options, out);
                }
            }
        }
        out.push(b'\n');
        self.encode(out, start)
    }

    /// Prepares the rows of a batch, which the caller writes one by one.
    ///
    /// # Errors
    /// `FeatureNotSupported` for a column whose type has no text format.
    pub fn rows<'a>(&'a self, batch: &'a RecordBatch) -> Result<CopyRows<'a>> {
        let columns = batch
            .columns()
            .iter()
            .zip(self.schema.fields())
            .map(|(array, field)| ColumnWriter::new(array.as_ref(), field, &self.style))
            .collect::<Result<Vec<_>>>()?;
        Ok(CopyRows { writer: self, columns, scratch: Vec::new() })
    }

    /// Converts the bytes of `out` from index `start` on from UTF-8 to the encoding of the data.
    fn encode(&self, out: &mut Vec<u8>, start: usize) -> Result<()> {
        match self.options.encoding {
            CopyEncoding::Utf8 => Ok(()),
            CopyEncoding::Latin1 => to_latin1(out, start),
        }
    }

    /// Appends all rows of a batch.
    ///
    /// # Errors
    /// The errors of [`Self::rows`] and [`CopyRows::write`].
    pub fn write_batch(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let mut rows = self.rows(batch)?;
        for row in 0..batch.num_rows() {
            rows.write(row, out)?;
        }
        Ok(())
    }
}

/// Writes the rows of one batch.
#[derive(Debug)]
pub struct CopyRows<'a> {
    writer: &'a CopyWriter,
    columns: Vec<ColumnWriter<'a>>,
    scratch: Vec<u8>,
}

impl CopyRows<'_> {
    /// Appends the row with the index `row` and a newline. The row must exist.
    ///
    /// # Errors
    /// `UntranslatableCharacter` for a character that the encoding does not have; `out` may then
    /// contain a part of the row.
    pub fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let options = &self.writer.options;
        let single = self.columns.len() == 1;
        let columns = self.columns.iter().zip(&self.writer.force_quote);
        for (at, (column, force_quote)) in columns.enumerate() {
            if at > 0 {
                out.push(options.delimiter);
            }
            self.scratch.clear();
            if !column.write(row, &mut self.scratch) {
                out.extend_from_slice(options.null.as_bytes());
                continue;
            }
            match options.format {
                CopyFormat::Text => write_text(&self.scratch, options, out),
                CopyFormat::Csv => write_csv(&self.scratch, *force_quote, single, options, out),
            }
        }
        out.push(b'\n');
        self.writer.encode(out, start)
    }
}

fn write_text(value: &[u8], options: &CopyOptions, out: &mut Vec<u8>) {
    let clean =
        value.iter().all(|byte| *byte > b'\r' && *byte != b'\\' && *byte != options.delimiter);
    if clean {
        out.extend_from_slice(value);
        return;
    }
    for byte in value {
        let code = match byte {
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b'\\' => b'\\',
            other if *other == options.delimiter => *other,
            other => {
                out.push(*other);
                continue;
            }
        };
        // A control character is escaped by its letter, even if it is the delimiter.
        out.extend_from_slice(&[b'\\', code]);
    }
}

fn write_csv(value: &[u8], force: bool, single: bool, options: &CopyOptions, out: &mut Vec<u8>) {
    let quoted = force
        || value == options.null.as_bytes()
        // As the only value of a line, `\.` would end the data.
        || (single && value == b"\\.")
        || memchr3(options.delimiter, options.quote, b'\n', value).is_some()
        || memchr2(b'\r', options.delimiter, value).is_some();
    if !quoted {
        out.extend_from_slice(value);
        return;
    }
    out.push(options.quote);
    for byte in value {
        if *byte == options.quote || *byte == options.escape {
            out.push(options.escape);
        }
        out.push(*byte);
    }
    out.push(options.quote);
}
