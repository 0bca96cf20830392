//! Parses integers, floats and numerics.

use stratalog_model::{ColumnType, Error, ErrorKind, Result, types::NUMERIC_PRECISION_MAX};

use super::{invalid_syntax, shortened, trim};

fn out_of_range(type_name: &str, text: &str) -> Error {
    Error::new(
        ErrorKind::NumericOutOfRange,
        format!("value \"{}\" is out of range for type {type_name}", shortened(text)),
    )
}

/// Parses a decimal integer to an `i64`. The inner error means that the number overflows an `i64`.
/// `None` if the text is not an integer.
#[inline]
fn digits(text: &str) -> Option<Result<i64, ()>> {
    let bytes = text.as_bytes();
    let (negative, digits) = match bytes.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, bytes),
    };
    if digits.is_empty() {
        return None;
    }
    // The value is computed as a negative number, because the negative range of an `i64` is larger
    // by one.
    let mut value: i64 = 0;
    let mut overflow = false;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        match value.checked_mul(10).and_then(|value| value.checked_sub(i64::from(digit))) {
            Some(next) => value = next,
            None => overflow = true,
        }
    }
    if overflow {
        return Some(Err(()));
    }
    if negative {
        return Some(Ok(value));
    }
    Some(value.checked_neg().ok_or(()))
}

macro_rules! integer {
    ($(#[$doc:meta])* $name:ident, $type:ty, $sql:literal) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// `InvalidTextRepresentation`, `NumericOutOfRange`.
        #[inline]
        pub fn $name(text: &str) -> Result<$type> {
            match digits(text).or_else(|| digits(trim(text))) {
                Some(Ok(value)) => {
                    <$type>::try_from(value).map_err(|_| out_of_range($sql, text))
                }
                Some(Err(())) => Err(out_of_range($sql, text)),
                None => Err(invalid_syntax($sql, text)),
            }
        }
    };
}

integer!(
    /// Parses a `smallint`.
    parse_smallint,
    i16,
    "smallint"
);
integer!(
    /// Parses an `integer`.
    parse_integer,
    i32,
    "integer"
);
integer!(
    /// Parses a `bigint`.
    parse_bigint,
    i64,
    "bigint"
);

macro_rules! float {
    ($(#[$doc:meta])* $name:ident, $type:ty, $sql:literal) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// `InvalidTextRepresentation`, `NumericOutOfRange`.
        #[inline]
        pub fn $name(text: &str) -> Result<$type> {
            let value = match fast_float2::parse::<$type, _>(text) {
                Ok(value) => value,
                Err(_) => fast_float2::parse::<$type, _>(trim(text))
                    .map_err(|_| invalid_syntax($sql, text))?,
            };
            if (value == 0.0 || value.is_infinite()) && !means(text, value == 0.0) {
                return Err(Error::new(
                    ErrorKind::NumericOutOfRange,
                    format!("\"{}\" is out of range for type {}", shortened(text), $sql),
                ));
            }
            // All NaNs compare equal, so every NaN becomes the same NaN without a sign.
            Ok(if value.is_nan() { <$type>::NAN } else { value })
        }
    };
}

float!(
    /// Parses a `real`.
    parse_real,
    f32,
    "real"
);
float!(
    /// Parses a `double precision`.
    parse_double,
    f64,
    "double precision"
);

/// If `zero`, true if the text represents exactly zero; otherwise, true if the text represents
/// infinity. False for a number that only underflows to zero, or overflows to infinity, in the
/// type.
fn means(text: &str, zero: bool) -> bool {
    if zero {
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
    } else {
        text.bytes().any(|byte| matches!(byte, b'i' | b'I'))
    }
}

/// Parses a `numeric(precision, scale)`. The result is the number times ten to the power of
/// `scale`, rounded half away from zero.
///
/// # Errors
/// `InvalidTextRepresentation`; `NumericOutOfRange` if the number has too many digits;
/// `FeatureNotSupported` for NaN and infinities, which the type cannot hold.
pub fn parse_numeric(text: &str, precision: u8, scale: u8) -> Result<i128> {
    let trimmed = trim(text);
    let bytes = trimmed.as_bytes();
    let (negative, rest) = match bytes.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, bytes),
    };
    let invalid = || invalid_syntax("numeric", text);
    if rest.first().is_some_and(u8::is_ascii_alphabetic) {
        let name = String::from_utf8_lossy(rest).to_ascii_lowercase();
        return Err(match name.as_str() {
            "nan" | "inf" | "infinity" => Error::new(
                ErrorKind::FeatureNotSupported,
                format!("numeric cannot hold \"{trimmed}\""),
            )
            .with_hint("use double precision for values that are not finite"),
            _ => invalid(),
        });
    }
    // The text is split into mantissa and exponent, and the point is located.
    let exponent_at = rest.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = match exponent_at {
        None => (rest, 0),
        Some(at) => {
            let exponent = rest.get(at + 1..).and_then(|tail| std::str::from_utf8(tail).ok());
            let exponent = exponent.and_then(digits).ok_or_else(invalid)?;
            (rest.get(..at).unwrap_or_default(), exponent.unwrap_or(i64::MAX))
        }
    };
    let point = mantissa.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        None => (mantissa, &[][..]),
        Some(at) => {
            (mantissa.get(..at).unwrap_or_default(), mantissa.get(at + 1..).unwrap_or_default())
        }
    };
    if whole.is_empty() && fraction.is_empty()
        || !whole.iter().chain(fraction).all(u8::is_ascii_digit)
    {
        return Err(invalid());
    }
    let overflow = || numeric_overflow(precision, scale);
    // The number of digits that remain; further digits are below the last digit of the type.
    let whole_length = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    let kept = whole_length.saturating_add(exponent).saturating_add(i64::from(scale));
    let mut value: i128 = 0;
    let mut at: i64 = 0;
    let mut round_up = false;
    for byte in whole.iter().chain(fraction) {
        let digit = byte - b'0';
        if at >= kept {
            round_up = at == kept && digit >= 5;
            break;
        }
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(i128::from(digit)))
            .ok_or_else(overflow)?;
        at += 1;
    }
    if value != 0 {
        for _ in at..kept {
            value = value.checked_mul(10).ok_or_else(overflow)?;
        }
    }
    if round_up {
        value += 1;
    }
    if value >= 10_i128.checked_pow(u32::from(precision)).unwrap_or(i128::MAX) {
        return Err(overflow());
    }
    Ok(if negative { -value } else { value })
}

