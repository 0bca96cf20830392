//! Formats a number by a pattern, for `to_char`.

use stratalog_model::{Error, ErrorKind};

use super::{Locale, Pattern, Piece};

/// Formats a number that has `scale` digits after the point.
///
/// # Errors
/// `InvalidTextRepresentation` if `TH` follows a number without a last digit.
pub(super) fn decimal(pattern: &Pattern, value: i128, scale: i32) -> Result<String, Error> {
    if let Some(upper) = pattern.roman {
        let whole = rounded(value, scale, 0);
        let text = i64::try_from(whole).ok().and_then(|whole| roman(whole, upper));
        return Ok(with_roman(pattern, text));
    }
    if pattern.exponent {
        return Ok(scientific(&digits(value, scale), value < 0, pattern.behind));
    }
    let scale = scale - i32::try_from(pattern.multiplied).unwrap_or(0);
    let text = fixed(value, scale, pattern.behind);
    // A number that is rounded to zero has no sign.
    let negative = value < 0 && text.bytes().any(|byte| !matches!(byte, b'0' | b'.'));
    number(&widened(pattern), &text, negative)
}

/// Formats a float with `digits` significant digits.
///
/// # Errors
/// `InvalidTextRepresentation` if `TH` follows a number without a last digit.
pub(super) fn float(pattern: &Pattern, value: f64, digits: usize) -> Result<String, Error> {
    if let Some(upper) = pattern.roman {
        #[expect(clippy::cast_possible_truncation, reason = "saturates, and is checked for range")]
        let whole = value.round_ties_even() as i64;
        return Ok(with_roman(pattern, roman(whole, upper)));
    }
    if pattern.exponent {
        if !value.is_finite() {
            let mut text = vec!['#'; pattern.before + pattern.behind + 6];
            if let Some(point) = text.get_mut(pattern.before + 1) {
                *point = '.';
            }
            if let Some(first) = text.first_mut() {
                *first = ' ';
            }
            return Ok(text.into_iter().collect());
        }
        let text = format!("{:.*e}", pattern.behind, value.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let sign = if value.is_sign_negative() { '-' } else { ' ' };
        return Ok(format!("{sign}{mantissa}{}", exponent_of(exponent.parse().unwrap_or(0))));
    }
    let mut value = value;
    for _ in 0..pattern.multiplied {
        value *= 10.0;
    }
    if !value.is_finite() {
        let text = if value.is_nan() { "NaN" } else { "Infinity" };
        return number(&widened(pattern), text, value < 0.0);
    }
    let whole = format!("{:.0}", value.abs()).len();
    let behind = pattern.behind.min(digits.saturating_sub(whole));
    let text = format!("{:.*}", behind, value.abs());
    let pattern = Pattern { behind, ..widened(pattern) };
    number(&pattern, &text, value.is_sign_negative())
}

/// The pattern with additional digit positions for the digits that `V` adds.
fn widened(pattern: &Pattern) -> Pattern {
    Pattern { before: pattern.before + pattern.multiplied, ..pattern.clone() }
}

/// Splits a number that has `scale` digits after the point: returns the digits before and after the
/// point, without the sign.
fn digits(value: i128, scale: i32) -> (String, String) {
    let all = value.unsigned_abs().to_string();
    let Ok(scale) = usize::try_from(scale) else {
        let zeros = if value == 0 { 0 } else { usize::try_from(-scale).unwrap_or(0) };
        return (all + &"0".repeat(zeros), String::new());
    };
    let all = format!("{all:0>width$}", width = scale + 1);
    let (whole, fraction) = all.split_at(all.len() - scale);
    (whole.to_string(), fraction.to_string())
}

/// Rounds a number that has `scale` digits after the point to `wanted` digits after the point.
fn rounded(value: i128, scale: i32, wanted: i32) -> i128 {
    let Ok(fewer) = u32::try_from(scale - wanted) else { return value };
    match 10_i128.checked_pow(fewer) {
        Some(unit) => {
            let half = unit / 2;
            if value < 0 { (value - half) / unit } else { (value + half) / unit }
        }
        None => 0,
    }
}

/// Formats a number without its sign, with `wanted` digits after the point.
fn fixed(value: i128, scale: i32, wanted: usize) -> String {
    let behind = i32::try_from(wanted).unwrap_or(i32::MAX);
    let (value, scale) = match scale > behind {
        true => (rounded(value, scale, behind), behind),
        false => (value, scale),
    };
    let (whole, mut fraction) = digits(value, scale);
    while fraction.len() < wanted {
        fraction.push('0');
    }
    if fraction.is_empty() { whole } else { format!("{whole}.{fraction}") }
}

fn scientific((whole, fraction): &(String, String), negative: bool, behind: usize) -> String {
    let all = format!("{whole}{fraction}");
    let sign = if negative { '-' } else { ' ' };
    let Some(first) = all.find(|digit: char| digit != '0') else {
        let zeros = fixed(0, 0, behind);
        return format!("{sign}{zeros}{}", exponent_of(0));
    };
    let significant = all.get(first..).unwrap_or("0");
    let mut exponent =
        i64::try_from(whole.len()).unwrap_or(0) - i64::try_from(first).unwrap_or(0) - 1;
    let value: i128 = significant.parse().unwrap_or(0);
    let scale = i32::try_from(significant.len()).unwrap_or(1) - 1;
    let mut mantissa = fixed(value, scale, behind);
    // Rounding may have turned a mantissa such as 9.99 into 10.0.
    if mantissa.starts_with("10")
        && (mantissa.len() == 2 || mantissa.as_bytes().get(2) == Some(&b'.'))
    {
        exponent += 1;
        mantissa = fixed(1, 0, behind);
    }
    format!("{sign}{mantissa}{}", exponent_of(exponent))
}

fn exponent_of(exponent: i64) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("e{sign}{:02}", exponent.abs())
}

