//! Removes secrets from the texts of statements, before anything but the parser sees a text: the
//! activity of sessions, prepared statements, errors, and the audit log.
//!
//! ```text
//!   CREATE ROLE ann PASSWORD 'secret'   ─► CREATE ROLE ann PASSWORD '***'
//!   SELECT 'slt_…'                      ─► SELECT 'slt_***'
//! ```

use std::{borrow::Cow, ops::Range};

use stratalog_model::Error;

/// The keyword in front of a secret, in lower case.
const KEYWORD: &[u8] = b"password";

/// The beginning of a token's text.
const TOKEN: &str = "slt_";

/// A shorter word behind [`TOKEN`] is not a token.
const TOKEN_LETTERS_MIN: usize = 20;

/// The text that replaces a secret literal.
const REPLACED: &str = "'***'";

/// A statement's text, with each literal behind the keyword PASSWORD, and each token, replaced.
/// The result is borrowed if the text has no secret.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    let literals = secret_literals(text);
    if literals.is_empty() {
        return without_tokens(text);
    }
    let (mut out, mut end) = (String::with_capacity(text.len()), 0);
    for literal in literals {
        out.push_str(text.get(end..literal.start).unwrap_or_default());
        out.push_str(REPLACED);
        end = literal.end;
    }
    out.push_str(text.get(end..).unwrap_or_default());
    match without_tokens(&out) {
        Cow::Borrowed(_) => Cow::Owned(out),
        Cow::Owned(out) => Cow::Owned(out),
    }
}

/// An error without the secrets of the statement's text: a message may quote a part of the text.
pub fn from_error(error: Error, text: &str) -> Error {
    let quotes = |secret: &str| !secret.is_empty() && error.message().contains(secret);
    let mut message = Cow::Borrowed(error.message());
    for literal in secret_literals(text) {
        let whole = text.get(literal).unwrap_or_default();
        let content = whole.trim_start_matches(['e', 'E', 'u', 'U', '&']).trim_matches(['\'', '$']);
        for secret in [whole, content] {
            if quotes(secret) {
                message = Cow::Owned(message.replace(secret, "***"));
            }
        }
    }
    match message {
        Cow::Borrowed(_) => error,
        Cow::Owned(message) => {
            let mut replaced = Error::new(error.kind(), message);
            if let Some(position) = error.position() {
                replaced = replaced.with_position(position);
            }
            match error.hint() {
                Some(hint) => replaced.with_hint(hint),
                None => replaced,
            }
        }
    }
}

fn without_tokens(text: &str) -> Cow<'_, str> {
    if !text.contains(TOKEN) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split(TOKEN);
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let length = part.find(|c| !letter(c)).unwrap_or(part.len());
        out.push_str(TOKEN);
        match length < TOKEN_LETTERS_MIN {
            true => out.push_str(part),
            false => {
                out.push_str("***");
                out.push_str(part.get(length..).unwrap_or_default());
            }
        }
    }
    Cow::Owned(out)
}

/// The literals behind the keyword PASSWORD, also behind an operator `=`.
fn secret_literals(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if !mentions_keyword(text.as_bytes()) {
        return found;
    }
    let mut scan = Scan { bytes: text.as_bytes(), at: 0 };
    let mut is_secret = false;
    while let Some(piece) = scan.next() {
        match piece {
            Piece::Blank => {}
            Piece::Literal(range) if is_secret => found.push(range),
            Piece::Word(word) => is_secret = word.eq_ignore_ascii_case(KEYWORD),
            Piece::Equals => {}
            Piece::Literal(_) | Piece::Other => is_secret = false,
        }
    }
    found
}

fn mentions_keyword(bytes: &[u8]) -> bool {
    bytes.windows(KEYWORD.len()).any(|window| {
        window.first().is_some_and(|byte| byte | 0x20 == b'p')
            && window.eq_ignore_ascii_case(KEYWORD)
    })
}

enum Piece<'a> {
    Blank,
    Word(&'a [u8]),
    /// A string constant; an unterminated constant reaches to the end of the text.
    Literal(Range<usize>),
    Equals,
    Other,
}

