//! Splits COPY data into records (lines), and each record into fields.

use memchr::{memchr, memchr2, memrchr};
use stratalog_model::{Error, ErrorKind, Result};

use super::{CopyFormat, CopyOptions};

/// Finds the newline that ends a record. The record may span several chunks; each byte is scanned
/// only once.
#[derive(Debug, Default)]
pub(super) struct Boundary {
    /// The number of bytes of the current record that were already scanned.
    scanned: usize,
    in_quotes: bool,
    escaped: bool,
    /// The position of the quote that opened the last quoted value.
    quote: usize,
    /// The position after the last quote that closed a value.
    closed: Option<usize>,
}

impl Boundary {
    /// The position of the newline that ends the record. `data` begins with the first byte of the
    /// record. If the result is `None`, the caller must call the method again with the same bytes
    /// and further bytes.
    #[inline]
    pub(super) fn find(&mut self, data: &[u8], options: &CopyOptions) -> Option<usize> {
        let found = match options.format {
            CopyFormat::Text => self.find_text(data),
            CopyFormat::Csv => self.find_csv(data, options),
        };
        match found {
            Some(_) => *self = Self::default(),
            None => self.scanned = data.len(),
        }
        found
    }

    /// The position of the opening quote if the scanned bytes end within a quoted value; otherwise
    /// `None`.
    pub(super) fn open_quote(&self) -> Option<usize> {
        self.in_quotes.then_some(self.quote)
    }

    #[inline]
    fn find_text(&mut self, data: &[u8]) -> Option<usize> {
        let mut from = self.scanned;
        loop {
            let newline = from + memchr(b'\n', data.get(from..)?)?;
            // A newline after an odd number of backslashes is part of the data.
            let head = data.get(..newline)?;
            let slashes = head.iter().rev().take_while(|byte| **byte == b'\\').count();
            if slashes % 2 == 0 {
                return Some(newline);
            }
            from = newline + 1;
        }
    }

    #[inline]
    fn find_csv(&mut self, data: &[u8], options: &CopyOptions) -> Option<usize> {
        let mut at = self.scanned;
        loop {
            let rest = data.get(at..)?;
            if !self.in_quotes {
                at += memchr2(b'\n', options.quote, rest)?;
                if data.get(at) == Some(&b'\n') {
                    return Some(at);
                }
                // If a quote directly follows a closing quote, the two are a doubled quote, and the
                // quoted value continues.
                if self.closed != Some(at) {
                    self.quote = at;
                }
                self.in_quotes = true;
                self.escaped = false;
                at += 1;
            } else if options.escape == options.quote {
                // A doubled quote may be treated as the end of one quoted value and the start of
                // the next, with the same result.
                at += memchr(options.quote, rest)? + 1;
                self.in_quotes = false;
                self.closed = Some(at);
            } else if self.escaped {
                rest.first()?;
                self.escaped = false;
                at += 1;
            } else {
                at += memchr2(options.quote, options.escape, rest)?;
                if data.get(at) == Some(&options.escape) {
                    self.escaped = true;
                } else {
                    self.in_quotes = false;
                }
                at += 1;
            }
        }
    }
}

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// NULL.
    Null,
    /// The value of the field, without escapes and quotes.
    Value(&'a str),
}

