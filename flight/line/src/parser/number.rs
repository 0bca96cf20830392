//! Reads numbers, eight digits at a time.
//!
//! ```text
//! bytes    5  8  i  ,  u  s  a  g      one 64-bit word, the first byte in the lowest bits
//! digits   ✓  ✓                        2 leading digits
//! shifted  0  0  0  0  0  0  5  8      the digits are the last of eight, after zeros
//! value                        58      three multiplications for any number of digits
//! ```

use crate::FieldValue;

const ONES: u64 = 0x0101_0101_0101_0101;
const ZEROS: u64 = b'0' as u64 * ONES;

/// The powers of ten as integers.
const TENS: [u64; 20] = tens();

/// The powers of ten that a double represents exactly.
const TENS_EXACT: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// A double represents every integer up to this limit exactly.
const EXACT_MAX: u64 = 1 << 53;

const fn tens() -> [u64; 20] {
    let mut tens = [1; 20];
    let mut at = 1;
    while at < tens.len() {
        #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
        {
            tens[at] = tens[at - 1] * 10;
        }
        at += 1;
    }
    tens
}

/// The eight bytes of `data` at position `at` as a little-endian integer; zeros after the end of
/// `data`.
#[inline]
fn word(data: &[u8], at: usize) -> u64 {
    let rest = data.get(at..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => last_word(rest),
    }
}

