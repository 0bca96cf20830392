//! The functions `to_char` of numbers and `to_number`, which use PostgreSQL's number patterns, for
//! example `FM999,990.00`.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, Decimal128Array},
    compute::cast,
    datatypes::{DataType, Decimal128Type, FieldRef, Float32Type, Float64Type},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::Volatility,
};
use stratalog_model::{ColumnType, Error, ErrorKind};

use crate::{
    failed,
    function::{Arguments, Function, Parameter, Returns, text_at, text_rows},
};

mod reading;
mod writing;

/// The SQL functions that this module declares.
pub fn functions() -> Vec<Function> {
    vec![Function {
        name: "to_number",
        aliases: &[],
        parameters: &[&[Parameter::Text, Parameter::Text]],
        returns: Returns::Constants(number_type),
        volatility: Volatility::Immutable,
        description: "The number in a text with the form of a pattern such as '999G999D99'.",
        run: Arc::new(to_number),
    }]
}

/// The result type of `to_number`: a numeric. A constant pattern determines the number of digits
/// after the point.
fn number_type(_: &[FieldRef], constants: &[Option<&ScalarValue>]) -> DataType {
    let pattern = constants.get(1).copied().flatten().and_then(|text| text.try_as_str().flatten());
    let scale = pattern.and_then(|pattern| Pattern::read(pattern).ok()).and_then(|pattern| {
        i8::try_from(pattern.behind.max(pattern.multiplied)).ok().filter(|scale| *scale <= 38)
    });
    DataType::Decimal128(38, scale.unwrap_or(ColumnType::NUMERIC_SCALE.cast_signed()))
}

fn to_number(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (texts, patterns) = (arguments.text(0)?, arguments.text(1)?);
    let DataType::Decimal128(precision, scale) = *arguments.result else {
        return Err(failed(Error::internal("to_number gives a numeric")));
    };
    let mut known = CachedPattern::default();
    let number = |row: usize| -> Result<Option<i128>> {
        let (Some(text), Some(pattern)) = (text_at(texts, row), text_at(patterns, row)) else {
            return Ok(None);
        };
        if pattern.is_empty() {
            return Ok(None);
        }
        reading::number(known.pattern(pattern)?, text, scale).map(Some).map_err(failed)
    };
    let mut number = number;
    let numbers = (0..arguments.rows).map(&mut number).collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(numbers.with_precision_and_scale(precision, scale)?))
}

/// Computes `to_char(number, pattern)`.
///
/// # Errors
/// The error of an invalid pattern.
pub fn to_char(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let numbers = arguments.array(0)?;
    let patterns = arguments.text(1)?;
    let mut known = CachedPattern::default();
    let numbers = match numbers.data_type() {
        kind if kind.is_integer() => cast(numbers, &DataType::Decimal128(20, 0))?,
        _ => Arc::clone(numbers),
    };
    text_rows(arguments.rows, |row| {
        let Some(pattern) =
            text_at(patterns, row).filter(|pattern| !pattern.is_empty() && numbers.is_valid(row))
        else {
            return Ok(None);
        };
        let pattern = known.pattern(pattern)?;
        let text = match numbers.data_type() {
            DataType::Decimal128(_, scale) => {
                let value = numbers.as_primitive::<Decimal128Type>().value(row);
                writing::decimal(pattern, value, i32::from(*scale))
            }
            DataType::Float32 => {
                let value = numbers.as_primitive::<Float32Type>().value(row);
                writing::float(pattern, f64::from(value), 6)
            }
            _ => {
                let value = numbers.as_primitive_opt::<Float64Type>();
                let value = value
                    .map(|values| values.value(row))
                    .ok_or_else(|| failed(Error::internal("to_char needs a number")))?;
                writing::float(pattern, value, 15)
            }
        };
        text.map(Some).map_err(failed)
    })
}

/// The pattern of the previous row with its parsed form. The next row often has the same pattern.
#[derive(Default)]
struct CachedPattern(Option<(String, Pattern)>);

impl CachedPattern {
    fn pattern(&mut self, text: &str) -> Result<&Pattern> {
        let known = self.0.take().filter(|(last, _)| last == text);
        let known = match known {
            Some(known) => known,
            None => (text.to_string(), Pattern::read(text).map_err(failed)?),
        };
        Ok(&self.0.insert(known).1)
    }
}