/// Iterates over the fields of a record.
pub(super) struct Fields<'a> {
    /// The rest of the record, after the last delimiter found; `None` after the last field.
    rest: Option<&'a str>,
    options: &'a CopyOptions,
    /// True if the record has no backslash (text format) or no quote (CSV). Each field is then a
    /// slice of the record.
    plain: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(record: &'a str, options: &'a CopyOptions) -> Self {
        let special = match options.format {
            CopyFormat::Text => b'\\',
            CopyFormat::Csv => options.quote,
        };
        let plain = memchr(special, record.as_bytes()).is_none();
        Self { rest: Some(record), options, plain }
    }

    /// True if there are no more fields.
    pub(super) fn is_done(&self) -> bool {
        self.rest.is_none()
    }

    /// The next field; `None` after the last field. A field with escapes or quotes is decoded into
    /// `scratch`. `force_not_null` and `force_null` are the COPY options with these names for the
    /// column.
    #[inline]
    pub(super) fn next<'b>(
        &'b mut self,
        scratch: &'b mut Vec<u8>,
        force_not_null: bool,
        force_null: bool,
    ) -> Result<Option<Field<'b>>> {
        let Some(rest) = self.rest else { return Ok(None) };
        if self.plain {
            let (raw, after) = cut_at_delimiter(rest, self.options.delimiter);
            self.rest = after;
            return Ok(Some(if raw == self.options.null && !force_not_null {
                Field::Null
            } else {
                Field::Value(raw)
            }));
        }
        match self.options.format {
            CopyFormat::Text => self.text(rest, scratch),
            CopyFormat::Csv => self.csv(rest, scratch, force_not_null, force_null),
        }
        .map(Some)
    }

    fn text<'b>(&'b mut self, rest: &'a str, scratch: &'b mut Vec<u8>) -> Result<Field<'b>> {
        let bytes = rest.as_bytes();
        let mut end = 0;
        let mut escapes = false;
        // Finds the next delimiter without a backslash before it.
        loop {
            match bytes.get(end..).and_then(|tail| memchr2(self.options.delimiter, b'\\', tail)) {
                None => {
                    end = bytes.len();
                    break;
                }
                Some(at) => {
                    end += at;
                    if bytes.get(end) != Some(&b'\\') {
                        break;
                    }
                    escapes = true;
                    end = (end + 2).min(bytes.len());
                }
            }
        }
        // The position is usually next to an ASCII byte. After an escaped byte, however, it may lie
        // within a multi-byte character; it then moves to the end of the character.
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let raw = rest.get(..end).unwrap_or(rest);
        self.rest = rest.get(end + 1..);
        if raw == self.options.null {
            return Ok(Field::Null);
        }
        if !escapes {
            return Ok(Field::Value(raw));
        }
        scratch.clear();
        unescape(raw.as_bytes(), scratch);
        decoded(scratch)
    }

    fn csv<'b>(
        &'b mut self,
        rest: &'a str,
        scratch: &'b mut Vec<u8>,
        force_not_null: bool,
        force_null: bool,
    ) -> Result<Field<'b>> {
        let options = self.options;
        let bytes = rest.as_bytes();
        let null = options.null.as_bytes();
        let stop = memchr2(options.delimiter, options.quote, bytes).unwrap_or(bytes.len());
        if bytes.get(stop) != Some(&options.quote) {
            let (raw, after) = cut_at_delimiter(rest, options.delimiter);
            self.rest = after;
            return match raw.as_bytes() == null && !force_not_null {
                true => Ok(Field::Null),
                false if memchr(b'\r', raw.as_bytes()).is_some() => Err(stray("carriage return")),
                false => Ok(Field::Value(raw)),
            };
        }
        scratch.clear();
        let mut at = 0;
        let mut in_quotes = false;
        while let Some(byte) = bytes.get(at).copied() {
            if in_quotes {
                let tail = bytes.get(at..).unwrap_or_default();
                let plain = memchr2(options.quote, options.escape, tail).unwrap_or(tail.len());
                scratch.extend_from_slice(tail.get(..plain).unwrap_or_default());
                at += plain;
                let next = bytes.get(at + 1).copied();
                match bytes.get(at).copied() {
                    None => {}
                    Some(escape)
                        if escape == options.escape
                            && next.is_some_and(|n| n == options.quote || n == options.escape) =>
                    {
                        scratch.extend(next);
                        at += 2;
                    }
                    Some(quote) if quote == options.quote => {
                        in_quotes = false;
                        at += 1;
                    }
                    Some(other) => {
                        scratch.push(other);
                        at += 1;
                    }
                }
            } else if byte == options.delimiter {
                break;
            } else if byte == options.quote {
                in_quotes = true;
                at += 1;
            } else if byte == b'\r' {
                return Err(stray("carriage return"));
            } else {
                scratch.push(byte);
                at += 1;
            }
        }
        if in_quotes {
            return Err(Error::new(ErrorKind::BadCopyFormat, "unterminated CSV quoted field"));
        }
        self.rest = rest.get(at + 1..);
        if force_null && scratch.as_slice() == null {
            return Ok(Field::Null);
        }
        decoded(scratch)
    }
}

