//! The slow path of the parser: lines with new names, escapes, unusual syntax or errors.

use stratalog_model::{Error, ErrorKind, Result};

use super::{
    LineParser,
    escape::{Part, closing_quote, name_end, unescape},
    fast::boolean,
    line_number,
    number::{Number, Timestamp, number, timestamp},
};
use crate::{
    FieldValue, Row, SeriesNumber, Tables,
    fault::{excerpt, excerpt_bytes},
    name::check_text,
};

const MALFORMED: ErrorKind = ErrorKind::BadCopyFormat;

/// The bytes that end a series, if they are not escaped.
const SERIES_ENDS: &[u8] = b" \t\n";
/// The bytes that end a measurement or a value, if they are not escaped.
const VALUE_ENDS: &[u8] = b", \t\n";
/// The bytes that end a key, if they are not escaped.
const KEY_ENDS: &[u8] = b"=, \t\n";

impl LineParser {
    /// Reads a line of any syntax. `line` has neither leading spaces nor a newline.
    pub(super) fn any_line(&mut self, line: &[u8], tables: &dyn Tables) -> Result<()> {
        check_utf8(line)?;
        self.rows.mark();
        let read = self.any_row(line, tables);
        if read.is_err() {
            self.rows.retract();
        }
        read
    }

    fn any_row(&mut self, line: &[u8], tables: &dyn Tables) -> Result<()> {
        let (series, mut at) = self.series(line)?;
        let mut row = self.rows.row(series, tables)?;
        loop {
            at = field(&mut row, line, at, &mut self.scratch)?;
            match line.get(at) {
                Some(b',') => at += 1,
                _ => break,
            }
        }
        let spaces = spaces_from(line, at);
        let tick_ns = match line.get(at + spaces) {
            None => {
                let now = self.now_ns.checked_add(self.without_timestamp);
                let now = now.ok_or_else(|| out_of_range("of the request", "nanoseconds"))?;
                row.commit_undated(now, line_number(self.line + 1))?;
                self.without_timestamp += 1;
                return Ok(());
            }
            Some(_) if spaces == 0 => return Err(behind_value(line, at)),
            Some(_) => {
                let raw = line.get(at + spaces..).unwrap_or_default();
                match timestamp(line, at + spaces) {
                    Timestamp::Is(value, end) if end + spaces_from(line, end) == line.len() => {
                        let ns = self.precision.to_ns(value);
                        ns.ok_or_else(|| out_of_range(&value.to_string(), self.precision.name()))?
                    }
                    Timestamp::OutOfRange => {
                        return Err(out_of_range(&excerpt_bytes(raw), self.precision.name()));
                    }
                    _ => {
                        return Err(Error::new(
                            MALFORMED,
                            format!(
                                "\"{}\" at byte {} is not a timestamp",
                                excerpt_bytes(raw),
                                at + spaces + 1
                            ),
                        )
                        .with_hint(
                            "write a whole number or no timestamp, and a backslash before each space in a name or tag",
                        ));
                    }
                }
            }
        };
        row.commit(tick_ns, line_number(self.line + 1))
    }

    /// Reads the series of a line. Returns the series and the position at which the fields begin.
    fn series(&mut self, line: &[u8]) -> Result<(SeriesNumber, usize)> {
        let end = name_end(line, 0, SERIES_ENDS);
        let spaces = spaces_from(line, end);
        let identity = line.get(..end).unwrap_or_default();
        let fields = spaces > 0 && end + spaces < line.len();
        if fields && let Some(known) = self.rows.find(identity) {
            return Ok((known, end + spaces));
        }
        let mut at = name_end(line, 0, VALUE_ENDS);
        let raw = line.get(..at).unwrap_or_default();
        if raw.is_empty() {
            return Err(Error::new(MALFORMED, "the line has no measurement before the comma")
                .with_hint("write the name of the measurement at the beginning of the line"));
        }
        let measurement = name(Part::Measurement, "measurement", raw)?;
        let mut tags = Vec::new();
        while line.get(at) == Some(&b',') {
            let (key, value, end) = tag(line, at + 1)?;
            tags.push((key, value));
            at = end;
        }
        if at < line.len() && spaces == 0 {
            return Err(stray(
                line,
                at,
                "to make the character part of the name, write a backslash before the character",
            ));
        }
        if at + spaces >= line.len() {
            return Err(Error::new(
                MALFORMED,
                format!("the line of measurement \"{}\" has no fields", excerpt(&measurement)),
            )
            .with_hint("write a space and a field behind the tags, value=1"));
        }
        let tags: Vec<_> = tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        Ok((self.rows.intern(identity, &measurement, &tags)?, at + spaces))
    }
}

