//! Parses a JSON document to a tree of values.

use std::borrow::Cow;

use stratalog_model::{Error, ErrorKind, Result};

use super::DEPTH_MAX;
use crate::parse::shortened;

/// A JSON value. Strings and numbers borrow from the parsed text where possible.
#[derive(Debug, Clone, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean(bool),
    /// A normalized number: it has no exponent, no leading zeros, and is never `-0`. Trailing zeros
    /// of the fraction remain.
    Number(Cow<'a, str>),
    /// A string with decoded escapes.
    String(Cow<'a, str>),
    /// `[…]`
    Array(Vec<Json<'a>>),
    /// `{…}`: the keys are unique. They are ordered by length, and keys of equal length by bytes.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// The maximum number of digits before the decimal point of a number, as in PostgreSQL's numeric.
const WHOLE_DIGITS_MAX: i64 = 131_072;
/// The maximum number of digits after the decimal point of a number, as in PostgreSQL's numeric.
const FRACTION_DIGITS_MAX: i64 = 16_383;

impl<'a> Json<'a> {
    /// Parses a document.
    ///
    /// # Errors
    /// `InvalidTextRepresentation` for invalid JSON; `NumericOutOfRange` for a number with more
    /// digits than a numeric can hold; `LimitExceeded` for too deep nesting.
    pub fn parse(text: &'a str) -> Result<Self> {
        let mut reader = Reader { text, at: 0, depth: 0 };
        reader.skip_space();
        let value = reader.value()?;
        reader.skip_space();
        match reader.peek() {
            None => Ok(value),
            Some(_) => Err(reader.unexpected("end of input")),
        }
    }

    /// Appends the document to `out`, in the form in which PostgreSQL prints `jsonb`.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Boolean(true) => out.push_str("true"),
            Self::Boolean(false) => out.push_str("false"),
            Self::Number(number) => out.push_str(number),
            Self::String(string) => write_string(string, out),
            Self::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(pairs) => {
                out.push('{');
                for (at, (key, value)) in pairs.iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    write_string(key, out);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// Appends `string` as a JSON string: in quotes, and with escapes.
pub(super) fn write_string(string: &str, out: &mut String) {
    out.push('"');
    for character in string.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn invalid(&self, detail: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidTextRepresentation, "invalid input syntax for type json")
            .with_detail(detail)
            .with_context(format!(
                "JSON data, character {}: {}",
                self.text.get(..self.at).map_or(0, |head| head.chars().count()) + 1,
                shortened(self.text.get(self.at..).unwrap_or_default())
            ))
    }

    fn unexpected(&self, expected: &str) -> Error {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return self.invalid("The input string ended unexpectedly.");
        }
        let word = rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+')))
            .filter(|length| *length > 0)
            .unwrap_or_else(|| rest.chars().next().map_or(0, char::len_utf8));
        let token = rest.get(..word).unwrap_or_default();
        if rest.bytes().next().is_some_and(|byte| byte.is_ascii_punctuation()) {
            self.invalid(format!("Expected {expected}, but found \"{}\".", shortened(token)))
        } else {
            let whole = rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                .map_or(rest, |end| rest.get(..end).unwrap_or(rest));
            self.invalid(format!("Token \"{}\" is invalid.", shortened(whole)))
        }
    }

    fn value(&mut self) -> Result<Json<'a>> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                for (word, value) in [
                    ("null", Json::Null),
                    ("true", Json::Boolean(true)),
                    ("false", Json::Boolean(false)),
                ] {
                    let rest = self.text.get(self.at..).unwrap_or_default();
                    if let Some(after) = rest.strip_prefix(word)
                        && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err(self.unexpected("JSON value"))
            }
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Json<'a>>) -> Result<Json<'a>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("JSON is nested deeper than {DEPTH_MAX} levels"),
            ));
        }
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Result<Json<'a>> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            self.skip_space();
            items.push(self.value()?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::Array(items));
                }
                _ => return Err(self.unexpected("\",\" or \"]\"")),
            }
        }
    }

    fn object(&mut self) -> Result<Json<'a>> {
        let mut pairs: Vec<(Cow<'a, str>, Json<'a>)> = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(pairs));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("string"));
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("\":\""));
            }
            self.at += 1;
            self.skip_space();
            pairs.push((key, self.value()?));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Json::Object(unique(pairs)));
                }
                _ => return Err(self.unexpected("\",\" or \"}\"")),
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>> {
        self.at += 1;
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = rest.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < b' ');
        if let Some(end) = end
            && rest.as_bytes().get(end) == Some(&b'"')
        {
            self.at += end + 1;
            return Ok(rest.get(..end).unwrap_or_default().into());
        }
        let mut value = String::new();
        loop {
            let Some(character) = self.text.get(self.at..).and_then(|rest| rest.chars().next())
            else {
                return Err(self.unexpected("string"));
            };
            if character < ' ' {
                return Err(self.invalid(format!(
                    "Character with value 0x{:02x} must be escaped.",
                    u32::from(character)
                )));
            }
            self.at += character.len_utf8();
            match character {
                '"' => return Ok(value.into()),
                '\\' => value.push(self.escape()?),
                other => value.push(other),
            }
        }
    }

    /// Parses an escape after its backslash, and returns the character that it stands for.
    fn escape(&mut self) -> Result<char> {
        let Some(character) = self.text.get(self.at..).and_then(|rest| rest.chars().next()) else {
            return Err(self.unexpected("string"));
        };
        self.at += character.len_utf8();
        Ok(match character {
            '"' | '\\' | '/' => character,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let first = self.four_digits()?;
                let code = match first {
                    0xd800..=0xdbff => {
                        let rest = self.text.get(self.at..).unwrap_or_default();
                        if !rest.starts_with("\\u") {
                            return Err(self.surrogate());
                        }
                        self.at += 2;
                        let second = self.four_digits()?;
                        if !(0xdc00..=0xdfff).contains(&second) {
                            return Err(self.surrogate());
                        }
                        0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                    }
                    0 => {
                        return Err(Error::new(
                            ErrorKind::UntranslatableCharacter,
                            "unsupported Unicode escape sequence",
                        )
                        .with_detail("\\u0000 cannot be converted to text."));
                    }
                    code => code,
                };
                char::from_u32(code).ok_or_else(|| self.surrogate())?
            }
            other => {
                return Err(self.invalid(format!("Escape sequence \"\\{other}\" is invalid.")));
            }
        })
    }

    fn surrogate(&self) -> Error {
        self.invalid("Unicode low surrogate must follow a high surrogate.")
    }

    fn four_digits(&mut self) -> Result<u32> {
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .ok_or_else(|| self.invalid("\"\\u\" must be followed by four hexadecimal digits."))?;
        self.at += 4;
        u32::from_str_radix(digits, 16)
            .map_err(|_| self.invalid("\"\\u\" must be followed by four hexadecimal digits."))
    }

    fn number(&mut self) -> Result<Json<'a>> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        let whole = self.run_of_digits();
        let well_formed = !whole.is_empty() && (whole == "0" || !whole.starts_with('0'));
        let mut fraction = None;
        if self.peek() == Some(b'.') {
            self.at += 1;
            fraction = Some(self.run_of_digits());
        }
        let mut exponent = None;
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            let down = self.peek() == Some(b'-');
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            let digits = self.run_of_digits();
            exponent = Some((down, digits));
        }
        let junk = self
            .text
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
        if !well_formed
            || fraction == Some("")
            || exponent.is_some_and(|(_, digits)| digits.is_empty())
            || junk
        {
            let token = self.text.get(start..).unwrap_or_default();
            let end = token
                .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+')))
                .unwrap_or(token.len());
            let token = token.get(..end).unwrap_or_default();
            return Err(self.invalid(format!("Token \"{}\" is invalid.", shortened(token))));
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        let zero = !whole.bytes().chain(fraction.unwrap_or_default().bytes()).any(|b| b != b'0');
        match exponent {
            None if negative && zero => Ok(Json::Number(text.get(1..).unwrap_or_default().into())),
            None => Ok(Json::Number(text.into())),
            Some((down, digits)) => {
                let magnitude = digits.parse::<i64>().unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
                let exponent = if down { -magnitude } else { magnitude };
                let spread = spread(negative && !zero, whole, fraction.unwrap_or(""), exponent);
                spread.map(|number| Json::Number(number.into())).ok_or_else(|| {
                    Error::new(ErrorKind::NumericOutOfRange, "value overflows numeric format")
                })
            }
        }
    }

    fn run_of_digits(&mut self) -> &'a str {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.text.get(start..self.at).unwrap_or_default()
    }
}