fn roman(value: i64, upper: bool) -> Option<String> {
    const PARTS: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..=3999).contains(&value) {
        return None;
    }
    let mut rest = value;
    let mut text = String::new();
    for (part, letters) in PARTS {
        while rest >= part {
            text.push_str(letters);
            rest -= part;
        }
    }
    Some(if upper { text } else { text.to_lowercase() })
}

fn with_roman(pattern: &Pattern, roman: Option<String>) -> String {
    let roman = roman.unwrap_or_else(|| "#".repeat(15));
    let mut text = String::new();
    for piece in &pattern.pieces {
        match piece {
            Piece::Roman { .. } if pattern.filled => text.push_str(&roman),
            Piece::Roman { .. } => text.push_str(&format!("{roman:>15}")),
            Piece::Letter(letter) => text.push(*letter),
            _ => {}
        }
    }
    text
}

/// Formats the number in `text`, which has no sign, by the pattern.
fn number(pattern: &Pattern, text: &str, negative: bool) -> Result<String, Error> {
    let whole = text.split('.').next().unwrap_or("").len();
    let mut number_text: Vec<u8> = text.bytes().collect();
    let blanks = pattern.before.saturating_sub(whole);
    // If the number has more digits before the point than the pattern, the result consists of `#`.
    if whole > pattern.before {
        number_text = vec![b'#'; pattern.before];
        number_text.push(b'.');
        number_text.resize(pattern.before + pattern.behind + 1, b'#');
    }
    Writer::new(pattern, number_text, blanks, negative).write()
}

struct Writer<'a> {
    pattern: &'a Pattern,
    number_text: Vec<u8>,
    negative: bool,
    /// The number of digit positions of the pattern before the first digit of the number.
    blanks: usize,
    brackets: bool,
    sign: Locale,
    sign_written: bool,
    /// The number of digit positions, plus one if the sign needs a separate position.
    count: usize,
    /// For a pattern with `FM` and a point: the index of the last digit that is written, or of the
    /// point if no digit after it is written.
    last: Option<usize>,
    /// The index of the next character in `number_text`.
    next: usize,
    /// The index of the next digit position of the pattern.
    place: usize,
    /// True if the last written character was a digit. A group separator is written only then.
    within: bool,
    /// True if the number has no further digit. PostgreSQL then ends the text.
    ended: bool,
    out: String,
}

impl<'a> Writer<'a> {
    fn new(pattern: &'a Pattern, number_text: Vec<u8>, blanks: usize, negative: bool) -> Self {
        let (mut brackets, mut sign) = (pattern.brackets, pattern.sign);
        let sign_written = if pattern.plus || pattern.minus {
            !pattern.plus || pattern.minus
        } else {
            brackets &= negative || !pattern.filled;
            if sign == Locale::Before && pattern.before == pattern.before_sign {
                sign = Locale::Behind;
            }
            !negative && pattern.filled && pattern.sign == Locale::None
        };
        let count = pattern.behind + pattern.before + usize::from(!sign_written && blanks == 0);
        let last =
            (pattern.filled && pattern.point).then(|| last_shown(pattern, &number_text, blanks));
        Self {
            pattern,
            number_text,
            negative,
            blanks,
            brackets,
            sign,
            sign_written,
            count,
            last: last.flatten(),
            next: 0,
            place: 0,
            within: false,
            ended: false,
            out: String::new(),
        }
    }

