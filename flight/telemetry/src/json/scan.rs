//! Splits JSON into tokens.

use std::borrow::Cow;

use stratalog_model::Result;

use super::malformed;

/// Maximal bytes of unexpected text that an error shows.
const FOUND_BYTES: usize = 24;

/// A scalar value.
#[derive(Debug)]
pub(super) enum Token<'a> {
    Text(Cow<'a, str>),
    /// The source text of a number.
    Number(&'a str),
    Boolean(bool),
}

/// A tokenizer that reads a JSON text once, from beginning to end.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
    /// The position at which the last read token begins.
    last: usize,
    /// True directly after the opening bracket of an object or list.
    opened: bool,
    depth: u32,
}

impl<'a> Scan<'a> {
    pub(super) fn of(text: &'a str, depth: u32) -> Self {
        Self { text, at: 0, last: 0, opened: false, depth }
    }

    /// Reads the opening bracket of an object or list.
    pub(super) fn open(&mut self, bracket: u8) -> Result<()> {
        let wanted = if bracket == b'{' { "an object is expected" } else { "a list is expected" };
        self.take(bracket, wanted)?;
        self.depth =
            self.depth.checked_sub(1).ok_or_else(|| self.error("less depth is expected"))?;
        self.opened = true;
        Ok(())
    }

    /// Reads the name of the next field. At the end of the object, reads the closing bracket and
    /// returns `None`.
    pub(super) fn name(&mut self) -> Result<Option<Cow<'a, str>>> {
        if !self.next_of(b'}')? {
            return Ok(None);
        }
        let name = self.string()?;
        self.take(b':', "\":\" is expected")?;
        Ok(Some(name))
    }

    /// Returns true if the list has another element; otherwise reads the closing bracket and
    /// returns false.
    pub(super) fn element(&mut self) -> Result<bool> {
        self.next_of(b']')
    }

    /// Reads a null if it comes next, and returns true; otherwise reads nothing and returns false.
    pub(super) fn null(&mut self) -> Result<bool> {
        self.blank();
        Ok(self.literal("null"))
    }

    pub(super) fn token(&mut self) -> Result<Token<'a>> {
        self.blank();
        self.last = self.at;
        match self.peek() {
            Some(b'"') => self.string().map(Token::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Token::Number),
            _ if self.literal("true") => Ok(Token::Boolean(true)),
            _ if self.literal("false") => Ok(Token::Boolean(false)),
            _ => Err(self.error("a value is expected")),
        }
    }

    /// Skips a value of any kind.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.blank();
        match self.peek() {
            Some(b'{') => {
                self.open(b'{')?;
                while self.name()?.is_some() {
                    self.skip()?;
                }
                Ok(())
            }
            Some(b'[') => {
                self.open(b'[')?;
                while self.element()? {
                    self.skip()?;
                }
                Ok(())
            }
            _ if self.literal("null") => Ok(()),
            _ => self.token().map(|_| ()),
        }
    }

    /// Checks that only white space follows.
    pub(super) fn end(&mut self) -> Result<()> {
        self.blank();
        if self.at < self.text.len() { Err(self.error("the end is expected")) } else { Ok(()) }
    }

    /// The error for the last token, where `wanted` was expected instead.
    pub(super) fn wrong(&self, wanted: &str) -> stratalog_model::Error {
        self.error_at(self.last, &format!("{wanted} is expected"))
    }

    fn error(&self, wanted: &str) -> stratalog_model::Error {
        self.error_at(self.at, wanted)
    }

    fn error_at(&self, at: usize, wanted: &str) -> stratalog_model::Error {
        let rest = self.text.get(at..).unwrap_or_default();
        let found = rest.get(..rest.floor_char_boundary(FOUND_BYTES)).unwrap_or_default();
        malformed(at, wanted, found)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8, wanted: &str) -> Result<()> {
        self.blank();
        if self.peek() != Some(byte) {
            return Err(self.error(wanted));
        }
        self.at += 1;
        Ok(())
    }

    /// Moves to the next element and returns true, or reads the closing bracket and returns false.
    fn next_of(&mut self, close: u8) -> Result<bool> {
        let first = std::mem::take(&mut self.opened);
        self.blank();
        if self.peek() == Some(close) {
            self.at += 1;
            self.depth += 1;
            return Ok(false);
        }
        if !first {
            self.take(
                b',',
                if close == b'}' {
                    "\",\" or \"}\" is expected"
                } else {
                    "\",\" or \"]\" is expected"
                },
            )?;
        }
        Ok(true)
    }

    fn literal(&mut self, word: &str) -> bool {
        let found = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word));
        if found {
            self.at += word.len();
        }
        found
    }

    fn number(&mut self) -> Result<&'a str> {
        let start = self.at;
        self.literal("-");
        let leading_zero = self.peek() == Some(b'0');
        let digits = self.digits()?;
        if leading_zero && digits > 1 {
            self.at = start;
            return Err(self.error("a number without leading zeros is expected"));
        }
        if self.literal(".") {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    fn digits(&mut self) -> Result<usize> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.error("a digit is expected")) } else { Ok(self.at - start) }
    }

    fn string(&mut self) -> Result<Cow<'a, str>> {
        self.take(b'"', "a text in quotes is expected")?;
        let mut text = Cow::Borrowed("");
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let special = |byte: u8| byte == b'"' || byte == b'\\' || byte < 0x20;
            let end = rest.bytes().position(special).unwrap_or(rest.len());
            let plain = rest.get(..end).unwrap_or_default();
            text = if text.is_empty() { Cow::Borrowed(plain) } else { text + plain };
            self.at += end;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.to_mut().push(self.escape()?),
                _ => return Err(self.error("the end of the text, or an escape, is expected")),
            }
        }
    }

    /// Reads an escape sequence.
    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        self.at += 2;
        let character = match self.text.as_bytes().get(start + 1) {
            Some(b'"') => Some('"'),
            Some(b'\\') => Some('\\'),
            Some(b'/') => Some('/'),
            Some(b'b') => Some('\u{8}'),
            Some(b'f') => Some('\u{c}'),
            Some(b'n') => Some('\n'),
            Some(b'r') => Some('\r'),
            Some(b't') => Some('\t'),
            Some(b'u') => self.code(),
            _ => None,
        };
        character.ok_or_else(|| {
            self.at = start;
            self.error("an escape of JSON is expected")
        })
    }

    /// Reads the character of a `\u` escape, or of two escapes that form a surrogate pair.
    fn code(&mut self) -> Option<char> {
        let high = self.unit()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high);
        }
        let low = if self.literal("\\u") { self.unit()? } else { return None };
        let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
        char::from_u32(0x10000 + ((high - 0xd800) << 10 | low))
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let unit = digits
            .bytes()
            .try_fold(0, |unit, digit| Some(unit << 4 | char::from(digit).to_digit(16)?))?;
        self.at += 4;
        Some(unit)
    }
}
