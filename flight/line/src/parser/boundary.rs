//! Where a line ends.

use memchr::{memchr, memchr2, memchr3};

/// Finds the end of a line that comes in pieces: the first newline that is neither escaped nor
/// within the quotes of a string. A quote counts where a value may be: behind the first space,
/// and with more `=` than `,` since then. This is how InfluxDB's scanLine goes about it, so that
/// lines that are not well made end in the same place.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Boundary {
    /// The tags are over.
    fields: bool,
    quoted: bool,
    /// The last byte was a backslash that stands for itself or escapes the next one.
    escaped: bool,
    /// `=` less `,` outside of quotes, since the tags are over.
    balance: i64,
}

impl Boundary {
    /// Goes on with the next bytes of the line; returns where in them it ends, its newline
    /// included. `None`: it goes on behind them.
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
                // What is escaped, or the first byte of it.
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

/// Finds the end of a line that may as well be a comment, which ends at the next newline whatever
/// it says.
#[derive(Debug, Clone, Copy)]
pub(super) enum LineEnd {
    /// There was nothing but spaces yet.
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
    /// As [`Boundary::find`].
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

/// Bytes of space that a line begins with.
pub(super) fn indent(line: &[u8]) -> usize {
    line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

#[cfg(test)]
mod tests;
