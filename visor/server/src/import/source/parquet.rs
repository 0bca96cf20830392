//! Converts Parquet to lines in COPY's text format.

use std::{fs::File, io};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use stratalog_model::ColumnType;
use stratalog_text::{ColumnWriter, TextStyle};

use super::{Batch, Input, Lines, Size, Source, ndjson::escape};
use crate::{
    import::{METADATA, TableNote},
    sql::{error::SqlError, rows::ResultColumn},
};

const ROWS_READ: usize = 8192;

/// The rows of a Parquet file, with all its columns.
pub(super) struct ParquetSource {
    reader: ParquetRecordBatchReader,
    schema: SchemaRef,
    rows: u64,
    next_row: u64,
    /// The rows of the current record batch that no COPY batch contains yet.
    remaining: Option<RecordBatch>,
    style: TextStyle,
}

impl ParquetSource {
    pub(super) fn open(mut input: Input) -> Result<Self, SqlError> {
        // A reader of Parquet starts at the end of the file. Therefore the content of a pipe is
        // first copied to an unnamed temporary file.
        let file: File = match input.file.take() {
            Some(file) => file,
            None => {
                let mut spooled = tempfile::tempfile()?;
                io::copy(&mut input, &mut spooled).map_err(|error| input.failed(&error))?;
                spooled
            }
        };
        let unreadable = |error: parquet::errors::ParquetError| {
            SqlError::of("22P04", format!("cannot read {} as Parquet: {error}", input.name))
        };
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(unreadable)?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let schema = builder.schema().clone();
        let reader = builder.with_batch_size(ROWS_READ).build().map_err(unreadable)?;
        Ok(Self { reader, schema, rows, next_row: 1, remaining: None, style: TextStyle::default() })
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        match self.remaining.take() {
            Some(batch) => Ok(Some(batch)),
            None => self.reader.next().transpose().map_err(|error| {
                SqlError::of(
                    "22P04",
                    format!("row {} and the following rows: {error}", self.next_row),
                )
            }),
        }
    }

    fn write(&self, batch: &RecordBatch, bytes: &mut Vec<u8>) -> Result<(), SqlError> {
        let schema = batch.schema();
        let writers: Vec<ColumnWriter<'_>> = batch
            .columns()
            .iter()
            .zip(schema.fields())
            .map(|(array, field)| ColumnWriter::new(array.as_ref(), field, &self.style))
            .collect::<Result<_, _>>()?;
        let mut value = Vec::new();
        for row in 0..batch.num_rows() {
            for (at, writer) in writers.iter().enumerate() {
                if at > 0 {
                    bytes.push(b'\t');
                }
                value.clear();
                if writer.write(row, &mut value) {
                    let text = std::str::from_utf8(&value).map_err(|_| {
                        SqlError::local(format!("row {}: the text is not UTF-8", self.next_row))
                    })?;
                    escape(text, bytes);
                } else {
                    bytes.extend_from_slice(b"\\N");
                }
            }
            bytes.push(b'\n');
        }
        Ok(())
    }
}

impl Source for ParquetSource {
    fn columns(&self) -> Result<Vec<ResultColumn>, SqlError> {
        let fields = self.schema.fields().iter();
        fields
            .map(|field| match ColumnType::from_arrow_field(field) {
                Some(column_type) => Ok(ResultColumn { name: field.name().clone(), column_type }),
                None => Err(SqlError::of(
                    "0A000",
                    format!(
                        "column \"{}\" has type {}, which corresponds to no SQL type of Stratalog",
                        field.name(),
                        field.data_type()
                    ),
                )),
            })
            .collect()
    }

    fn note(&self) -> Option<TableNote> {
        self.schema.metadata().get(METADATA).and_then(|text| TableNote::parse(text))
    }

    fn bind(&mut self, table: &[ResultColumn]) -> Result<(), SqlError> {
        for column in self.columns()? {
            if !table.iter().any(|known| known.name == column.name) {
                return Err(SqlError::of(
                    "42703",
                    format!("column \"{}\" of the file is not a column of the table", column.name),
                ));
            }
        }
        Ok(())
    }

    fn names(&self) -> Option<Vec<String>> {
        Some(self.schema.fields().iter().map(|field| field.name().clone()).collect())
    }

    fn copy_options(&self) -> String {
        "FORMAT text".to_string()
    }

    fn next_batch(&mut self, rows_max: u64) -> Result<Option<Batch>, SqlError> {
        let (mut bytes, mut rows) = (Vec::new(), 0);
        let first_row = self.next_row;
        while rows < rows_max {
            let Some(batch) = self.next()? else { break };
            let wanted = usize::try_from(rows_max - rows).unwrap_or(usize::MAX);
            let taken = batch.num_rows().min(wanted);
            if taken < batch.num_rows() {
                self.remaining = Some(batch.slice(taken, batch.num_rows() - taken));
            }
            self.write(&batch.slice(0, taken), &mut bytes)?;
            rows += taken as u64;
            self.next_row += taken as u64;
        }
        if rows == 0 {
            return Ok(None);
        }
        let lines = Lines::From { noun: "row", first: first_row };
        Ok(Some(Batch { bytes, first_row, rows, lines, end: first_row + rows - 1 }))
    }

    fn size(&self) -> Size {
        Size::Rows(self.rows)
    }
}
