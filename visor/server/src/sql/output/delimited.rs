//! CSV.

use std::io;

use super::{Output, Target};
use crate::sql::rows::{ResultColumn, TextRows};

/// Writes RFC 4180 lines as they come.
pub(super) struct CsvOutput {
    target: Target,
    line: Vec<u8>,
}

impl CsvOutput {
    pub(super) fn new(target: Target) -> Self {
        Self { target, line: Vec::new() }
    }

    fn line<'a>(&mut self, values: impl Iterator<Item = Option<&'a str>>) -> io::Result<()> {
        self.line.clear();
        for (at, value) in values.enumerate() {
            if at > 0 {
                self.line.push(b',');
            }
            let Some(value) = value else { continue };
            // `\.` alone on a line ends the data of some readers.
            let quoted = value.is_empty()
                || value == "\\."
                || value.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'));
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
        self.line(columns.iter().map(|column| Some(column.name.as_str())))
    }

    fn rows(&mut self, rows: &TextRows) -> io::Result<()> {
        rows.iter().try_for_each(|row| self.line(row))
    }

    fn end(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}
