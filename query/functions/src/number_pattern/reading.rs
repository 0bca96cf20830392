//! Parses a number by a pattern, for `to_number`.

use stratalog_model::{Error, ErrorKind};

use super::{Locale, Pattern, Piece};

/// Parses the number in `text` by the pattern. The result is the number times ten to the power of
/// `scale`.
///
/// # Errors
/// `InvalidTextRepresentation` if the text contains no number.
pub(super) fn number(pattern: &Pattern, text: &str, scale: i8) -> Result<i128, Error> {
    if pattern.roman.is_some() {
        return Err(Error::not_yet("to_number() with \"RN\""));
    }
    if pattern.exponent {
        return Err(Error::not_yet("to_number() with \"EEEE\""));
    }
    let mut reader = NumberReader {
        pattern,
        text: text.chars().collect(),
        at: 0,
        sign: None,
        digits: String::new(),
        point: None,
        before: 0,
    };
    reader.read();
    reader.value(scale)
}

struct NumberReader<'a> {
    pattern: &'a Pattern,
    text: Vec<char>,
    at: usize,
    sign: Option<char>,
    digits: String,
    /// The number of digits before the decimal point; `None` until the point is read.
    point: Option<usize>,
    before: usize,
}

impl NumberReader<'_> {
    fn here(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn read(&mut self) {
        for piece in &self.pattern.pieces {
            if self.here().is_none() {
                break;
            }
            match piece {
                Piece::Nine | Piece::Zero | Piece::Point => self.place(*piece),
                Piece::Comma | Piece::Group => {
                    if !self.pattern.filled && self.here() == Some(',') {
                        self.at += 1;
                    }
                    continue;
                }
                Piece::Currency => {
                    self.skip(1);
                    continue;
                }
                Piece::Minus if self.here() == Some('-') => self.sign = Some('-'),
                Piece::Plus if self.here() == Some('+') => self.sign = Some('+'),
                Piece::Sign if matches!(self.here(), Some('-' | '+')) => self.sign = self.here(),
                Piece::Ordinal { .. } => {
                    self.skip(2);
                    continue;
                }
                Piece::Minus | Piece::Plus | Piece::Sign => {
                    self.skip(1);
                    continue;
                }
                Piece::Letter(_) => {}
                Piece::Roman { .. } => continue,
            }
            self.at += 1;
        }
    }

    /// Skips up to `count` characters that cannot be part of a number.
    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            match self.here() {
                Some(letter) if !"0123456789.,+-".contains(letter) => self.at += 1,
                _ => return,
            }
        }
    }

    fn read_digits(&self) -> usize {
        self.digits.len()
    }

    /// Reads the character of the text for a digit or point of the pattern. The position stays on
    /// the last character read; the caller moves it on.
    fn place(&mut self, piece: Piece) {
        if self.here() == Some(' ') {
            self.at += 1;
        }
        if self.sign.is_none() && piece != Piece::Point && self.read_digits() == 0 {
            self.leading_sign();
        }
        let Some(letter) = self.here() else { return };
        let mut was_read = false;
        if letter.is_ascii_digit() {
            if self.point.is_some_and(|before| self.read_digits() - before == self.pattern.behind) {
                return;
            }
            self.digits.push(letter);
            was_read = true;
        } else if letter == '.' && self.pattern.point && self.point.is_none() {
            self.point = Some(self.read_digits());
            was_read = true;
        }
        if self.sign.is_none() && self.read_digits() > 0 {
            self.trailing_sign(was_read);
        }
    }

    fn leading_sign(&mut self) {
        let sign = match (self.here(), self.pattern.sign) {
            (Some(sign @ ('-' | '+')), Locale::Before | Locale::None) => sign,
            (Some('<'), Locale::None) if self.pattern.brackets => '-',
            (Some(sign @ ('-' | '+')), Locale::Behind) => sign,
            _ => return,
        };
        self.sign = Some(sign);
        self.at += 1;
    }

    fn trailing_sign(&mut self, was_read: bool) {
        let plain = self.pattern.sign == Locale::None;
        if !plain && was_read {
            if let Some(sign @ ('-' | '+')) = self.text.get(self.at + 1) {
                self.sign = Some(*sign);
                self.at += 1;
            }
        } else if plain
            && !was_read
            && !self.pattern.plus
            && !self.pattern.minus
            && let Some(sign @ ('-' | '+')) = self.here()
        {
            self.sign = Some(sign);
            self.at += 1;
        }
    }

    fn value(mut self, scale: i8) -> Result<i128, Error> {
        self.before = self.point.unwrap_or(self.digits.len());
        if self.digits.is_empty() {
            let shown = format!(
                "{}{}",
                self.sign.unwrap_or(' '),
                if self.point.is_some() { "." } else { "" }
            );
            return Err(Error::new(
                ErrorKind::InvalidTextRepresentation,
                format!("invalid input syntax for type numeric: \"{shown}\""),
            ));
        }
        let overflow = || Error::new(ErrorKind::NumericOutOfRange, "numeric field overflow");
        let whole: i128 = self.digits.parse().map_err(|_| overflow())?;
        let behind = self.digits.len() - self.before + self.pattern.multiplied;
        let more = i64::from(scale) - i64::try_from(behind).unwrap_or(i64::MAX);
        let value = match u32::try_from(more) {
            Ok(more) => 10_i128.checked_pow(more).and_then(|unit| whole.checked_mul(unit)),
            Err(_) => u32::try_from(-more)
                .ok()
                .and_then(|fewer| 10_i128.checked_pow(fewer))
                .map(|unit| (whole + unit / 2) / unit),
        };
        let value = value.filter(|value| *value < 10_i128.pow(38)).ok_or_else(overflow)?;
        Ok(if self.sign == Some('-') { -value } else { value })
    }
}
