//! Writes integers, numerics and floats.

use std::io::Write as _;

/// Appends the digits of an integer.
#[inline]
pub fn write_integer<I: itoa::Integer>(value: I, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends the decimal `unscaled × 10^-scale` with `scale` digits after the decimal point. A
/// negative scale appends zeros instead.
pub fn write_decimal(unscaled: i128, scale: i8, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(unscaled.unsigned_abs());
    write_decimal_digits(unscaled < 0, digits, scale, out);
}

/// Appends the decimal `unscaled × 10^-scale`. `unscaled` is an integer as text, with `-` if it is
/// negative.
pub fn write_decimal_text(unscaled: &str, scale: i8, out: &mut Vec<u8>) {
    match unscaled.strip_prefix('-') {
        Some(digits) => write_decimal_digits(true, digits, scale, out),
        None => write_decimal_digits(false, unscaled, scale, out),
    }
}

fn write_decimal_digits(negative: bool, digits: &str, scale: i8, out: &mut Vec<u8>) {
    if negative {
        out.push(b'-');
    }
    let digits = digits.as_bytes();
    if scale <= 0 {
        out.extend_from_slice(digits);
        if digits != b"0" {
            out.extend(std::iter::repeat_n(b'0', usize::from(scale.unsigned_abs())));
        }
        return;
    }
    let scale = usize::from(scale.unsigned_abs());
    match digits.len().checked_sub(scale) {
        Some(point) if point > 0 => {
            let (whole, fraction) = digits.split_at(point);
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
        _ => {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', scale.saturating_sub(digits.len())));
            out.extend_from_slice(digits);
        }
    }
}

/// Appends a double; for `extra_float_digits` see [`TextStyle`](crate::TextStyle).
#[inline]
pub fn write_double(value: f64, extra_float_digits: i32, out: &mut Vec<u8>) {
    if write_special(value, out) {
        return;
    }
    if extra_float_digits <= 0 {
        return write_rounded(value, 15 + extra_float_digits, out);
    }
    if write_short(value, out) {
        return;
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    let magnitude = value.abs();
    if (1e-4..1e15).contains(&magnitude) && !text.contains('e') {
        out.extend_from_slice(text.strip_suffix(".0").unwrap_or(text).as_bytes());
    } else if is_midway(text, magnitude, magnitude.next_up() - magnitude) {
        let step = magnitude.next_up() - magnitude;
        write_laid_out(&off_midway(value, text, magnitude, step), 15, out);
    } else {
        write_laid_out(text, 15, out);
    }
}

/// A fast path: appends a double that is a multiple of 1/10,000, which is true of most
/// measurements. Returns `false` for any other double. A decimal with up to 15 digits identifies at
/// most one double, so this decimal is the shortest text.
#[inline]
fn write_short(value: f64, out: &mut Vec<u8>) -> bool {
    const PARTS: i64 = 10_000;
    let magnitude = value.abs();
    if !(1e-4..1e11).contains(&magnitude) {
        return false;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 10^15")]
    let scaled = (magnitude * 1e4 + 0.5) as i64;
    // The quotient of two integers below 2^53 is the same double that parsing the decimal would
    // give.
    #[expect(clippy::cast_precision_loss, reason = "below 10^15")]
    if scaled as f64 / 1e4 != magnitude {
        return false;
    }
    if value < 0.0 {
        out.push(b'-');
    }
    write_integer(scaled / PARTS, out);
    let fraction = u16::try_from(scaled % PARTS).unwrap_or(0);
    if fraction > 0 {
        let digit = |place: u16| b'0' + u8::try_from(fraction / place % 10).unwrap_or(0);
        let text = [b'.', digit(1000), digit(100), digit(10), digit(1)];
        let last = text.iter().rposition(|digit| *digit != b'0').unwrap_or(0);
        out.extend_from_slice(text.get(..=last).unwrap_or_default());
    }
    true
}

/// Appends a real; for `extra_float_digits` see [`TextStyle`](crate::TextStyle).
#[inline]
pub fn write_real(value: f32, extra_float_digits: i32, out: &mut Vec<u8>) {
    if write_special(f64::from(value), out) {
        return;
    }
    if extra_float_digits <= 0 {
        return write_rounded(f64::from(value), 6 + extra_float_digits, out);
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    let magnitude = value.abs();
    if (1e-4..1e6).contains(&magnitude) && !text.contains('e') {
        out.extend_from_slice(text.strip_suffix(".0").unwrap_or(text).as_bytes());
    } else if is_midway(text, f64::from(magnitude), f64::from(magnitude.next_up() - magnitude)) {
        let step = f64::from(magnitude.next_up() - magnitude);
        write_laid_out(&off_midway(value, text, f64::from(magnitude), step), 6, out);
    } else {
        write_laid_out(text, 6, out);
    }
}

/// The shortest text of a float that does not lie exactly midway between two floats. `midway` is
/// the shortest text, which may lie midway; the result then has more digits.
fn off_midway(value: impl std::fmt::LowerExp, midway: &str, magnitude: f64, step: f64) -> String {
    /// The number of digits after the first digit that is enough for every double.
    const DECIMALS_MAX: usize = 16;
    let mut text = String::new();
    for decimals in significant_digits(midway)..=DECIMALS_MAX {
        text = format!("{value:.decimals$e}");
        if !is_midway(&text, magnitude, step) {
            break;
        }
    }
    text
}

/// The number of significant digits of a decimal text.
fn significant_digits(text: &str) -> usize {
    let mantissa = text.split('e').next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_start_matches('0').trim_end_matches('0').len()
}

/// True if the number in `text` lies exactly midway between a float and its neighbour. Parsing this
/// text gives the right float, because it is the even one of the two, but PostgreSQL writes one
/// more digit in this case. `magnitude` is the float without its sign; `step` is the distance to
/// the next float.
fn is_midway(text: &str, magnitude: f64, step: f64) -> bool {
    // Only for large floats, whose distance to the next float is at least 2, can the midpoint have
    // so few digits. Floats from 10^38 on are not checked.
    if !(2.0..1e30).contains(&step) || magnitude >= 1e38 {
        return false;
    }
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let Ok(exponent) = exponent.parse::<usize>() else { return false };
    let Some(zeros) = exponent.checked_sub(fraction.len()) else { return false };
    let digits = format!("{whole}{fraction}{}", "0".repeat(zeros));
    let Ok(written) = digits.parse::<u128>() else { return false };
    // Both numbers are integers below 10^38, so they fit 128 bits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    let (exact, step) = (magnitude as u128, step as u128);
    written.abs_diff(exact) * 2 == step
}

fn write_special(value: f64, out: &mut Vec<u8>) -> bool {
    let text: &[u8] = if value.is_nan() {
        b"NaN"
    } else if value == f64::INFINITY {
        b"Infinity"
    } else if value == f64::NEG_INFINITY {
        b"-Infinity"
    } else if value == 0.0 {
        if value.is_sign_negative() { b"-0" } else { b"0" }
    } else {
        return false;
    };
    out.extend_from_slice(text);
    true
}

/// Appends the number in `text` (for example `12.5` or `1.25e-7`) in PostgreSQL's layout. Numbers
/// from `10^positional_max` on, and numbers below `10^-4`, get an exponent of at least two digits.
fn write_laid_out(text: &str, positional_max: i32, out: &mut Vec<u8>) {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits: Vec<u8> = Vec::with_capacity(20);
    digits.extend_from_slice(whole.as_bytes());
    digits.extend_from_slice(fraction.as_bytes());
    // The value is `0.digits × 10^point`.
    let mut point = i32::try_from(whole.len()).unwrap_or(0) + exponent;
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    digits.drain(..zeros);
    point -= i32::try_from(zeros).unwrap_or(0);
    while digits.last() == Some(&b'0') {
        digits.pop();
    }
    if negative {
        out.push(b'-');
    }
    let scientific = point - 1;
    if (-4..positional_max).contains(&scientific) {
        let length = i32::try_from(digits.len()).unwrap_or(0);
        if point <= 0 {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', usize::try_from(-point).unwrap_or(0)));
            out.extend_from_slice(&digits);
        } else if point >= length {
            out.extend_from_slice(&digits);
            out.extend(std::iter::repeat_n(b'0', usize::try_from(point - length).unwrap_or(0)));
        } else {
            let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
        return;
    }
    if let Some((first, rest)) = digits.split_first() {
        out.push(*first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
    }
    let sign = if scientific < 0 { b'-' } else { b'+' };
    out.extend_from_slice(&[b'e', sign]);
    let magnitude = scientific.unsigned_abs();
    if magnitude < 10 {
        out.push(b'0');
    }
    write_integer(magnitude, out);
}

/// Appends a float with `digits` significant digits and without trailing zeros, like the format
/// `%.*g` of C.
fn write_rounded(value: f64, digits: i32, out: &mut Vec<u8>) {
    let digits = digits.max(1);
    let mut text = Vec::new();
    let decimals = usize::try_from(digits - 1).unwrap_or(0);
    // A write to memory cannot fail.
    let _ = write!(text, "{value:.decimals$e}");
    write_laid_out(&String::from_utf8_lossy(&text), digits, out);
}
