//! Removes backslash escapes from names and strings.

use memchr::{memchr, memchr2};

/// The kind of a part of a line. The kind determines the characters that a backslash can escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// A measurement: `,`, space and `\` can be escaped.
    Measurement,
    /// A key or value of a tag, or a key of a field: `,`, `=`, space and `\` can be escaped.
    Name,
    /// A string: `"` and `\` can be escaped.
    Text,
}

impl Part {
    fn escapes(self, byte: u8) -> bool {
        match byte {
            b'\\' => true,
            b',' | b' ' => self != Self::Text,
            b'=' => self == Self::Name,
            b'"' => self == Self::Text,
            _ => false,
        }
    }
}

/// Unescapes `raw`, a part of a line, and appends the result to `into`. A backslash before a
/// character that cannot be escaped is an ordinary character.
pub(super) fn unescape(part: Part, raw: &[u8], into: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(at) = memchr(b'\\', rest) {
        into.extend_from_slice(rest.get(..at).unwrap_or_default());
        match rest.get(at + 1) {
            Some(byte) if part.escapes(*byte) => into.push(*byte),
            Some(byte) => into.extend_from_slice(&[b'\\', *byte]),
            None => into.push(b'\\'),
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    into.extend_from_slice(rest);
}

/// The position of the closing quote of a string, and true if the string has escapes. `start` is
/// the position after the opening quote.
#[inline]
pub(super) fn closing_quote(data: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut at = start;
    let mut escapes = false;
    loop {
        at += memchr2(b'"', b'\\', data.get(at..)?)?;
        if data.get(at) == Some(&b'"') {
            return Some((at, escapes));
        }
        escapes = true;
        at += 2;
    }
}

/// The end of a name that begins at `start`: the first unescaped byte of `ends`, or the end of
/// `data`.
pub(super) fn name_end(data: &[u8], start: usize, ends: &[u8]) -> usize {
    let mut at = start;
    loop {
        match data.get(at) {
            None => return data.len(),
            Some(b'\\') => at += 2,
            Some(byte) if ends.contains(byte) => return at,
            Some(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests;
