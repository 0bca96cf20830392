//! The fast path of the parser: reads lines with ordinary syntax whose series and fields are in the
//! cache.

use memchr::{memchr, memchr2};

use super::{
    LineParser,
    escape::{Part, closing_quote, unescape},
    line_number, newlines_in,
    number::{Number, Timestamp, number, timestamp},
};
use crate::{FieldValue, Row, SeriesNumber, Tables};

/// Maximal bytes of a field's name that the fast path looks up. The bytes of escapes count.
const LABEL_BYTES_MAX: usize = 128;

/// The number of tags of a series that fit on the stack. More tags need an allocation.
const TAGS_EXPECTED: usize = 16;

/// The part of the line that follows a value, as its separator shows.
enum After {
    Field,
    Timestamp,
    End,
}

impl LineParser {
    /// Reads the line at `start`, if the line is valid, the cache contains its fields, and its
    /// series is in the cache or has no escapes. Returns the start of the next line. If the result
    /// is `None`, nothing has changed, and the slow path must read the line.
    #[inline]
    pub(super) fn plain_line(
        &mut self,
        data: &[u8],
        start: usize,
        tables: &dyn Tables,
    ) -> Option<usize> {
        self.rows.mark();
        let end = self.plain_row(data, start, tables);
        if end.is_none() {
            self.rows.retract();
        }
        end
    }

    #[inline]
    fn plain_row(&mut self, data: &[u8], start: usize, tables: &dyn Tables) -> Option<usize> {
        let (series, length) = self.known_series(data.get(start..)?)?;
        let mut row = self.rows.row(series, tables).ok()?;
        let mut at = start + length + 1;
        let mut newlines = 0;
        let (end, tick) = loop {
            at = known_field(&mut row, data, at, &mut self.scratch, &mut newlines)?;
            match after(data, at)? {
                (After::Field, next) => at = next,
                (After::End, next) => break (next, None),
                (After::Timestamp, next) => match timestamp(data, next) {
                    Timestamp::Is(value, behind) => match after(data, behind)? {
                        (After::End, next) => break (next, Some(value)),
                        _ => return None,
                    },
                    _ => return None,
                },
            }
        };
        // The newline does not count as part of the line.
        if end - start > self.limits.line_bytes_max + 1 {
            return None;
        }
        let line = line_number(self.line + 1);
        match tick {
            Some(tick) => row.commit(self.precision.to_ns(tick)?, line).ok()?,
            None => {
                let now = self.now_ns.checked_add(self.without_timestamp)?;
                row.commit_undated(now, line).ok()?;
                self.without_timestamp += 1;
            }
        }
        self.lines_ok += 1;
        self.line += 1 + newlines;
        Some(end)
    }

    /// Finds the series at the beginning of a line. Returns the series and the length of its
    /// identity, the bytes before the first space.
    #[inline]
    fn known_series(&mut self, rest: &[u8]) -> Option<(SeriesNumber, usize)> {
        let generation = self.rows.series.generation;
        if let Some((number, length)) = self.rows.series.expected_next(rest) {
            return Some((SeriesNumber { number, generation }, length));
        }
        let length = memchr2(b' ', b'\n', rest)?;
        let identity = rest.get(..length)?;
        // A space is escaped only by a backslash directly before it.
        if identity.last().is_none_or(|last| *last == b'\\') || rest.get(length) != Some(&b' ') {
            return None;
        }
        match self.rows.series.find(identity) {
            Some(number) => Some((SeriesNumber { number, generation }, length)),
            None => Some((self.plain_series(identity)?, length)),
        }
    }

    /// Adds a new series without escapes to the cache. `None` if the series has escapes, unusual
    /// syntax or an error.
    fn plain_series(&mut self, identity: &[u8]) -> Option<SeriesNumber> {
        let odd = |byte: &u8| matches!(byte, b'\\' | b'\t' | b'\0');
        if identity.iter().any(odd) || identity.first() == Some(&b'#') {
            return None;
        }
        let mut parts = simdutf8::basic::from_utf8(identity).ok()?.split(',');
        let measurement = parts.next()?;
        let mut tags = Vec::with_capacity(TAGS_EXPECTED);
        for part in parts {
            let (key, value) = part.split_once('=')?;
            if key.is_empty() || value.is_empty() {
                return None;
            }
            tags.push((key, value));
        }
        self.rows.intern(identity, measurement, &tags).ok()
    }
}

