//! The output formats of results: for people, for programs, for files.

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

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Columns side by side, for reading.
    #[default]
    Table,
    /// CSV as in RFC 4180, with a header line; NULL is empty, and an empty string is `""`.
    Csv,
    /// One JSON array of objects per statement.
    Json,
    /// One JSON object per line.
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

/// Writes one result: its columns, its rows in portions, and its end.
pub trait Output: Send {
    /// Begins the result with its columns.
    fn columns(&mut self, columns: &[ResultColumn]) -> io::Result<()>;
    /// Writes the next rows.
    fn rows(&mut self, rows: &TextRows) -> io::Result<()>;
    /// Ends the result, and writes all buffered bytes.
    fn end(&mut self) -> io::Result<()>;
}

/// The destination of the output.
pub type Target = Box<dyn Write + Send>;

/// The options of the output, from flags and `\` commands.
#[derive(Debug, Clone, Default)]
pub struct OutputOptions {
    /// The format of the output.
    pub format: Format,
    /// The options of the table format.
    pub table: TableOptions,
    /// The path of the Parquet file.
    pub file: Option<PathBuf>,
}

/// Makes an output for one result with the given options, which writes to `target`.
///
/// # Errors
/// The format is Parquet, and the options have no file.
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

/// Makes an output of CSV lines.
pub fn csv(target: Target, options: CsvOptions) -> Box<dyn Output> {
    Box::new(delimited::CsvOutput::new(target, options))
}

/// Makes an output of one JSON object per line.
pub fn ndjson(target: Target) -> Box<dyn Output> {
    Box::new(json::JsonOutput::lines(target))
}

/// Makes an output of a Parquet file with additional metadata; the file is written to `target`.
pub fn parquet(target: Target, metadata: HashMap<String, String>) -> Box<dyn Output> {
    Box::new(ParquetOutput::stream(target).with_metadata(metadata))
}

#[cfg(test)]
mod tests;