/// The error for a number with too many digits before the decimal point.
pub fn numeric_overflow(precision: u8, scale: u8) -> Error {
    let whole = precision.saturating_sub(scale);
    let bound = if whole == 0 { "1".to_string() } else { format!("10^{whole}") };
    Error::new(ErrorKind::NumericOutOfRange, "numeric field overflow").with_detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
    ))
}

/// The number of digits before the decimal point that a type reserves if the number needs more than
/// 38 digits.
const WHOLE_DIGITS: u8 = 18;

/// A numeric type, or an array type of numerics, that holds all digits of the text; beyond 38
/// digits, the last fraction digits are lost. `None` if `target` already holds all digits, or if no
/// type holds the digits before the point.
pub fn exact_type(text: &str, target: &ColumnType) -> Option<ColumnType> {
    match target {
        ColumnType::Array(element) => {
            let is_part =
                |character: char| character.is_ascii_alphanumeric() || ".+-".contains(character);
            let numbers = text.split(|character: char| !is_part(character));
            let numbers = numbers.filter(|number| !number.is_empty());
            let element = numbers.fold(element.as_ref().clone(), |before, number| {
                exact_type(number, &before).unwrap_or(before)
            });
            let exact = ColumnType::Array(Box::new(element));
            (exact != *target).then_some(exact)
        }
        ColumnType::Numeric { precision, scale } => {
            let number = text.trim().trim_start_matches(['+', '-']);
            let (mantissa, exponent) = match number.split_once(['e', 'E']) {
                Some((mantissa, exponent)) => (mantissa, exponent.parse::<i16>().ok()?),
                None => (number, 0),
            };
            let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
            let are_digits = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
            if !are_digits(whole) || !are_digits(fraction) {
                return None;
            }
            let digits = format!("{whole}{fraction}");
            let leading = digits.len() - digits.trim_start_matches('0').len();
            let trailing = digits.len() - digits.trim_end_matches('0').len();
            if leading == digits.len() {
                return None;
            }
            // The number of digits that the type needs before and after the decimal point.
            let places = |digits: usize| i16::try_from(digits).ok();
            let before = places(whole.len())?.checked_add(exponent)?;
            let first = before.checked_sub(places(leading)?)?;
            let last = places(digits.len() - trailing)?.checked_sub(before)?;
            let whole = u8::try_from(first.max(0)).ok()?;
            let fraction = u8::try_from(last.max(0)).unwrap_or(u8::MAX);
            let room = precision.saturating_sub(*scale);
            if whole <= room && fraction <= *scale {
                return None;
            }
            if whole.saturating_add(fraction) > NUMERIC_PRECISION_MAX {
                let left = NUMERIC_PRECISION_MAX.checked_sub(whole.max(WHOLE_DIGITS))?;
                return Some(ColumnType::Numeric { precision: whole + left, scale: left });
            }
            let scale = fraction.max(*scale);
            // The type keeps the digits of `target` before the point, within 38 digits, so that
            // longer numbers fit the same column.
            let precision = whole.max(room).saturating_add(scale).min(NUMERIC_PRECISION_MAX);
            let holds = whole.saturating_add(scale) <= precision;
            let (precision, scale) =
                if holds { (precision, scale) } else { (whole + fraction, fraction) };
            Some(ColumnType::Numeric { precision, scale })
        }
        _ => None,
    }
}
