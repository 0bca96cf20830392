//! Splits CSV into records; the server parses the values.

use std::io::Read;

use stratalog_text::copy::{UNTERMINATED_HINT, unterminated_detail};

use super::{Batch, Input, Lines, Size, Source, SourceOptions};
use crate::{
    import::infer::Guess,
    sql::{error::SqlError, rows::ResultColumn},
};

const READ_BYTES: usize = 1 << 20;
/// Maximum bytes of a record. A longer record probably has a quote that is not closed.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// A CSV input. It finds only the ends of the records; the server parses the values in COPY, by the
/// types of the table.
pub(super) struct CsvSource {
    input: Input,
    options: SourceOptions,
    buffer: Vec<u8>,
    /// The number of bytes at the start of the buffer that earlier batches have used.
    start: usize,
    at_end: bool,
    names: Option<Vec<String>>,
    guesses: Vec<Guess>,
    /// The number of columns of the table.
    columns: usize,
    next_row: u64,
    next_line: u64,
}

/// The column names in a header line. A column without a name gets a name from its position.
fn named(header: Vec<Option<String>>) -> Vec<String> {
    let given: Vec<String> = header.into_iter().map(Option::unwrap_or_default).collect();
    let name = |(at, name): (usize, &String)| match name.is_empty() {
        false => name.clone(),
        true => format!("column{}", at + 1),
    };
    given.iter().enumerate().map(name).collect()
}

impl CsvSource {
    pub(super) fn open(input: Input, options: SourceOptions) -> Result<Self, SqlError> {
        let mut source = Self {
            input,
            options,
            buffer: Vec::new(),
            start: 0,
            at_end: false,
            names: None,
            guesses: Vec::new(),
            columns: 0,
            next_row: 1,
            next_line: 1,
        };
        source.fill()?;
        if source.buffer.starts_with(b"\xef\xbb\xbf") {
            source.start = 3;
        }
        if source.options.header {
            let (from, to) = source.record_end(source.start)?.ok_or_else(|| {
                SqlError::local(format!(
                    "{} is empty: the header line is missing",
                    source.input.name
                ))
            })?;
            let header = source.fields(from, to)?;
            source.names = Some(named(header));
            source.next_line += source.line_ends(from, to);
            source.start = to;
        }
        if source.options.infer_rows > 0 {
            source.infer()?;
        }
        Ok(source)
    }

    fn infer(&mut self) -> Result<(), SqlError> {
        let mut at = self.start;
        let mut line = self.next_line;
        for _ in 0..self.options.infer_rows {
            let Some((from, to)) = self.record_end(at)? else { break };
            let fields = self.fields(from, to)?;
            if self.is_blank(from, to) {
                line += 1;
                at = to;
                continue;
            }
            let names = self.names.as_ref().map_or(fields.len(), Vec::len);
            if fields.len() != names {
                return Err(SqlError::of(
                    "22P04",
                    format!("line {line} has {} values for {names} columns", fields.len()),
                ));
            }
            self.guesses.resize_with(names, Guess::default);
            for (field, guess) in fields.iter().zip(&mut self.guesses) {
                if let Some(text) = field {
                    guess.text(text);
                }
            }
            line += self.line_ends(from, to);
            at = to;
        }
        Ok(())
    }

    /// Finds the end of the record that starts at offset `from` of the buffer, and the end of its
    /// line end. Reads more of the input if needed.
    fn record_end(&mut self, from: usize) -> Result<Option<(usize, usize)>, SqlError> {
        let (mut at, mut quoted) = (from, false);
        // The position of the last opening quote, and the position after the last closing quote.
        let (mut opened, mut closed) = (from, None);
        loop {
            let rest = self.buffer.get(at..).unwrap_or_default();
            match memchr::memchr2(b'"', b'\n', rest) {
                Some(offset) if rest.get(offset) == Some(&b'"') => {
                    let found = at + offset;
                    at = found + 1;
                    if quoted {
                        closed = Some(at);
                    } else if closed != Some(found) {
                        // The quote opens a value, unless it is the second half of a doubled quote.
                        opened = found;
                    }
                    quoted = !quoted;
                }
                Some(offset) if quoted => at += offset + 1,
                Some(offset) => return Ok(Some((from, at + offset + 1))),
                None => {
                    at = self.buffer.len();
                    if at - from > RECORD_BYTES_MAX {
                        return Err(SqlError::local(format!(
                            "the record that begins at line {} is longer than {RECORD_BYTES_MAX} bytes: is a quote not closed?",
                            self.line_of(from)
                        )));
                    }
                    if !self.fill()? {
                        if quoted {
                            return Err(self.unterminated(from, opened));
                        }
                        return Ok((from < at).then_some((from, at)));
                    }
                }
            }
        }
    }

    /// Reads more of the input into the buffer; returns `false` at the end of the input.
    fn fill(&mut self) -> Result<bool, SqlError> {
        if self.at_end {
            return Ok(false);
        }
        let length = self.buffer.len();
        let mut more = (&mut self.input).take(READ_BYTES as u64);
        let read = more.read_to_end(&mut self.buffer);
        if let Err(error) = read {
            return Err(self.input.failed(&error));
        }
        self.at_end = self.buffer.len() == length;
        Ok(!self.at_end)
    }

