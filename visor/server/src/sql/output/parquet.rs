//! The output format Parquet.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{RecordBatch, new_null_array},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::properties::WriterProperties,
};
use stratalog_model::ColumnType;
use stratalog_text::{ColumnBuilder, TextStyle};

use super::{NewFile, Output, Target};
use crate::sql::rows::{ResultColumn, TextRows};

/// Maximum bytes of a row group, which is kept in memory until it is complete.
const ROW_GROUP_BYTES_MAX: usize = 64 << 20;

enum OutputFile {
    File(PathBuf),
    /// A stream of bytes; `None` after Parquet's writer has taken the stream.
    Stream(Option<Target>),
}

/// Writes a result as a Parquet file with the types of its columns, compressed with zstd. The file
/// appears, or replaces an existing file, only when the result is complete.
pub struct ParquetOutput {
    place: OutputFile,
    types: Vec<ColumnType>,
    schema: SchemaRef,
    writer: Option<ArrowWriter<Target>>,
    file: Option<(NewFile, File)>,
    style: TextStyle,
    /// Further metadata of the file.
    metadata: HashMap<String, String>,
}

impl ParquetOutput {
    /// An output to the file at `path`, which is created with the first rows.
    pub fn new(path: &Path) -> Self {
        Self::at(OutputFile::File(path.to_path_buf()))
    }

    /// An output to a stream of bytes.
    pub fn stream(target: Target) -> Self {
        Self::at(OutputFile::Stream(Some(target)))
    }

    fn at(place: OutputFile) -> Self {
        Self {
            place,
            types: Vec::new(),
            schema: Arc::new(Schema::empty()),
            writer: None,
            file: None,
            style: TextStyle::default(),
            metadata: HashMap::new(),
        }
    }

    /// Adds metadata to the file.
    pub fn with_metadata(mut self, metadata: HashMap<String, String>) -> Self {
        self.metadata = metadata;
        self
    }

    fn open(&mut self) -> io::Result<Target> {
        let path = match &mut self.place {
            OutputFile::File(path) => path,
            OutputFile::Stream(target) => {
                return target.take().ok_or_else(|| io::Error::other("one result, one file"));
            }
        };
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot create {}: {error}", path.display()))
        };
        let (new, file) = NewFile::create(path).map_err(failed)?;
        let second = file.try_clone().map_err(failed)?;
        self.file = Some((new, file));
        Ok(Box::new(second))
    }
}

impl Output for ParquetOutput {
    fn columns(&mut self, columns: &[ResultColumn]) -> io::Result<()> {
        let fields: Vec<_> = columns
            .iter()
            .map(|column| storable(&column.column_type.arrow_field(&column.name, true)))
            .collect();
        for (field, column) in fields.iter().zip(columns) {
            check_writable(field, column)?;
        }
        self.types = columns.iter().map(|column| column.column_type.clone()).collect();
        self.schema = Arc::new(Schema::new_with_metadata(fields, self.metadata.clone()));
        let level = ZstdLevel::try_new(3).map_err(io::Error::other)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_bytes(Some(ROW_GROUP_BYTES_MAX))
            .build();
        let target = self.open()?;
        let writer = ArrowWriter::try_new(target, Arc::clone(&self.schema), Some(properties))
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
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let arrays = builders
            .into_iter()
            .zip(self.schema.fields())
            .map(|(mut builder, field)| {
                cast_with_options(&builder.finish(), field.data_type(), &strict)
            })
            .collect::<Result<_, _>>()
            .map_err(io::Error::other)?;
        let batch =
            RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(io::Error::other)?;
        writer.write(&batch).map_err(io_error_of)
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.into_inner().map_err(io_error_of)?.flush()?;
        match self.file.take() {
            Some((new, file)) => new.keep(&file),
            None => Ok(()),
        }
    }
}

/// The field with a type that every tool can read: Parquet has no timestamps in seconds, and
/// Arrow's string views exist only in memory.
fn storable(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Utf8View => DataType::Utf8,
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::List(item) => DataType::List(Arc::new(storable(item))),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}

/// The disk or pipe error that caused a Parquet error.
fn io_error_of(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        other => io::Error::other(other),
    }
}

/// Refuses a column whose values Parquet cannot store.
fn check_writable(field: &Field, column: &ResultColumn) -> io::Result<()> {
    let value = new_null_array(field.data_type(), 1);
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let tried =
        ArrowWriter::try_new(io::sink(), Arc::clone(&schema), None).and_then(|mut writer| {
            writer.write(&RecordBatch::try_new(schema, vec![value])?)?;
            writer.close()
        });
    tried.map(drop).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "column \"{}\" contains {}, which a Parquet file cannot store; cast the column in the query, as in \"{}\"::text",
                column.name, column.column_type, column.name
            ),
        )
    })
}
