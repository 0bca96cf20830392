//! Finds the end of a line.

use memchr::{memchr, memchr2, memchr3};

/// Finds the end of a line that is spread over chunks: the first newline that is neither escaped
/// nor within a string. A quote begins a string only in the place of a value: after the first
/// space, if more `=` than `,` have followed this space. InfluxDB's function scanLine has the same
/// rule, so malformed lines end at the same byte in both.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Boundary {
    /// True after the first unescaped space, which ends the tags.
    fields: bool,
    quoted: bool,
    /// True if the last byte was a backslash, which may escape the next byte.
    escaped: bool,
    /// The number of `=` minus the number of `,` outside of strings, since the end of the tags.
    balance: i64,
}

impl Boundary {
    /// Searches the next bytes. Returns the position after the newline; `None` if the line
    /// continues.
    pub(super) fn find(&mut self, data: &[u8]) -> Option<usize> {
        let mut at = 0;
        if self.escaped && !data.is_empty() {
            self.escaped = false;
            at = 1;
        }
        loop {
            let rest = data.get(at..)?;
            let found = if self.quoted {
                memchr2(b'"', b'\\', rest)
            } else if self.fields {
                let found = memchr3(b'\n', b'"', b'\\', rest);
                self.count(rest.get(..found.unwrap_or(rest.len())).unwrap_or_default());
                found
            } else {
                memchr3(b'\n', b' ', b'\\', rest)
            };
            at += found?;
            match data.get(at)? {
                b'\n' => return Some(at + 1),
                b' ' => self.fields = true,
                b'"' => self.quoted = !self.quoted && self.balance > 0,
                _ if at + 1 == data.len() => self.escaped = true,
                // Skips the escaped character, or at least its first byte.
                _ => at += 1,
            }
            at += 1;
        }
    }

    fn count(&mut self, bytes: &[u8]) {
        let of = |byte: u8| bytes.iter().filter(|other| **other == byte).count() as i64;
        self.balance += of(b'=') - of(b',');
    }
}

/// The kind of the line, and the state of the search for its end. A comment ends at the next
/// newline, even if the newline is escaped or within quotes.
#[derive(Debug, Clone, Copy)]
pub(super) enum LineEnd {
    /// The line has only spaces so far.
    Blank(Boundary),
    Comment,
    Line(Boundary),
}

impl Default for LineEnd {
    fn default() -> Self {
        Self::Blank(Boundary::default())
    }
}

impl LineEnd {
    /// Searches the next bytes, as [`Boundary::find`] does.
    pub(super) fn find(&mut self, data: &[u8]) -> Option<usize> {
        let mut start = 0;
        if let Self::Blank(boundary) = self {
            start = indent(data);
            boundary.find(data.get(..start)?);
            *self = match data.get(start)? {
                b'#' => Self::Comment,
                _ => Self::Line(*boundary),
            };
        }
        let rest = data.get(start..)?;
        let end = match self {
            Self::Comment => memchr(b'\n', rest)? + 1,
            Self::Line(boundary) | Self::Blank(boundary) => boundary.find(rest)?,
        };
        Some(start + end)
    }
}

/// Number of leading spaces and tabs.
pub(super) fn indent(line: &[u8]) -> usize {
    line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

#[cfg(test)]
mod tests;