/// An element of a pattern, in the order of the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Nine,
    Zero,
    /// The decimal point: `.` or `D`.
    Point,
    Comma,
    /// The group separator: `G`.
    Group,
    /// The currency symbol: `L`.
    Currency,
    Minus,
    Plus,
    /// The sign: `SG`.
    Sign,
    Ordinal {
        upper: bool,
    },
    Roman {
        upper: bool,
    },
    Letter(char),
}

/// The position of the sign that the keyword `S` requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Locale {
    None,
    Before,
    Behind,
}

/// A parsed pattern of a number, for example of `FM999,990.00`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part of the pattern's language")]
struct Pattern {
    pieces: Vec<Piece>,
    /// The number of digit positions before the decimal point.
    before: usize,
    /// The number of digit positions after the decimal point.
    behind: usize,
    /// The number of digit positions after `V`. The number is multiplied by ten to this power.
    multiplied: usize,
    point: bool,
    /// `FM`: the result has no padding spaces.
    filled: bool,
    /// The first and the last position of the digits that are written as `0` rather than left
    /// blank; positions count from 0. The first is `usize::MAX` if only positions after the decimal
    /// point are written this way.
    zeros: Option<(usize, usize)>,
    sign: Locale,
    /// The number of digit positions before `S`.
    before_sign: usize,
    minus: bool,
    plus: bool,
    brackets: bool,
    roman: Option<bool>,
    exponent: bool,
    multiplies: bool,
    /// True if `B` precedes the digits. `B` has no effect, but is forbidden together with `EEEE`.
    blank: bool,
}

fn pattern_error(message: &str) -> Error {
    Error::new(ErrorKind::SyntaxError, message)
}