/// Splits a text at the first delimiter: returns the text before it, and the text after it (`None`
/// without a delimiter).
#[inline]
fn cut_at_delimiter(text: &str, delimiter: u8) -> (&str, Option<&str>) {
    match memchr(delimiter, text.as_bytes()) {
        // The delimiter is ASCII, so both positions are character boundaries.
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    }
}

fn decoded(bytes: &[u8]) -> Result<Field<'_>> {
    match std::str::from_utf8(bytes) {
        // An escape may represent a zero byte, which a text cannot contain.
        Ok(_) if memchr(0, bytes).is_some() => Err(invalid_encoding(b"\0")),
        Ok(text) => Ok(Field::Value(text)),
        Err(_) => Err(invalid_encoding(bytes)),
    }
}

/// The error for bytes that are not UTF-8; the message shows the first invalid bytes.
pub(super) fn invalid_encoding(bytes: &[u8]) -> Error {
    let at = match std::str::from_utf8(bytes) {
        Ok(_) => 0,
        Err(error) => error.valid_up_to(),
    };
    let shown: Vec<String> =
        bytes.iter().skip(at).take(4).map(|byte| format!("0x{byte:02x}")).collect();
    Error::new(
        ErrorKind::InvalidEncoding,
        format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
    )
}

/// The error for a line ending that differs from the previous line endings; `what` names the
/// character.
pub(super) fn stray(what: &str) -> Error {
    Error::new(ErrorKind::BadCopyFormat, format!("unquoted {what} found in data"))
        .with_hint(format!("Use quoted CSV field to represent {what}."))
}

/// True if a record in text format contains a carriage return without a backslash before it.
pub(super) fn has_stray_return(record: &[u8]) -> bool {
    let mut end = record.len();
    while let Some(at) = record.get(..end).and_then(|head| memrchr(b'\r', head)) {
        let slashes = record.iter().take(at).rev().take_while(|byte| **byte == b'\\').count();
        if slashes % 2 == 0 {
            return true;
        }
        end = at;
    }
    false
}

/// Decodes the backslash sequences of the text format.
fn unescape(mut raw: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr(b'\\', raw) {
        let (head, tail) = raw.split_at(at);
        out.extend_from_slice(head);
        let Some((code, mut after)) = tail.get(1..).and_then(<[u8]>::split_first) else {
            // A backslash at the end of the value is an ordinary character.
            out.push(b'\\');
            return;
        };
        match code {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'0'..=b'7' => {
                let mut value = u32::from(code - b'0');
                for _ in 0..2 {
                    match after.split_first() {
                        Some((digit @ b'0'..=b'7', rest)) => {
                            value = value * 8 + u32::from(digit - b'0');
                            after = rest;
                        }
                        _ => break,
                    }
                }
                out.push(u8::try_from(value & 0xff).unwrap_or(0));
            }
            b'x' => {
                let mut value = 0;
                let mut digits = 0;
                while digits < 2 {
                    match after.split_first() {
                        Some((digit, rest)) if digit.is_ascii_hexdigit() => {
                            value = value * 16 + char::from(*digit).to_digit(16).unwrap_or(0);
                            after = rest;
                            digits += 1;
                        }
                        _ => break,
                    }
                }
                if digits == 0 {
                    out.push(b'x');
                } else {
                    out.push(u8::try_from(value).unwrap_or(0));
                }
            }
            other => out.push(*other),
        }
        raw = after;
    }
    out.extend_from_slice(raw);
}
