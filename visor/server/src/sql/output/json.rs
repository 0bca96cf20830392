//! The output formats JSON (an array of objects) and NDJSON (one object per line).

use std::io;

use stratalog_model::ColumnType;

use super::{Output, Target};
use crate::sql::rows::{ResultColumn, TextRows};

/// Writes rows as objects whose keys are the column names. Numbers, booleans, arrays and jsonb keep
/// their JSON type; all other values become SQL text.
pub(super) struct JsonOutput {
    target: Target,
    array: bool,
    columns: Vec<(String, ColumnType)>,
    rows: u64,
    line: String,
}

impl JsonOutput {
    pub(super) fn array(target: Target) -> Self {
        Self { target, array: true, columns: Vec::new(), rows: 0, line: String::new() }
    }

    pub(super) fn lines(target: Target) -> Self {
        Self { array: false, ..Self::array(target) }
    }
}

impl Output for JsonOutput {
    fn columns(&mut self, columns: &[ResultColumn]) -> io::Result<()> {
        self.columns = columns
            .iter()
            .map(|column| (quoted(&column.name), column.column_type.clone()))
            .collect();
        if self.array { self.target.write_all(b"[") } else { Ok(()) }
    }

    fn rows(&mut self, rows: &TextRows) -> io::Result<()> {
        for row in rows.iter() {
            self.line.clear();
            if self.array {
                self.line.push_str(if self.rows > 0 { ",\n " } else { "" });
            }
            self.line.push('{');
            for (at, (value, (name, column_type))) in row.zip(&self.columns).enumerate() {
                if at > 0 {
                    self.line.push(',');
                }
                self.line.push_str(name);
                self.line.push(':');
                write_value(&mut self.line, value, column_type);
            }
            self.line.push('}');
            if !self.array {
                self.line.push('\n');
            }
            self.rows = self.rows.saturating_add(1);
            self.target.write_all(self.line.as_bytes())?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        if self.array {
            self.target.write_all(b"]\n")?;
        }
        self.target.flush()
    }
}

fn write_value(line: &mut String, value: Option<&str>, column_type: &ColumnType) {
    let Some(value) = value else {
        line.push_str("null");
        return;
    };
    match column_type {
        ColumnType::Boolean if matches!(value, "t" | "true") => line.push_str("true"),
        ColumnType::Boolean if matches!(value, "f" | "false") => line.push_str("false"),
        ColumnType::SmallInt
        | ColumnType::Integer
        | ColumnType::BigInt
        | ColumnType::Real
        | ColumnType::Double
        | ColumnType::Numeric { .. }
            // NaN and the infinities become strings, because JSON has no such numbers.
            if value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) =>
        {
            line.push_str(value);
        }
        ColumnType::Jsonb => line.push_str(value),
        ColumnType::Array(element) => match array_items(value) {
            Some(items) => {
                line.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        line.push(',');
                    }
                    write_value(line, item.as_deref(), element);
                }
                line.push(']');
            }
            None => line.push_str(&quoted(value)),
        },
        _ => line.push_str(&quoted(value)),
    }
}

/// The items of an array in PostgreSQL's text format, for example `{1,NULL,"a b"}`; `None` for
/// other text.
fn array_items(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    if inner.is_empty() {
        return Some(items);
    }
    let mut characters = inner.chars();
    loop {
        let (mut item, mut was_quoted, mut inside) = (String::new(), false, false);
        let more = loop {
            match characters.next() {
                None if inside => return None,
                None => break false,
                Some('\\') => item.push(characters.next()?),
                Some('"') => {
                    inside = !inside;
                    was_quoted = true;
                }
                Some(',') if !inside => break true,
                Some(other) => item.push(other),
            }
        };
        items.push((was_quoted || !item.eq_ignore_ascii_case("null")).then_some(item));
        if !more {
            return Some(items);
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