/// Reads the tag at `start`. Returns its name, its value, and the position after the tag.
fn tag(line: &[u8], start: usize) -> Result<(String, String, usize)> {
    let equals = name_end(line, start, KEY_ENDS);
    let raw = line.get(start..equals).unwrap_or_default();
    if raw.is_empty() || line.get(equals) != Some(&b'=') {
        let what = if raw.is_empty() {
            format!("a tag is missing at byte {}", start + 1)
        } else {
            format!("tag \"{}\" at byte {} has no value", excerpt_bytes(raw), start + 1)
        };
        return Err(Error::new(MALFORMED, what).with_hint(
            "write tags as name=value, and a backslash before each comma, space and = within",
        ));
    }
    let key = name(Part::Name, "tag", raw)?;
    let end = name_end(line, equals + 1, VALUE_ENDS);
    let raw = line.get(equals + 1..end).unwrap_or_default();
    if raw.is_empty() {
        return Err(Error::new(MALFORMED, format!("tag \"{}\" has no value", excerpt(&key)))
            .with_hint("omit a tag without a value"));
    }
    let value = name(Part::Name, "the value of tag", raw)?;
    Ok((key, value, end))
}

/// Adds the field at `start` to the row; returns the position after the field.
fn field(row: &mut Row<'_>, line: &[u8], start: usize, scratch: &mut Vec<u8>) -> Result<usize> {
    let equals = name_end(line, start, KEY_ENDS);
    let raw = line.get(start..equals).unwrap_or_default();
    if raw.is_empty() || line.get(equals) != Some(&b'=') {
        let what = if raw.is_empty() {
            format!("a field is missing at byte {}", start + 1)
        } else {
            format!("field \"{}\" at byte {} has no value", excerpt_bytes(raw), start + 1)
        };
        return Err(Error::new(MALFORMED, what).with_hint(
            "write fields as name=value, and a backslash before each comma, space and = in a name",
        ));
    }
    let key = name(Part::Name, "field", raw)?;
    let label = line.get(start..=equals).unwrap_or_default();
    let start = equals + 1;
    let (value, end) = match number(line, start) {
        Number::Is(value, end) => (value, end),
        Number::OutOfRange => {
            let raw = line.get(start..name_end(line, start, VALUE_ENDS)).unwrap_or_default();
            return Err(Error::new(
                ErrorKind::NumericOutOfRange,
                format!("field \"{}\": {} is out of range", excerpt(&key), excerpt_bytes(raw)),
            )
            .with_hint("integers have 64 bits, and floats are finite"));
        }
        Number::Not if line.get(start) == Some(&b'"') => {
            let Some((end, _)) = closing_quote(line, start + 1) else {
                return Err(unclosed(&key, line, start));
            };
            scratch.clear();
            unescape(Part::Text, line.get(start + 1..end).unwrap_or_default(), scratch);
            let text = std::str::from_utf8(scratch)
                .map_err(|_| Error::internal("a string was cut within a character"))?;
            check_text("the string of field", text)?;
            row.push_labelled(&key, label, FieldValue::Text(text))?;
            return Ok(end + 1);
        }
        Number::Not => match boolean(line, start) {
            Some((value, end)) => (FieldValue::Boolean(value), end),
            None => return Err(no_value(&key, line, start)),
        },
    };
    if !matches!(line.get(end), None | Some(b',' | b' ')) {
        return Err(no_value(&key, line, start));
    }
    row.push_labelled(&key, label, value)?;
    Ok(end)
}

/// Unescapes a name or the value of a tag, and checks the result.
fn name(part: Part, what: &str, raw: &[u8]) -> Result<String> {
    let mut bytes = Vec::with_capacity(raw.len());
    unescape(part, raw, &mut bytes);
    let name = String::from_utf8(bytes)
        .map_err(|_| Error::internal("a name was cut within a character"))?;
    if name.ends_with('\\') {
        return Err(Error::new(
            MALFORMED,
            format!("{what} \"{}\" ends with a backslash", excerpt(&name)),
        )
        .with_hint("use another last character: a backslash escapes the next character"));
    }
    Ok(name)
}

