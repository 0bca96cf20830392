//! Output formats of results: for people, for programs, for files.

use std::{
    collections::HashMap,
    io::{self, Write},
    path::PathBuf,
    str::FromStr,
};

use super::rows::{ResultColumn, TextRows};

mod delimited;
mod json;
mod new_file;
mod parquet;
mod table;

pub use delimited::CsvOptions;
pub use new_file::NewFile;
pub use parquet::ParquetOutput;
pub use table::{TableOptions, display_width};

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Columns side by side, for reading.
    #[default]
    Table,
    /// RFC 4180 with a header line; NULL is empty, an empty string is `""`.
    Csv,
    /// One array of objects per statement.
    Json,
    /// One object per line.
    Ndjson,
    /// A Parquet file; needs an output file.
    Parquet,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        <Self as clap::ValueEnum>::from_str(text, true)
            .map_err(|_| format!("\"{text}\" is not a format: table, csv, json, ndjson or parquet"))
    }
}

/// Writes a result: columns, then rows in portions, then its end.
pub trait Output: Send {
    /// The columns.
    fn columns(&mut self, columns: &[ResultColumn]) -> io::Result<()>;
    /// Some rows.
    fn rows(&mut self, rows: &TextRows) -> io::Result<()>;
    /// The end: writes all buffered output.
    fn end(&mut self) -> io::Result<()>;
}

/// The destination of output.
pub type Target = Box<dyn Write + Send>;

/// Output options from the flags and `\` commands.
#[derive(Debug, Clone, Default)]
pub struct OutputOptions {
    /// The form.
    pub format: Format,
    /// Table options.
    pub table: TableOptions,
    /// File of the Parquet form.
    pub file: Option<PathBuf>,
}

/// The output for one result, with `options`, into `target`.
///
/// # Errors
/// Parquet without a file.
pub fn output(options: &OutputOptions, target: Target) -> io::Result<Box<dyn Output>> {
    Ok(match options.format {
        Format::Table => Box::new(table::TableOutput::new(target, options.table)),
        Format::Csv => csv(target, CsvOptions::default()),
        Format::Json => Box::new(json::JsonOutput::array(target)),
        Format::Ndjson => ndjson(target),
        Format::Parquet => match &options.file {
            Some(path) => Box::new(ParquetOutput::new(path)),
            None => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the parquet format needs a file: give --output FILE or \\o FILE",
                ));
            }
        },
    })
}

/// Lines of CSV.
pub fn csv(target: Target, options: CsvOptions) -> Box<dyn Output> {
    Box::new(delimited::CsvOutput::new(target, options))
}

/// One JSON object per line.
pub fn ndjson(target: Target) -> Box<dyn Output> {
    Box::new(json::JsonOutput::lines(target))
}

/// A Parquet file's bytes, with metadata.
pub fn parquet(target: Target, metadata: HashMap<String, String>) -> Box<dyn Output> {
    Box::new(ParquetOutput::stream(target).with_metadata(metadata))
}

#[cfg(test)]
mod tests;