/// Formats the number `whole.fraction × 10^exponent` without an exponent. `None` if the number has
/// too many digits for a numeric.
fn spread(negative: bool, whole: &str, fraction: &str, exponent: i64) -> Option<String> {
    let fraction_length = i64::try_from(fraction.len()).ok()?;
    let scale = (fraction_length - exponent).max(0);
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let zeros_after = (exponent - fraction_length).max(0);
    if digits.is_empty() {
        let scale = usize::try_from(scale.min(FRACTION_DIGITS_MAX)).ok()?;
        return Some(if scale == 0 { "0".into() } else { format!("0.{}", "0".repeat(scale)) });
    }
    let length = i64::try_from(digits.len()).ok()?;
    if length.saturating_add(zeros_after).saturating_sub(scale) > WHOLE_DIGITS_MAX
        || scale > FRACTION_DIGITS_MAX
    {
        return None;
    }
    let mut out = String::new();
    if negative {
        out.push('-');
    }
    if scale == 0 {
        out.push_str(digits);
        out.push_str(&"0".repeat(usize::try_from(zeros_after).ok()?));
    } else if length > scale {
        let (before, after) = digits.split_at(usize::try_from(length - scale).ok()?);
        out.push_str(before);
        out.push('.');
        out.push_str(after);
    } else {
        out.push_str("0.");
        out.push_str(&"0".repeat(usize::try_from(scale - length).ok()?));
        out.push_str(digits);
    }
    Some(out)
}

/// Sorts the members of an object by key: by the length of the key, and then by its bytes. Of
/// members with equal keys, keeps the last.
fn unique<'a>(mut pairs: Vec<(Cow<'a, str>, Json<'a>)>) -> Vec<(Cow<'a, str>, Json<'a>)> {
    pairs.sort_by(|(a, _), (b, _)| {
        a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
    });
    // `dedup_by` keeps the first of equal keys, so the order is reversed before and after.
    pairs.reverse();
    pairs.dedup_by(|(a, _), (b, _)| a == b);
    pairs.reverse();
    pairs
}
