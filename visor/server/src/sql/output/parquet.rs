//! A Parquet file of one result.

use std::{fs::File, io, path::Path, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use stratalog_model::ColumnType;
use stratalog_text::{ColumnBuilder, TextStyle};

use super::Output;
use crate::sql::rows::{ResultColumn, TextRows};

/// Writes rows with their types; zstd-compressed.
pub struct ParquetOutput {
    file: Option<File>,
    types: Vec<ColumnType>,
    schema: SchemaRef,
    writer: Option<ArrowWriter<File>>,
    style: TextStyle,
}

impl ParquetOutput {
    /// Makes the file at `path`, replacing what was there.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot make {}: {error}", path.display()))
        })?;
        Ok(Self {
            file: Some(file),
            types: Vec::new(),
            schema: Arc::new(Schema::empty()),
            writer: None,
            style: TextStyle::default(),
        })
    }
}

impl Output for ParquetOutput {
    fn columns(&mut self, columns: &[ResultColumn]) -> io::Result<()> {
        let file = self.file.take().ok_or_else(|| {
            io::Error::other("a Parquet file takes one result: run one query per file")
        })?;
        let fields: Vec<_> = columns
            .iter()
            .map(|column| column.column_type.arrow_field(&column.name, true))
            .collect();
        self.types = columns.iter().map(|column| column.column_type.clone()).collect();
        self.schema = Arc::new(Schema::new(fields));
        let level = ZstdLevel::try_new(3).map_err(io::Error::other)?;
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
        let writer = ArrowWriter::try_new(file, Arc::clone(&self.schema), Some(properties))
            .map_err(io::Error::other)?;
        self.writer = Some(writer);
        Ok(())
    }

    fn rows(&mut self, rows: &TextRows) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut builders: Vec<ColumnBuilder> = self
            .types
            .iter()
            .map(|column_type| ColumnBuilder::new(column_type, rows.len()))
            .collect();
        for row in rows.iter() {
            for (value, builder) in row.zip(&mut builders) {
                match value {
                    Some(text) => {
                        builder.append_text(text, &self.style).map_err(io::Error::other)?
                    }
                    None => builder.append_null(),
                }
            }
        }
        let arrays = builders.into_iter().map(|mut builder| builder.finish()).collect();
        let batch =
            RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(io::Error::other)?;
        writer.write(&batch).map_err(io::Error::other)
    }

    fn end(&mut self) -> io::Result<()> {
        match self.writer.take() {
            Some(writer) => writer.close().map(|_| ()).map_err(io::Error::other),
            None => Ok(()),
        }
    }
}