impl Pattern {
    fn read(text: &str) -> Result<Self, Error> {
        let mut pattern = Self {
            pieces: Vec::new(),
            before: 0,
            behind: 0,
            multiplied: 0,
            point: false,
            filled: false,
            zeros: None,
            sign: Locale::None,
            before_sign: 0,
            minus: false,
            plus: false,
            brackets: false,
            roman: None,
            exponent: false,
            multiplies: false,
            blank: false,
        };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let after = |length: usize| rest.get(length..).unwrap_or("");
            if first == '"' {
                rest = pattern.quoted(after(1));
                continue;
            }
            if first == '\\' && after(1).starts_with('"') {
                pattern.pieces.push(Piece::Letter('"'));
                rest = after(2);
                continue;
            }
            match KEYWORDS.iter().find(|(word, _)| starts(rest, word)) {
                Some((word, keyword)) => {
                    pattern.keyword(*keyword, rest.starts_with(char::is_uppercase))?;
                    rest = after(word.len());
                }
                None => {
                    pattern.pieces.push(Piece::Letter(first));
                    rest = after(first.len_utf8());
                }
            }
        }
        Ok(pattern)
    }

    /// Reads literal text up to the closing quote; returns the rest of the pattern.
    fn quoted<'a>(&mut self, text: &'a str) -> &'a str {
        let mut escaped = false;
        for (at, letter) in text.char_indices() {
            match letter {
                '"' if !escaped => return text.get(at + 1..).unwrap_or(""),
                '\\' if !escaped => escaped = true,
                letter => {
                    self.pieces.push(Piece::Letter(letter));
                    escaped = false;
                }
            }
        }
        ""
    }

    fn keyword(&mut self, keyword: Keyword, upper: bool) -> Result<(), Error> {
        if self.exponent && keyword != Keyword::Exponent {
            return Err(pattern_error("\"EEEE\" must be the last pattern used"));
        }
        match keyword {
            Keyword::Nine if self.brackets => {
                return Err(pattern_error("\"9\" must be ahead of \"PR\""));
            }
            Keyword::Zero if self.brackets => {
                return Err(pattern_error("\"0\" must be ahead of \"PR\""));
            }
            Keyword::Nine if self.multiplies => self.multiplied += 1,
            Keyword::Nine if self.point => self.behind += 1,
            Keyword::Nine => self.before += 1,
            Keyword::Zero => {
                let first = match self.zeros {
                    Some((first, _)) => first,
                    None if self.point => usize::MAX,
                    None => self.before,
                };
                match self.point {
                    true => self.behind += 1,
                    false => self.before += 1,
                }
                self.zeros = Some((first, self.before + self.behind));
            }
            Keyword::Point if self.point => return Err(pattern_error("multiple decimal points")),
            Keyword::Point if self.multiplies => {
                return Err(pattern_error("cannot use \"V\" and decimal point together"));
            }
            Keyword::Point => self.point = true,
            Keyword::Filled => self.filled = true,
            Keyword::Locale => {
                if self.sign != Locale::None {
                    return Err(pattern_error("cannot use \"S\" twice"));
                }
                if self.plus || self.minus || self.brackets {
                    return Err(pattern_error(
                        "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together",
                    ));
                }
                match self.point {
                    true => self.sign = Locale::Behind,
                    false => {
                        self.sign = Locale::Before;
                        self.before_sign = self.before;
                    }
                }
            }
            Keyword::Minus | Keyword::Plus | Keyword::Sign if self.sign != Locale::None => {
                return Err(pattern_error(match keyword {
                    Keyword::Minus => "cannot use \"S\" and \"MI\" together",
                    Keyword::Plus => "cannot use \"S\" and \"PL\" together",
                    _ => "cannot use \"S\" and \"SG\" together",
                }));
            }
            Keyword::Minus => self.minus = true,
            Keyword::Plus => self.plus = true,
            Keyword::Sign => (self.minus, self.plus) = (true, true),
            Keyword::Brackets => {
                if self.sign != Locale::None || self.plus || self.minus {
                    return Err(pattern_error(
                        "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together",
                    ));
                }
                self.brackets = true;
            }
            Keyword::Roman => self.roman = Some(upper),
            Keyword::Multiplied if self.point => {
                return Err(pattern_error("cannot use \"V\" and decimal point together"));
            }
            Keyword::Multiplied => self.multiplies = true,
            Keyword::Exponent => {
                if self.exponent {
                    return Err(pattern_error("cannot use \"EEEE\" twice"));
                }
                let others = self.filled
                    || self.sign != Locale::None
                    || self.brackets
                    || self.minus
                    || self.plus
                    || self.roman.is_some()
                    || self.multiplies
                    || self.blank;
                if others {
                    return Err(pattern_error("\"EEEE\" is incompatible with other formats"));
                }
                self.exponent = true;
            }
            Keyword::Blank => {
                self.blank |= self.before == 0 && self.behind == 0 && self.zeros.is_none();
            }
            Keyword::Comma
            | Keyword::Group
            | Keyword::Currency
            | Keyword::Ordinal
            | Keyword::Ignored => {}
        }
        self.pieces.extend(match keyword {
            Keyword::Nine => Some(Piece::Nine),
            Keyword::Zero => Some(Piece::Zero),
            Keyword::Point => Some(Piece::Point),
            Keyword::Comma => Some(Piece::Comma),
            Keyword::Group => Some(Piece::Group),
            Keyword::Currency => Some(Piece::Currency),
            Keyword::Minus => Some(Piece::Minus),
            Keyword::Plus => Some(Piece::Plus),
            Keyword::Sign => Some(Piece::Sign),
            Keyword::Ordinal => Some(Piece::Ordinal { upper }),
            Keyword::Roman => Some(Piece::Roman { upper }),
            _ => None,
        });
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyword {
    Nine,
    Zero,
    Point,
    Comma,
    Group,
    Currency,
    Filled,
    Locale,
    Minus,
    Plus,
    Sign,
    Brackets,
    Roman,
    Ordinal,
    Multiplied,
    Exponent,
    Blank,
    /// The keywords `C` and `SP`, which have no effect.
    Ignored,
}

/// The keywords. A long keyword comes before every keyword that is a prefix of it.
const KEYWORDS: &[(&str, Keyword)] = &[
    (",", Keyword::Comma),
    (".", Keyword::Point),
    ("0", Keyword::Zero),
    ("9", Keyword::Nine),
    ("B", Keyword::Blank),
    ("C", Keyword::Ignored),
    ("D", Keyword::Point),
    ("EEEE", Keyword::Exponent),
    ("FM", Keyword::Filled),
    ("G", Keyword::Group),
    ("L", Keyword::Currency),
    ("MI", Keyword::Minus),
    ("PL", Keyword::Plus),
    ("PR", Keyword::Brackets),
    ("RN", Keyword::Roman),
    ("SG", Keyword::Sign),
    ("SP", Keyword::Ignored),
    ("S", Keyword::Locale),
    ("TH", Keyword::Ordinal),
    ("V", Keyword::Multiplied),
];

/// True if the text starts with the keyword, in all capital or all small letters: `Mi` does not
/// match `MI`.
fn starts(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start == word || start == word.to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
