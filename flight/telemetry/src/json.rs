//! Converts OTLP's JSON to protobuf, so that a single reader checks both encodings.
//!
//! OTLP's JSON is protobuf's JSON, with ids in hexadecimal, enums as numbers, and names in
//! lowerCamelCase only. The converter skips unknown fields.

mod scan;
mod schema;
pub(crate) mod text;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use stratalog_model::{Error, ErrorKind, Result};

use self::{
    scan::{Scan, Token},
    schema::Kind,
};
use crate::{
    TelemetryLimits,
    fault::excerpt,
    reader::too_large,
    wire::{put_bytes, put_varint},
};

pub(crate) use self::schema::{LOGS, METRICS, Rule};

/// Converts the JSON body of a request to protobuf.
///
/// # Errors
/// `ProtocolViolation`, with the position, for invalid JSON and for an unexpected value;
/// `LimitExceeded`.
pub(crate) fn convert(
    body: &[u8],
    rules: &'static [Rule],
    limits: &TelemetryLimits,
    out: &mut Vec<u8>,
) -> Result<()> {
    let bytes_max = limits.body_bytes_max;
    let size = |bytes: usize| {
        too_large(format!("the body has {bytes} bytes; the maximum is {bytes_max} bytes"))
    };
    if body.len() > bytes_max {
        return Err(size(body.len()));
    }
    let text = simdutf8::basic::from_utf8(body).map_err(|_| {
        Error::new(ErrorKind::InvalidEncoding, "the body is not UTF-8")
            .with_hint("send JSON in UTF-8, or Content-Type: application/x-protobuf")
    })?;
    let mut convert =
        JsonConverter { scan: Scan::of(text, limits.depth_max.saturating_add(16)), out };
    convert.message(rules)?;
    convert.scan.end()?;
    if out.len() > bytes_max {
        return Err(size(out.len()));
    }
    Ok(())
}

struct JsonConverter<'a, 'b> {
    scan: Scan<'a>,
    out: &'b mut Vec<u8>,
}

impl JsonConverter<'_, '_> {
    /// Converts the fields of an object by the rules of its message.
    fn message(&mut self, rules: &'static [Rule]) -> Result<()> {
        self.scan.open(b'{')?;
        while let Some(name) = self.scan.name()? {
            match rules.iter().find(|rule| rule.name == name) {
                Some(rule) => self.field(rule)?,
                None => self.scan.skip()?,
            }
        }
        Ok(())
    }

    fn field(&mut self, rule: &'static Rule) -> Result<()> {
        if self.scan.null()? {
            return Ok(());
        }
        if !rule.repeated {
            return self.value(rule);
        }
        self.scan.open(b'[')?;
        while self.scan.element()? {
            self.value(rule)?;
        }
        Ok(())
    }

    fn value(&mut self, rule: &'static Rule) -> Result<()> {
        let key = u64::from(rule.number) << 3;
        if let Kind::Message(rules) = rule.kind {
            put_varint(self.out, key | 2);
            let start = self.out.len();
            self.message(rules)?;
            let mut length = Vec::with_capacity(5);
            put_varint(&mut length, (self.out.len() - start) as u64);
            self.out.splice(start..start, length);
            return Ok(());
        }
        let token = self.scan.token()?;
        let wrong = |what: &str| self.scan.wrong(&format!("{what} for \"{}\"", rule.name));
        match (rule.kind, &token) {
            (Kind::Text, Token::Text(text)) => put_bytes(self.out, rule.number, text.as_bytes()),
            (Kind::Hex, Token::Text(text)) => {
                let bytes = unhex(text).ok_or_else(|| wrong("hexadecimal digits"))?;
                put_bytes(self.out, rule.number, &bytes);
            }
            (Kind::Bytes, Token::Text(text)) => {
                let bytes = STANDARD.decode(&**text).map_err(|_| wrong("base64"))?;
                put_bytes(self.out, rule.number, &bytes);
            }
            (Kind::Boolean, Token::Boolean(value)) => {
                put_varint(self.out, key);
                put_varint(self.out, u64::from(*value));
            }
            (Kind::Unsigned, Token::Number(text)) => {
                let value: u32 = text.parse().map_err(|_| wrong("an integer of 32 bits"))?;
                put_varint(self.out, key);
                put_varint(self.out, u64::from(value));
            }
            (Kind::Enum, Token::Number(text)) => {
                let value: i32 = text.parse().map_err(|_| wrong("an integer of 32 bits"))?;
                put_varint(self.out, key);
                put_varint(self.out, i64::from(value).cast_unsigned());
            }
            (Kind::Integer, _) => {
                let value = signed(&token).ok_or_else(|| wrong("an integer of 64 bits"))?;
                put_varint(self.out, key);
                put_varint(self.out, value.cast_unsigned());
            }
            (Kind::SFixed64, _) => {
                let value = signed(&token).ok_or_else(|| wrong("an integer of 64 bits"))?;
                self.fixed64(key, value.cast_unsigned());
            }
            (Kind::Fixed64, _) => {
                let value = unsigned(&token).ok_or_else(|| wrong("an integer of 64 bits"))?;
                self.fixed64(key, value);
            }
            (Kind::Double, _) => {
                let value = double(&token).ok_or_else(|| wrong("a number"))?;
                self.fixed64(key, value.to_bits());
            }
            (Kind::Fixed32, Token::Number(text)) => {
                let value: u32 = text.parse().map_err(|_| wrong("an integer of 32 bits"))?;
                put_varint(self.out, key | 5);
                self.out.extend_from_slice(&value.to_le_bytes());
            }
            (kind, _) => return Err(wrong(kind.wanted())),
        }
        Ok(())
    }

    fn fixed64(&mut self, key: u64, bits: u64) {
        put_varint(self.out, key | 1);
        self.out.extend_from_slice(&bits.to_le_bytes());
    }
}

/// Parses an integer: a JSON number, or a string, the form of 64-bit integers in OTLP's JSON.
fn signed(token: &Token<'_>) -> Option<i64> {
    match token {
        Token::Number(text) => text.parse().ok(),
        Token::Text(text) => text.parse().ok(),
        Token::Boolean(_) => None,
    }
}

fn unsigned(token: &Token<'_>) -> Option<u64> {
    match token {
        Token::Number(text) => text.parse().ok(),
        Token::Text(text) => text.parse().ok(),
        Token::Boolean(_) => None,
    }
}

fn double(token: &Token<'_>) -> Option<f64> {
    let finite = |text: &str| {
        let value: f64 = fast_float2::parse(text).ok()?;
        value.is_finite().then_some(value)
    };
    match token {
        Token::Number(text) => finite(text),
        Token::Text(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            other => finite(other),
        },
        Token::Boolean(_) => None,
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// The error for JSON that is not OTLP: at byte `at`, `wanted` was expected.
fn malformed(at: usize, wanted: &str, found: &str) -> Error {
    Error::new(
        ErrorKind::ProtocolViolation,
        format!(
            "the body is not OTLP in JSON: {wanted} at byte {at}, found \"{}\"",
            excerpt(found)
        ),
    )
    .with_hint("send JSON in the form of protobuf's mapping and OTLP, or application/x-protobuf")
}
