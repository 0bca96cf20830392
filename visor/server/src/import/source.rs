//! Reads an input and splits it into batches of COPY data.

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

/// The input, and how to read it.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    /// The path of the file; `-` is standard input.
    pub file: PathBuf,
    /// The format of the input.
    pub format: FileFormat,
    /// CSV: whether the first line contains the column names.
    pub header: bool,
    /// CSV: the separator of values.
    pub delimiter: u8,
    /// CSV: the unquoted text that means NULL.
    pub null: String,
    /// The number of rows from which the types are inferred; 0 if the table exists.
    pub infer_rows: usize,
}

/// The size of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// A number of bytes.
    Bytes(u64),
    /// A number of rows.
    Rows(u64),
    /// Unknown, because the input is a pipe.
    Unknown,
}

/// The rows for one COPY statement.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The rows in the format of COPY.
    pub bytes: Vec<u8>,
    /// The number of the first row in the input, from 1.
    pub first_row: u64,
    /// The number of rows, at least 1.
    pub rows: u64,
    /// For error messages: maps line numbers in the batch to line numbers in the input.
    pub lines: Lines,
    /// The position in the input after the batch, in the unit of [`Size`].
    pub end: u64,
}

/// An input that is read batch by batch.
pub trait Source: Send {
    /// Names and types of the input's columns, inferred from its first rows.
    fn columns(&self) -> Result<Vec<ResultColumn>, SqlError>;
    /// The note in the input, if `stratalog export` has written the input from a table.
    fn note(&self) -> Option<TableNote> {
        None
    }
    /// Columns in which most values are times: for each, its name and the first value that is not a
    /// time.
    fn odd_times(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Sets the columns of the table; called before the first batch.
    fn bind(&mut self, table: &[ResultColumn]) -> Result<(), SqlError>;
    /// The names of the columns in the batches, for the COPY statement; `None` if they are the
    /// columns of the table.
    fn names(&self) -> Option<Vec<String>>;
    /// The options of the COPY statement.
    fn copy_options(&self) -> String;
    /// The next batch, with at most `rows_max` rows; `None` at the end.
    fn next_batch(&mut self, rows_max: u64) -> Result<Option<Batch>, SqlError>;
    /// The size of the input.
    fn size(&self) -> Size;
}

/// Opens an input and reads its first rows.
///
/// # Errors
/// The file is unreadable, or its beginning does not have the format.
pub fn open(options: SourceOptions) -> Result<Box<dyn Source>, SqlError> {
    let input = Input::open(&options)?;
    Ok(match options.format {
        FileFormat::Csv => Box::new(csv::CsvSource::open(input, options)?),
        FileFormat::Ndjson => Box::new(ndjson::NdjsonSource::open(input, &options)?),
        FileFormat::Parquet => Box::new(parquet::ParquetSource::open(input)?),
    })
}

/// Reads a file or standard input, and counts the bytes.
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