fn spaces_from(line: &[u8], at: usize) -> usize {
    line.get(at..).unwrap_or_default().iter().take_while(|byte| **byte == b' ').count()
}

fn check_utf8(line: &[u8]) -> Result<()> {
    if simdutf8::basic::from_utf8(line).is_ok() {
        return Ok(());
    }
    let valid = std::str::from_utf8(line).err().map_or(0, |error| error.valid_up_to());
    if let Some(error) = binary_value(line, valid) {
        return Err(error);
    }
    let byte = line.get(valid).copied().unwrap_or(0);
    Err(Error::new(
        ErrorKind::InvalidEncoding,
        format!("byte {} of the line, 0x{byte:02x}, is not valid UTF-8", valid + 1),
    )
    .with_hint("send text as UTF-8"))
}

/// The error for a binary value of QuestDB's protocol before the byte at `end`: `field==`, a byte
/// 0x10, and the eight bytes of a double. QuestDB's binary arrays never come here, because their
/// second byte is a newline.
fn binary_value(line: &[u8], end: usize) -> Option<Error> {
    let text = line.get(..end)?;
    let equals = text.windows(3).position(|part| part == b"==\x10")?;
    let name = text.get(..equals)?.rsplit(|byte| matches!(byte, b',' | b' ')).next()?;
    Some(no_value(&String::from_utf8_lossy(name), line, equals + 1))
}

/// The error for a character that is not allowed at position `at`.
fn stray(line: &[u8], at: usize, hint: &str) -> Error {
    let what = match line.get(at) {
        Some(b'\t') => "a tab",
        Some(b'\n') => "a newline",
        _ => "a character",
    };
    Error::new(MALFORMED, format!("{what} at byte {} is out of place", at + 1)).with_hint(hint)
}

fn no_value(field: &str, line: &[u8], start: usize) -> Error {
    let end = name_end(line, start, VALUE_ENDS);
    let raw = line.get(start..end).unwrap_or_default();
    let message = if raw.is_empty() {
        format!("field \"{}\" has no value", excerpt(field))
    } else {
        format!(
            "field \"{}\": {} at byte {} is not a value",
            excerpt(field),
            excerpt_bytes(raw),
            start + 1
        )
    };
    Error::new(MALFORMED, message).with_hint(value_hint(raw))
}

/// The hint in the error for an invalid value, with a special hint for syntax that only QuestDB's
/// clients write.
fn value_hint(raw: &[u8]) -> &'static str {
    let digits = raw.strip_prefix(b"-").unwrap_or(raw);
    match digits.split_last() {
        _ if raw.first() == Some(&b'=') => {
            "binary values of QuestDB's protocol version 2 are not offered: set protocol_version=1 in the client"
        }
        Some((b't' | b'n', rest)) if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => {
            "fields of type timestamp are not offered: send an integer, 1i, or a string"
        }
        _ => "values are written as 1.5, 1i, 1u, true or \"text\"",
    }
}

fn behind_value(line: &[u8], at: usize) -> Error {
    let raw = line.get(at..).unwrap_or_default();
    Error::new(MALFORMED, format!("\"{}\" at byte {} follows a value", excerpt_bytes(raw), at + 1))
        .with_hint("write a comma and the next field, or a space and the timestamp")
}

fn unclosed(field: &str, line: &[u8], start: usize) -> Error {
    let rest = line.get(start..).unwrap_or_default();
    let newlines = memchr::memchr_iter(b'\n', rest.strip_suffix(b"\n").unwrap_or(rest)).count();
    let swallowed = match newlines {
        0 => String::new(),
        1 => ", and continues over the next line".to_string(),
        _ => format!(", and continues over the next {newlines} lines"),
    };
    Error::new(
        MALFORMED,
        format!("the string of field \"{}\" has no closing quote{swallowed}", excerpt(field)),
    )
    .with_hint("close the string; write a quote within a string as \\\"")
}

fn out_of_range(timestamp: &str, unit: &str) -> Error {
    Error::new(
        ErrorKind::DatetimeOverflow,
        format!("timestamp {timestamp} in {unit} is out of range"),
    )
    .with_hint(
        "timestamps must be from 1677 to 2262; give the unit as the precision of the request",
    )
}