#[cold]
fn last_word(rest: &[u8]) -> u64 {
    rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The number of leading bytes of a word that are digits.
#[inline]
fn digits(word: u64) -> u32 {
    let values = word ^ ZEROS;
    // Sets the high bit of each byte that is no digit: 0x76 + 10 = 0x80, and no byte carries into
    // the next.
    let others = (((values & (0x7f * ONES)) + 0x76 * ONES) | values) & (0x80 * ONES);
    others.trailing_zeros() / 8
}

/// The decimal value of the first `digits` bytes of a word, which are digits. `digits` is 1 to 8.
#[inline]
fn value(word: u64, digits: u32) -> u64 {
    let eight = (word ^ ZEROS) << (64 - 8 * digits);
    // First pairs of digits, then all digits: the method of Johnny Lee and Daniel Lemire.
    let pairs = eight.wrapping_mul(10).wrapping_add(eight >> 8);
    let high = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let low = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    high.wrapping_add(low) >> 32
}

#[inline]
fn ten(digits: u32) -> u64 {
    TENS.get(digits as usize).copied().unwrap_or(u64::MAX)
}

/// A sequence of decimal digits, without sign or point.
struct Digits {
    /// The value of the digits; `None` if the value exceeds 64 bits.
    value: Option<u64>,
    /// The position after the digits.
    end: usize,
}

/// Reads the digits at `start`; `None` if there is no digit.
#[inline(always)]
fn run(data: &[u8], start: usize) -> Option<Digits> {
    let first = word(data, start);
    match digits(first) {
        0 => None,
        8 => Some(longer_run(data, start + 8, value(first, 8))),
        count => Some(Digits { value: Some(value(first, count)), end: start + count as usize }),
    }
}

#[inline(always)]
fn longer_run(data: &[u8], mut end: usize, value_so_far: u64) -> Digits {
    let mut total = Some(value_so_far);
    loop {
        let next = word(data, end);
        let count = digits(next);
        if count == 0 {
            return Digits { value: total, end };
        }
        let more = value(next, count);
        total = total.and_then(|total| total.checked_mul(ten(count))?.checked_add(more));
        end += count as usize;
        if count < 8 {
            return Digits { value: total, end };
        }
    }
}

/// The result of reading a number.
#[derive(Debug, PartialEq)]
pub(super) enum Number {
    /// A number, and the position after the number.
    Is(FieldValue<'static>, usize),
    /// A number outside of the range of its kind.
    OutOfRange,
    /// The text is not a number.
    Not,
}

/// Reads the number at `start`, in one of three forms.
///
/// ```text
/// [-] digits i        digits u        [-] digits [. digits] [e [+|-] digits]
/// ```
#[inline(always)]
pub(super) fn number(data: &[u8], start: usize) -> Number {
    let negative = data.get(start) == Some(&b'-');
    let from = start + usize::from(negative);
    let first = word(data, from);
    let count = digits(first);
    if count == 0 {
        return Number::Not;
    }
    if count < 8 {
        let whole = value(first, count) as i64;
        let end = from + count as usize;
        let signed = if negative { -whole } else { whole };
        match (first >> (8 * count)) as u8 {
            b'i' => return Number::Is(FieldValue::Integer(signed), end + 1),
            b'u' if !negative => return Number::Is(FieldValue::Unsigned(whole as u64), end + 1),
            b'.' => return fraction(data, start, negative, Some(whole as u64), end),
            b'e' | b'E' => return any_float(data, start, end),
            // `-0` is a float, and differs from 0.
            _ => {
                let float = whole as f64;
                let float = if negative { -float } else { float };
                return Number::Is(FieldValue::Float(float), end);
            }
        }
    }
    long_number(data, start, negative, longer_run(data, from + 8, value(first, 8)))
}

/// Reads a number with eight or more digits before the point. `whole` is the first run of digits.
fn long_number(data: &[u8], start: usize, negative: bool, whole: Digits) -> Number {
    let end = whole.end;
    match data.get(end) {
        Some(b'i') => match whole.value.and_then(|value| signed(value, negative)) {
            Some(value) => Number::Is(FieldValue::Integer(value), end + 1),
            None => Number::OutOfRange,
        },
        Some(b'u') if !negative => match whole.value {
            Some(value) => Number::Is(FieldValue::Unsigned(value), end + 1),
            None => Number::OutOfRange,
        },
        Some(b'.') => fraction(data, start, negative, whole.value, end),
        _ => any_float(data, start, end),
    }
}

/// Reads a float whose decimal point is at `point`. `whole` is the value of the digits before the
/// point.
#[inline(always)]
fn fraction(data: &[u8], start: usize, negative: bool, whole: Option<u64>, point: usize) -> Number {
    let Some(digits) = run(data, point + 1) else { return Number::Not };
    let count = digits.end - point - 1;
    let exact = || {
        // The quotient of an exact number and an exact power of ten is the nearest float.
        let scale = *TENS.get(count)?;
        let units = whole?.checked_mul(scale)?.checked_add(digits.value?)?;
        (units <= EXACT_MAX).then_some(())?;
        let float = units as i64 as f64 / *TENS_EXACT.get(count)?;
        (!matches!(data.get(digits.end), Some(b'e' | b'E'))).then_some(float)
    };
    match exact() {
        Some(float) => {
            Number::Is(FieldValue::Float(if negative { -float } else { float }), digits.end)
        }
        None => any_float(data, start, digits.end),
    }
}

/// Reads a float with any syntax. The digits from `start` up to `end` are already checked; a
/// fraction and an exponent may follow at `end`.
fn any_float(data: &[u8], start: usize, mut end: usize) -> Number {
    if let Some(b'e' | b'E') = data.get(end) {
        let sign = matches!(data.get(end + 1), Some(b'+' | b'-'));
        match run(data, end + 1 + usize::from(sign)) {
            Some(digits) => end = digits.end,
            None => return Number::Not,
        }
    }
    match fast_float2::parse::<f64, _>(data.get(start..end).unwrap_or_default()) {
        Ok(float) if float.is_finite() => Number::Is(FieldValue::Float(float), end),
        Ok(_) => Number::OutOfRange,
        Err(_) => Number::Not,
    }
}

/// The result of reading a timestamp.
#[derive(Debug, PartialEq)]
pub(super) enum Timestamp {
    /// A timestamp, and the position after the timestamp.
    Is(i64, usize),
    /// An integer beyond 64 bits.
    OutOfRange,
    /// The text is not an integer.
    Not,
}

/// Reads the integer at `start`, a timestamp in the unit of the request.
#[inline(always)]
pub(super) fn timestamp(data: &[u8], start: usize) -> Timestamp {
    let negative = data.get(start) == Some(&b'-');
    let Some(digits) = run(data, start + usize::from(negative)) else { return Timestamp::Not };
    match digits.value.and_then(|value| signed(value, negative)) {
        Some(value) => Timestamp::Is(value, digits.end),
        None => Timestamp::OutOfRange,
    }
}

#[inline]
fn signed(value: u64, negative: bool) -> Option<i64> {
    if negative { 0_i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

#[cfg(test)]
mod tests;