/// Reads a field whose column is known. Returns the position after the value.
#[inline]
fn known_field(
    row: &mut Row<'_>,
    data: &[u8],
    at: usize,
    scratch: &mut Vec<u8>,
    newlines: &mut u64,
) -> Option<usize> {
    let rest = data.get(at..)?;
    let (column, length) = match row.expected_next(rest) {
        Some(expected) => expected,
        None => found_field(row, rest)?,
    };
    let start = at + length;
    match number(data, start) {
        Number::Is(FieldValue::Integer(value), end) => {
            row.push_integer(column, value)?;
            Some(end)
        }
        Number::Is(FieldValue::Float(value), end) => {
            row.push_float(column, value)?;
            Some(end)
        }
        Number::Is(value, end) => {
            row.push_value(column, value)?;
            Some(end)
        }
        Number::OutOfRange => None,
        Number::Not if data.get(start) == Some(&b'"') => {
            known_text(row, column, data, start + 1, scratch, newlines)
        }
        Number::Not => {
            let (value, end) = boolean(data, start)?;
            row.push_value(column, FieldValue::Boolean(value))?;
            Some(end)
        }
    }
}

/// Finds the column of the field at the start of `rest` by name, if the expected column does not
/// match. Returns the column's number and the length of the label.
fn found_field(row: &mut Row<'_>, rest: &[u8]) -> Option<(u32, usize)> {
    let head = rest.get(..LABEL_BYTES_MAX).unwrap_or(rest);
    let length = memchr(b'=', head)?;
    let name = head.get(..length)?;
    let odd = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b',' | b'\\');
    if name.iter().any(odd) {
        return None;
    }
    Some((row.find(name)?, length + 1))
}

/// Reads the string at `start` into the row. Returns the position after the closing quote.
#[inline]
fn known_text(
    row: &mut Row<'_>,
    column: u32,
    data: &[u8],
    start: usize,
    scratch: &mut Vec<u8>,
    newlines: &mut u64,
) -> Option<usize> {
    let (end, escapes) = closing_quote(data, start)?;
    let mut raw = data.get(start..end)?;
    if escapes {
        scratch.clear();
        unescape(Part::Text, raw, scratch);
        raw = scratch;
    }
    let text = simdutf8::basic::from_utf8(raw).ok()?;
    if memchr2(0, b'\n', raw).is_some() {
        if memchr(0, raw).is_some() {
            return None;
        }
        *newlines += newlines_in(raw);
    }
    row.push_value(column, FieldValue::Text(text))?;
    Some(end + 1)
}

/// Reads the boolean at `start`. Returns its value and the position after it.
pub(super) fn boolean(data: &[u8], start: usize) -> Option<(bool, usize)> {
    let rest = data.get(start..)?;
    for (word, value) in [
        (&b"true"[..], true),
        (b"True", true),
        (b"TRUE", true),
        (b"t", true),
        (b"T", true),
        (b"false", false),
        (b"False", false),
        (b"FALSE", false),
        (b"f", false),
        (b"F", false),
    ] {
        if rest.starts_with(word) {
            return Some((value, start + word.len()));
        }
    }
    None
}

/// Reads the separator at `at`. Returns what follows, and the position after the separator.
#[inline(always)]
fn after(data: &[u8], at: usize) -> Option<(After, usize)> {
    match data.get(at)? {
        b',' => Some((After::Field, at + 1)),
        b'\n' => Some((After::End, at + 1)),
        b'\r' if data.get(at + 1) == Some(&b'\n') => Some((After::End, at + 2)),
        b' ' => {
            let mut at = at + 1;
            while data.get(at) == Some(&b' ') {
                at += 1;
            }
            match data.get(at)? {
                b'\n' => Some((After::End, at + 1)),
                b'\r' if data.get(at + 1) == Some(&b'\n') => Some((After::End, at + 2)),
                _ => Some((After::Timestamp, at)),
            }
        }
        _ => None,
    }
}
