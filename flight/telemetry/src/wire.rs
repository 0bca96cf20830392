//! Decodes protobuf in place, field by field.
//!
//! ```text
//! key (varint)                     value
//! number << 3 | 0                  varint: 7 bits per byte, lowest first, at most 10 bytes
//! number << 3 | 1                  8 bytes
//! number << 3 | 2                  length (varint), bytes
//! number << 3 | 5                  4 bytes
//! ```

use std::fmt;

/// The reasons why a message is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The message ends in the middle of a number.
    Truncated,
    /// A varint of more than 64 bits.
    Varint,
    /// A length that exceeds the rest of the message.
    Length { said: u64, left: usize },
    /// A key that no field can have.
    Key(u64),
    /// The field with this number has a wrong wire type.
    Type(u32),
    /// Text that is not valid UTF-8.
    Text(&'static str),
    /// A field that may occur only once occurs again.
    Twice(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "the bytes end within a number"),
            Self::Varint => write!(f, "a number has more than 64 bits"),
            Self::Length { said, left } => {
                write!(f, "a length says {said} bytes, and {left} are left")
            }
            Self::Key(key) => write!(f, "{key} is the key of no field"),
            Self::Type(number) => {
                write!(f, "field {number} of a message does not have its defined type")
            }
            Self::Text(what) => write!(f, "{what} is not UTF-8"),
            Self::Twice(what) => write!(f, "{what} occurs twice, but may occur once"),
        }
    }
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// A field of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    pub(crate) value: Value<'a>,
}

impl<'a> Field<'a> {
    #[inline]
    pub(crate) fn bytes(self) -> Result<&'a [u8], Fault> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(Fault::Type(self.number)),
        }
    }

    #[inline]
    pub(crate) fn varint(self) -> Result<u64, Fault> {
        match self.value {
            Value::Varint(value) => Ok(value),
            _ => Err(Fault::Type(self.number)),
        }
    }

    #[inline]
    pub(crate) fn fixed64(self) -> Result<u64, Fault> {
        match self.value {
            Value::Fixed64(value) => Ok(value),
            _ => Err(Fault::Type(self.number)),
        }
    }

    #[inline]
    pub(crate) fn double(self) -> Result<f64, Fault> {
        self.fixed64().map(f64::from_bits)
    }

    pub(crate) fn fixed32(self) -> Result<u32, Fault> {
        match self.value {
            Value::Fixed32(value) => Ok(value),
            _ => Err(Fault::Type(self.number)),
        }
    }

    /// The value as text; an error for another type and for invalid UTF-8. `what` names the field
    /// in the error.
    pub(crate) fn text(self, what: &'static str) -> Result<&'a str, Fault> {
        text(self.bytes()?, what)
    }

    /// Appends the numbers of a repeated field, in packed or in single form.
    pub(crate) fn fixed64s(self, numbers: &mut Vec<u64>) -> Result<(), Fault> {
        let Value::Bytes(bytes) = self.value else {
            numbers.push(self.fixed64()?);
            return Ok(());
        };
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(Fault::Truncated);
        }
        numbers.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        Ok(())
    }
}

/// Converts UTF-8 bytes to text. `what` names the text in the error.
pub(crate) fn text<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, Fault> {
    simdutf8::basic::from_utf8(bytes).map_err(|_| Fault::Text(what))
}

/// Stores the value of a field in `place`; an error if `place` already has a value. `what` names
/// the field in the error.
pub(crate) fn once<'a>(
    place: &mut Option<&'a [u8]>,
    bytes: &'a [u8],
    what: &'static str,
) -> Result<(), Fault> {
    match place.replace(bytes) {
        None => Ok(()),
        Some(_) => Err(Fault::Twice(what)),
    }
}

/// Iterates over the fields of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    #[inline]
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field; `None` at the end of the message. After an error the caller must stop.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Field<'a>>, Fault> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = match u32::try_from(key >> 3) {
            Ok(number) if number > 0 && number < 1 << 29 => number,
            _ => return Err(Fault::Key(key)),
        };
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => Value::Bytes(self.delimited()?),
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(Fault::Key(key)),
        };
        Ok(Some(Field { number, value }))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Fault> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for (at, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if at == 9 && *byte > 1 {
                return Err(Fault::Varint);
            }
            if *byte < 0x80 {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(Fault::Truncated)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }

    #[inline]
    fn delimited(&mut self) -> Result<&'a [u8], Fault> {
        let said = self.varint()?;
        let split = usize::try_from(said).ok().and_then(|end| self.rest.split_at_checked(end));
        let Some((bytes, rest)) = split else {
            return Err(Fault::Length { said, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(bytes)
    }
}

/// Appends an integer as a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a field of bytes or of a message.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field with a varint.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

#[cfg(test)]
mod tests;