    /// The values of a record, for the header and for inferring types; `None` means NULL.
    fn fields(&self, from: usize, to: usize) -> Result<Vec<Option<String>>, SqlError> {
        let bytes = self.buffer.get(from..to).unwrap_or_default();
        let record = std::str::from_utf8(bytes)
            .map_err(|_| SqlError::of("22021", format!("line {} is not UTF-8", self.next_line)))?;
        let record = record.strip_suffix('\n').unwrap_or(record);
        let record = record.strip_suffix('\r').unwrap_or(record);
        let delimiter = char::from(self.options.delimiter);
        let (mut fields, mut field) = (Vec::new(), String::new());
        let (mut quoted, mut was_quoted) = (false, false);
        let mut characters = record.chars().peekable();
        let mut end_field = |field: &mut String, was_quoted: &mut bool| {
            let text = std::mem::take(field);
            let null = !std::mem::take(was_quoted) && text == self.options.null;
            fields.push((!null).then_some(text));
        };
        while let Some(character) = characters.next() {
            match character {
                '"' if quoted && characters.peek() == Some(&'"') => {
                    characters.next();
                    field.push('"');
                }
                '"' => {
                    quoted = !quoted;
                    was_quoted = true;
                }
                other if other == delimiter && !quoted => end_field(&mut field, &mut was_quoted),
                other => field.push(other),
            }
        }
        end_field(&mut field, &mut was_quoted);
        Ok(fields)
    }

    /// True for an empty line in a table with more than one column; such a line is skipped.
    fn is_blank(&self, from: usize, to: usize) -> bool {
        let columns = self.names.as_ref().map_or(self.guesses.len().max(self.columns), Vec::len);
        let line = self.buffer.get(from..to).unwrap_or_default();
        columns > 1 && matches!(line, b"\n" | b"\r\n" | b"\r" | b"")
    }

    fn unterminated(&self, record: usize, quote: usize) -> SqlError {
        let (record, quote) = (self.line_of(record), self.line_of(quote));
        SqlError {
            detail: Some(unterminated_detail(record, quote).into()),
            context: Some(format!("{}, line {quote}", self.input.name).into()),
            ..SqlError::of("22P04", "unterminated CSV quoted field")
        }
        .with_hint(UNTERMINATED_HINT)
    }

    /// The line number in the input of the byte at offset `at` of the buffer.
    fn line_of(&self, at: usize) -> u64 {
        self.next_line + self.line_ends(self.start, at)
    }

    fn line_ends(&self, from: usize, to: usize) -> u64 {
        memchr::memchr_iter(b'\n', self.buffer.get(from..to).unwrap_or_default()).count() as u64
    }
}

impl Source for CsvSource {
    fn columns(&self) -> Result<Vec<ResultColumn>, SqlError> {
        let mut guesses = self.guesses.clone();
        guesses.resize_with(self.names.as_ref().map_or(guesses.len(), Vec::len), Guess::default);
        let names: Vec<String> = match &self.names {
            Some(names) => names.clone(),
            None => (1..=guesses.len()).map(|at| format!("column{at}")).collect(),
        };
        let columns = names.into_iter().zip(&guesses);
        Ok(columns
            .map(|(name, guess)| ResultColumn { name, column_type: guess.column_type() })
            .collect())
    }

    fn odd_times(&self) -> Vec<(String, String)> {
        let named = self.names.iter().flatten().zip(&self.guesses);
        named
            .filter_map(|(name, guess)| Some((name.clone(), guess.odd_time()?.to_string())))
            .collect()
    }

    fn bind(&mut self, table: &[ResultColumn]) -> Result<(), SqlError> {
        self.columns = table.len();
        let unknown = self
            .names
            .iter()
            .flatten()
            .find(|name| !table.iter().any(|column| column.name == **name));
        match unknown {
            None => Ok(()),
            Some(name) => Err(SqlError {
                sqlstate: "42703".into(),
                hint: Some(
                    "the first line must name the columns; if the first line contains data, give --no-header".into(),
                ),
                ..SqlError::local(format!(
                    "column \"{name}\" of the header is not a column of the table"
                ))
            }),
        }
    }

    fn names(&self) -> Option<Vec<String>> {
        self.names.clone()
    }

    fn copy_options(&self) -> String {
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let delimiter = match self.options.delimiter {
            b'\t' => "E'\\t'".to_string(),
            other => text(&char::from(other).to_string()),
        };
        format!("FORMAT csv, DELIMITER {delimiter}, NULL {}", text(&self.options.null))
    }

    fn next_batch(&mut self, rows_max: u64) -> Result<Option<Batch>, SqlError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let (mut rows, mut end, mut line) = (0, 0, self.next_line);
        // The byte ranges of blank lines to skip; and, if there are any, the line number of each
        // record.
        let (mut blank, mut at) = (Vec::new(), Vec::new());
        while rows < rows_max {
            let Some((from, to)) = self.record_end(end)? else { break };
            let lines = self.line_ends(from, to).max(1);
            if self.is_blank(from, to) {
                if blank.is_empty() {
                    at.extend(self.next_line..line);
                }
                blank.push(from..to);
            } else {
                rows += 1;
                if !blank.is_empty() {
                    at.extend(line..line + lines);
                }
            }
            line += lines;
            end = to;
        }
        if rows == 0 {
            return Ok(None);
        }
        // The last line may lack a line end; COPY accepts this.
        let mut bytes = Vec::with_capacity(end);
        let mut kept = 0;
        for left_out in blank.iter().chain([&(end..end)]) {
            bytes.extend_from_slice(self.buffer.get(kept..left_out.start).unwrap_or_default());
            kept = left_out.end;
        }
        let lines = match blank.is_empty() {
            true => Lines::From { noun: "line", first: self.next_line },
            false => Lines::At(at),
        };
        let batch = Batch {
            bytes,
            first_row: self.next_row,
            rows,
            lines,
            end: self.input.position().saturating_sub((self.buffer.len() - end) as u64),
        };
        self.next_row += rows;
        self.next_line = line;
        self.start = end;
        Ok(Some(batch))
    }

    fn size(&self) -> Size {
        self.input.size()
    }
}