/// Splits a text into pieces, as far as secrets need it.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn next(&mut self) -> Option<Piece<'a>> {
        let start = self.at;
        let byte = self.peek(0)?;
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | 128..);
        Some(match byte {
            b'-' if self.peek(1) == Some(b'-') => {
                self.skip_past(b"\n");
                Piece::Blank
            }
            b'/' if self.peek(1) == Some(b'*') => {
                self.comment();
                Piece::Blank
            }
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => {
                self.at += 1;
                Piece::Blank
            }
            b'\'' => {
                self.at += 1;
                self.quoted(false);
                Piece::Literal(start..self.at)
            }
            b'"' => {
                self.at += 1;
                self.skip_past(b"\"");
                Piece::Other
            }
            b'$' if self.dollar_tag().is_some() => {
                let tag = self.dollar_tag().unwrap_or_default();
                self.at += tag.len();
                self.skip_past(tag);
                Piece::Literal(start..self.at)
            }
            b'e' | b'E' | b'n' | b'N' | b'b' | b'B' | b'x' | b'X'
                if self.peek(1) == Some(b'\'') =>
            {
                self.at += 2;
                self.quoted(byte | 0x20 == b'e');
                Piece::Literal(start..self.at)
            }
            b'u' | b'U' if self.peek(1) == Some(b'&') && self.peek(2) == Some(b'\'') => {
                self.at += 3;
                self.quoted(false);
                Piece::Literal(start..self.at)
            }
            b'=' => {
                self.at += 1;
                Piece::Equals
            }
            byte if is_word(byte) => {
                let length = self.rest().iter().take_while(|byte| is_word(**byte)).count();
                self.at += length;
                Piece::Word(self.bytes.get(start..self.at).unwrap_or_default())
            }
            _ => {
                self.at += 1;
                Piece::Other
            }
        })
    }

    /// Moves behind the next `end`, or to the end of the text.
    fn skip_past(&mut self, end: &[u8]) {
        let found = self.rest().windows(end.len()).position(|window| window == end);
        self.at = found.map_or(self.bytes.len(), |at| self.at + at + end.len());
    }

    /// Moves behind a string constant whose first quote was read.
    fn quoted(&mut self, escapes: bool) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' if escapes => self.at += 2,
                b'\'' if self.peek(1) == Some(b'\'') => self.at += 2,
                b'\'' => {
                    self.at += 1;
                    return;
                }
                _ => self.at += 1,
            }
        }
        self.at = self.bytes.len();
    }

    fn comment(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek(0) {
            match (byte, self.peek(1)) {
                (b'/', Some(b'*')) => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', Some(b'/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    /// The tag `$tag$` at the present place.
    fn dollar_tag(&self) -> Option<&'a [u8]> {
        let rest = self.rest();
        let name = rest
            .get(1..)?
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | 128..));
        let length = 1 + name.count();
        let starts_with_digit = rest.get(1).is_some_and(u8::is_ascii_digit);
        (rest.get(length) == Some(&b'$') && !starts_with_digit)
            .then(|| rest.get(..=length))
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use stratalog_model::ErrorKind;

    use super::*;

    #[test]
    fn literals_behind_password_are_replaced() {
        let cases = [
            ("CREATE ROLE a PASSWORD 'x'", "CREATE ROLE a PASSWORD '***'"),
            (
                "create user a password'it''s' valid until 'y'",
                "create user a password'***' valid until 'y'",
            ),
            (
                "ALTER ROLE a PASSWORD /* ' */ E'a\\'b' LOGIN",
                "ALTER ROLE a PASSWORD /* ' */ '***' LOGIN",
            ),
            ("ALTER ROLE a PASSWORD $q$it's$q$; SELECT 1", "ALTER ROLE a PASSWORD '***'; SELECT 1"),
            ("ALTER ROLE a ENCRYPTED PASSWORD 'open", "ALTER ROLE a ENCRYPTED PASSWORD '***'"),
            ("PASSWORD 'a'\n'b' LOGIN", "PASSWORD '***'\n'***' LOGIN"),
            ("SELECT * FROM t WHERE password = 'x'", "SELECT * FROM t WHERE password = '***'"),
            ("PASSWORD U&'d\\0061t'", "PASSWORD '***'"),
        ];
        for (text, shown) in cases {
            assert_eq!(without_secrets(text), shown, "{text}");
        }
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "SELECT 'password'",
            "SELECT \"password\", 'x'",
            "ALTER ROLE a PASSWORD NULL VALID UNTIL 'x'",
            "-- PASSWORD\nSELECT 'x'",
            "SELECT my_password, 'x', 'slt_short'",
            "password $1",
            "",
        ] {
            assert!(
                matches!(without_secrets(text), Cow::Borrowed(_)) || without_secrets(text) == text,
                "{text}"
            );
        }
    }

    #[test]
    fn tokens_are_replaced() {
        let token = format!("slt_{}", "aB-_".repeat(10));
        assert_eq!(without_secrets(&format!("SELECT '{token}', 1")), "SELECT 'slt_***', 1");
    }

    #[test]
    fn errors_quote_no_secret() {
        let error = Error::new(ErrorKind::SyntaxError, "syntax error at or near \"'geheim'\"");
        let shown = from_error(error.with_position(3), "CREATE ROLE a PASSWORD 'geheim' 'x'");
        assert!(!shown.message().contains("geheim"), "{shown}");
        assert_eq!(shown.position(), Some(3));
    }
}
