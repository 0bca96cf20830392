//! The output format CSV.

use std::io;

use super::{Output, Target};
use crate::sql::rows::{ResultColumn, TextRows};

/// The options of CSV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvOptions {
    /// True for a header line with the column names.
    pub header: bool,
    /// The separator of values, an ASCII character.
    pub delimiter: u8,
    /// The unquoted text that means NULL.
    pub null: String,
}

impl Default for CsvOptions {
    /// RFC 4180, with a header line and an empty text for NULL.
    fn default() -> Self {
        Self { header: true, delimiter: b',', null: String::new() }
    }
}

/// Writes CSV lines as the rows arrive.
pub(super) struct CsvOutput {
    target: Target,
    options: CsvOptions,
    line: Vec<u8>,
}

impl CsvOutput {
    pub(super) fn new(target: Target, options: CsvOptions) -> Self {
        Self { target, options, line: Vec::new() }
    }

    fn line<'a>(&mut self, values: impl Iterator<Item = Option<&'a str>>) -> io::Result<()> {
        self.line.clear();
        for (at, value) in values.enumerate() {
            if at > 0 {
                self.line.push(self.options.delimiter);
            }
            let Some(value) = value else {
                self.line.extend_from_slice(self.options.null.as_bytes());
                continue;
            };
            // A line that consists of `\.` must be quoted, because some readers treat it as the end
            // of the data.
            let special =
                |byte| matches!(byte, b'"' | b'\n' | b'\r') || byte == self.options.delimiter;
            let quoted = value == self.options.null || value == "\\." || value.bytes().any(special);
            if quoted {
                self.line.push(b'"');
                self.line.extend_from_slice(value.replace('"', "\"\"").as_bytes());
                self.line.push(b'"');
            } else {
                self.line.extend_from_slice(value.as_bytes());
            }
        }
        self.line.push(b'\n');
        self.target.write_all(&self.line)
    }
}

impl Output for CsvOutput {
    fn columns(&mut self, columns: &[ResultColumn]) -> io::Result<()> {
        match self.options.header {
            true => self.line(columns.iter().map(|column| Some(column.name.as_str()))),
            false => Ok(()),
        }
    }

    fn rows(&mut self, rows: &TextRows) -> io::Result<()> {
        rows.iter().try_for_each(|row| self.line(row))
    }

    fn end(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}
