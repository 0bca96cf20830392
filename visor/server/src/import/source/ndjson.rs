//! Converts NDJSON to lines in COPY's text format, in the order of the table's columns.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader},
};

use serde_json::{Map, Value};
use stratalog_model::ColumnType;

use super::{Batch, Input, Lines, Size, Source, SourceOptions, members};
use crate::{
    import::infer::Guess,
    sql::{error::SqlError, rows::ResultColumn},
};

/// Maximum bytes of a line.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// An object with the texts of its values. The parsed object alone has lost the order of its names,
/// and some digits of its numbers.
struct Object {
    values: Map<String, Value>,
    texts: HashMap<String, (usize, String)>,
}

impl Object {
    fn of(values: Map<String, Value>, line: &[u8]) -> Self {
        let line = String::from_utf8_lossy(line);
        let named = members::parts(&line).into_iter().filter_map(members::named);
        let placed = named.enumerate().map(|(at, (name, text))| (name, (at, text.to_string())));
        Self { values, texts: placed.collect() }
    }

    /// The names of the members, in the order of the line.
    fn names(&self) -> Vec<&String> {
        let mut names: Vec<&String> = self.values.keys().collect();
        names.sort_by_key(|name| self.texts.get(*name).map(|(at, _)| *at));
        names
    }

    /// The text of a value as it was in the line.
    fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("null", |(_, text)| text.as_str())
    }
}

/// An input that has one JSON object per line; blank lines are skipped.
pub(super) struct NdjsonSource {
    input: BufReader<Input>,
    /// Objects that were already read to infer types, with their line numbers.
    sampled: std::vec::IntoIter<(u64, Object)>,
    guesses: Vec<(String, Guess)>,
    table: Vec<ResultColumn>,
    line: u64,
    next_row: u64,
}

impl NdjsonSource {
    pub(super) fn open(input: Input, options: &SourceOptions) -> Result<Self, SqlError> {
        let mut source = Self {
            input: BufReader::with_capacity(1 << 20, input),
            sampled: Vec::new().into_iter(),
            guesses: Vec::new(),
            table: Vec::new(),
            line: 0,
            next_row: 1,
        };
        let mut objects = Vec::new();
        while objects.len() < options.infer_rows {
            let Some((line, object)) = source.read()? else { break };
            for name in object.names() {
                let Some(value) = object.values.get(name) else { continue };
                let guess = match source.guesses.iter_mut().find(|(known, _)| known == name) {
                    Some((_, guess)) => guess,
                    None => {
                        source.guesses.push((name.clone(), Guess::default()));
                        match source.guesses.last_mut() {
                            Some((_, guess)) => guess,
                            None => continue,
                        }
                    }
                };
                guess.json(value, object.text(name));
            }
            objects.push((line, object));
        }
        source.sampled = objects.into_iter();
        Ok(source)
    }

    fn read(&mut self) -> Result<Option<(u64, Object)>, SqlError> {
        let mut text = Vec::new();
        loop {
            text.clear();
            let mut limited = std::io::Read::take(&mut self.input, LINE_BYTES_MAX);
            match limited.read_until(b'\n', &mut text) {
                Ok(0) => return Ok(None),
                Ok(_) => self.line += 1,
                Err(error) => return Err(self.input.get_ref().failed(&error)),
            }
            let bad =
                |reason: String| SqlError::of("22P02", format!("line {}: {reason}", self.line));
            if text.len() as u64 == LINE_BYTES_MAX {
                return Err(bad(format!("longer than {LINE_BYTES_MAX} bytes")));
            }
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return match serde_json::from_slice(&text) {
                Ok(Value::Object(values)) => Ok(Some((self.line, Object::of(values, &text)))),
                Ok(_) => Err(bad("not a JSON object".to_string())),
                Err(error) => Err(bad(format!("not JSON: {error}"))),
            };
        }
    }

    fn next(&mut self) -> Result<Option<(u64, Object)>, SqlError> {
        match self.sampled.next() {
            Some(found) => Ok(Some(found)),
            None => self.read(),
        }
    }