    fn write(mut self) -> Result<String, Error> {
        for piece in &self.pattern.pieces {
            if self.ended {
                break;
            }
            match piece {
                Piece::Nine | Piece::Zero | Piece::Point => self.place(*piece),
                Piece::Comma | Piece::Group if self.within => self.out.push(','),
                Piece::Comma | Piece::Group | Piece::Currency
                    if self.pattern.filled && *piece != Piece::Currency => {}
                Piece::Comma | Piece::Group | Piece::Currency => self.out.push(' '),
                Piece::Minus | Piece::Plus => match (*piece == Piece::Minus) == self.negative {
                    true => self.out.push(if self.negative { '-' } else { '+' }),
                    false if self.pattern.filled => {}
                    false => self.out.push(' '),
                },
                Piece::Sign => self.out.push(if self.negative { '-' } else { '+' }),
                Piece::Ordinal { upper } => self.ordinal(*upper)?,
                Piece::Roman { .. } => {}
                Piece::Letter(letter) => self.out.push(*letter),
            }
        }
        Ok(self.out)
    }

    fn ordinal(&mut self, upper: bool) -> Result<(), Error> {
        if self.number_text.first() == Some(&b'#') || self.negative || self.pattern.point {
            return Ok(());
        }
        let mut digits = self.number_text.iter().rev();
        let (one, ten) = (digits.next(), digits.next());
        if !one.is_some_and(u8::is_ascii_digit) {
            return Err(Error::new(
                ErrorKind::InvalidTextRepresentation,
                format!("\"{}\" is not a number", String::from_utf8_lossy(&self.number_text)),
            ));
        }
        let suffix = match (ten, one) {
            (Some(b'1'), _) => "th",
            (_, Some(b'1')) => "st",
            (_, Some(b'2')) => "nd",
            (_, Some(b'3')) => "rd",
            _ => "th",
        };
        self.out.push_str(&if upper { suffix.to_uppercase() } else { suffix.to_string() });
        Ok(())
    }

    /// True if the zero before the point is not written: the pattern `9.9` formats 0.1 as `.1`.
    fn hides_zero(&self) -> bool {
        self.pattern.zeros.is_none_or(|(first, _)| first == usize::MAX)
            && self.next == 0
            && self.number_text.first() == Some(&b'0')
            && self.pattern.behind != 0
    }

    fn ends_at_point(&self) -> bool {
        self.last.is_some_and(|last| self.number_text.get(last) == Some(&b'.'))
    }

    fn place(&mut self, piece: Piece) {
        let pattern = self.pattern;
        let first_zero = pattern.zeros.map(|(first, _)| first);
        self.within = false;
        if !self.sign_written
            && (self.place >= self.blanks || first_zero == Some(self.place))
            && (!self.hides_zero() || self.ends_at_point())
        {
            self.write_sign();
        }
        if self.place < self.blanks {
            if first_zero.is_some_and(|first| first <= self.place) {
                self.out.push('0');
                self.within = true;
            } else if !pattern.filled {
                self.out.push(' ');
            }
        } else {
            self.digit(piece);
            if self.ended {
                return;
            }
        }
        let end = self.count + usize::from(self.blanks > 0) + usize::from(pattern.point);
        if self.last != Some(self.next) && self.place + 2 == end {
            if self.sign_written && self.brackets {
                self.out.push(if self.negative { '>' } else { ' ' });
            } else if self.sign == Locale::Behind {
                self.out.push(if self.negative { '-' } else { '+' });
            }
        }
        self.place += 1;
    }

    fn write_sign(&mut self) {
        match self.sign {
            Locale::Before => self.out.push(if self.negative { '-' } else { '+' }),
            Locale::Behind => return,
            Locale::None if self.brackets => self.out.push(if self.negative { '<' } else { ' ' }),
            Locale::None if self.negative => self.out.push('-'),
            Locale::None if !self.pattern.filled => self.out.push(' '),
            Locale::None => {}
        }
        self.sign_written = true;
    }

    fn digit(&mut self, piece: Piece) {
        let behind_last = self.last.is_some_and(|last| self.next > last) && piece != Piece::Zero;
        let Some(digit) = self.number_text.get(self.next).copied() else {
            self.ended = !behind_last;
            return;
        };
        if digit == b'.' {
            if !self.ends_at_point() || self.pattern.filled {
                self.out.push('.');
            }
        } else if behind_last {
        } else if self.hides_zero() {
            if !self.pattern.filled {
                self.out.push(' ');
            } else if self.ends_at_point() {
                self.out.push('0');
            }
        } else {
            self.out.push(char::from(digit));
            self.within = true;
        }
        self.next += 1;
    }
}

/// The index of the last digit that `FM` keeps: the last nonzero digit after the point, the last
/// digit that a `0` in the pattern forces, or else the point. `None` without a point.
fn last_shown(pattern: &Pattern, number_text: &[u8], blanks: usize) -> Option<usize> {
    let point = number_text.iter().position(|byte| *byte == b'.')?;
    let mut last = point;
    for (at, digit) in number_text.iter().enumerate().skip(point + 1) {
        if *digit != b'0' {
            last = at;
        }
    }
    if let Some((_, end)) = pattern.zeros
        && end > blanks
    {
        last = last.max((end - blanks).min(number_text.len().saturating_sub(1)));
    }
    Some(last)
}
