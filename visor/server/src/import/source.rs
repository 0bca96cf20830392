//! Inputs, as batches of COPY data.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{FileFormat, TableNote};
use crate::sql::{error::SqlError, rows::ResultColumn};

mod csv;
mod lines;
mod members;
mod ndjson;
mod parquet;

pub use lines::Lines;

/// The input and its format options.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    /// The file; `-` is standard input.
    pub file: PathBuf,
    /// Its format.
    pub format: FileFormat,
    /// CSV: the first line contains the column names.
    pub header: bool,
    /// CSV: separator of values.
    pub delimiter: u8,
    /// CSV: the unquoted text for NULL.
    pub null: String,
    /// Number of rows for the choice of types; 0 when the table exists.
    pub infer_rows: usize,
}

/// The size of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// A number of bytes.
    Bytes(u64),
    /// A number of rows.
    Rows(u64),
    /// A pipe.
    Unknown,
}

/// Rows for one COPY statement.
#[derive(Debug, Clone)]
pub struct Batch {
    /// COPY data.
    pub bytes: Vec<u8>,
    /// Number of its first row in the input, from 1.
    pub first_row: u64,
    /// Number of rows, at least 1.
    pub rows: u64,
    /// Line numbers of the input.
    pub lines: Lines,
    /// The read position in the input, in the unit of its [`Size`].
    pub end: u64,
}

/// An input.
pub trait Source: Send {
    /// Names and types of the columns, from the first rows.
    fn columns(&self) -> Result<Vec<ResultColumn>, SqlError>;
    /// The table note of an export.
    fn note(&self) -> Option<TableNote> {
        None
    }
    /// Columns with times and at least one other value, each with the first such value.
    fn odd_times(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Sets the table's columns, before the first batch.
    fn bind(&mut self, table: &[ResultColumn]) -> Result<(), SqlError>;
    /// Names of the columns in batches; `None`: the table's columns.
    fn names(&self) -> Option<Vec<String>>;
    /// Options of the COPY statement.
    fn copy_options(&self) -> String;
    /// The next rows; `None` at the end.
    fn next_batch(&mut self, rows_max: u64) -> Result<Option<Batch>, SqlError>;
    /// The size of the input.
    fn size(&self) -> Size;
}

/// Opens an input and reads its first rows.
///
/// # Errors
/// An unreadable file, or a wrong format of its beginning.
pub fn open(options: SourceOptions) -> Result<Box<dyn Source>, SqlError> {
    let input = Input::open(&options)?;
    Ok(match options.format {
        FileFormat::Csv => Box::new(csv::CsvSource::open(input, options)?),
        FileFormat::Ndjson => Box::new(ndjson::NdjsonSource::open(input, &options)?),
        FileFormat::Parquet => Box::new(parquet::ParquetSource::open(input)?),
    })
}

/// Bytes of a file or of standard input, counted.
pub(super) struct Input {
    name: String,
    reader: Box<dyn Read + Send>,
    file: Option<File>,
    bytes: Option<u64>,
    read: Arc<AtomicU64>,
}

impl Input {
    fn open(options: &SourceOptions) -> Result<Self, SqlError> {
        let read = Arc::new(AtomicU64::new(0));
        if options.file.as_os_str() == "-" {
            let reader = Box::new(io::stdin());
            return Ok(Self {
                name: "standard input".to_string(),
                reader,
                file: None,
                bytes: None,
                read,
            });
        }
        let name = options.file.display().to_string();
        let failed = |error: io::Error| SqlError::local(format!("cannot read {name}: {error}"));
        let file = File::open(&options.file).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(SqlError::local(format!("cannot read {name}: the path is a directory")));
        }
        let bytes = metadata.is_file().then_some(metadata.len());
        let second = file.try_clone().map_err(failed)?;
        Ok(Self { name, reader: Box::new(file), file: bytes.and(Some(second)), bytes, read })
    }

    fn size(&self) -> Size {
        self.bytes.map_or(Size::Unknown, Size::Bytes)
    }

    fn position(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    fn failed(&self, error: &io::Error) -> SqlError {
        SqlError::of("58030", format!("cannot read {}: {error}", self.name))
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