    fn write(&self, line: u64, object: &Object, bytes: &mut Vec<u8>) -> Result<(), SqlError> {
        if let Some(name) =
            object.values.keys().find(|name| !self.table.iter().any(|column| column.name == **name))
        {
            return Err(SqlError {
                sqlstate: "42703".into(),
                hint: Some("add the column with ALTER TABLE … ADD COLUMN, or drop the table and read more rows to find the types (--create --infer-rows)".into()),
                ..SqlError::local(format!("line {line}, key \"{name}\": the table has no column of this name"))
            });
        }
        for (at, column) in self.table.iter().enumerate() {
            if at > 0 {
                bytes.push(b'\t');
            }
            match object.values.get(&column.name) {
                None | Some(Value::Null) => bytes.extend_from_slice(b"\\N"),
                Some(value) => {
                    let text = object.text(&column.name);
                    escape(&text_of(value, text, &column.column_type), bytes);
                }
            }
        }
        bytes.push(b'\n');
        Ok(())
    }
}

impl Source for NdjsonSource {
    fn columns(&self) -> Result<Vec<ResultColumn>, SqlError> {
        if self.guesses.is_empty() {
            return Err(SqlError::local(format!(
                "{} contains no object, so a table cannot be created from it",
                self.input.get_ref().name
            )));
        }
        let guesses = self.guesses.iter();
        Ok(guesses
            .map(|(name, guess)| ResultColumn {
                name: name.clone(),
                column_type: guess.column_type(),
            })
            .collect())
    }

    fn bind(&mut self, table: &[ResultColumn]) -> Result<(), SqlError> {
        self.table = table.to_vec();
        Ok(())
    }

    fn names(&self) -> Option<Vec<String>> {
        Some(self.table.iter().map(|column| column.name.clone()).collect())
    }

    fn copy_options(&self) -> String {
        "FORMAT text".to_string()
    }

    fn next_batch(&mut self, rows_max: u64) -> Result<Option<Batch>, SqlError> {
        let (mut bytes, mut lines) = (Vec::new(), Vec::new());
        while (lines.len() as u64) < rows_max {
            let Some((line, object)) = self.next()? else { break };
            self.write(line, &object, &mut bytes)?;
            lines.push(line);
        }
        if lines.is_empty() {
            return Ok(None);
        }
        let rows = lines.len() as u64;
        let first_row = self.next_row;
        self.next_row += rows;
        let unread = self.input.buffer().len() as u64;
        let end = self.input.get_ref().position().saturating_sub(unread);
        Ok(Some(Batch { bytes, first_row, rows, lines: Lines::At(lines), end }))
    }

    fn size(&self) -> Size {
        self.input.get_ref().size()
    }
}

/// The text of a value for a column of type `column_type`. `written` is the text of the value in
/// the input.
fn text_of(value: &Value, written: &str, column_type: &ColumnType) -> String {
    match (value, column_type) {
        (_, ColumnType::Jsonb) => written.to_string(),
        (Value::String(text), _) => text.clone(),
        (Value::Array(items), ColumnType::Array(element)) => {
            let items: Vec<String> = items
                .iter()
                .zip(members::parts(written))
                .map(|(item, written)| match item {
                    Value::Null => "NULL".to_string(),
                    item => {
                        let text = text_of(item, written, element);
                        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
                    }
                })
                .collect();
            format!("{{{}}}", items.join(","))
        }
        _ => written.to_string(),
    }
}

/// Appends a value to `bytes`, escaped for COPY's text format.
pub(super) fn escape(text: &str, bytes: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'\\' => bytes.extend_from_slice(b"\\\\"),
            b'\n' => bytes.extend_from_slice(b"\\n"),
            b'\r' => bytes.extend_from_slice(b"\\r"),
            b'\t' => bytes.extend_from_slice(b"\\t"),
            other => bytes.push(other),
        }
    }
}
