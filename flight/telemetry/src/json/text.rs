//! Writes values as JSON.

use std::fmt::Write as _;

/// Appends a string in quotes, with escapes.
pub(crate) fn put_text(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\')
    {
        let (plain, special) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(plain);
        let mut characters = special.chars();
        match characters.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some(other) => {
                let _ = write!(out, "\\u{:04x}", u32::from(other));
            }
            None => {}
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// Appends the shortest decimal number that has the value `value`. NaN and the infinities, which
/// JSON lacks, become strings, as in protobuf's JSON.
pub(crate) fn put_double(out: &mut String, value: f64) {
    let _ = match value {
        _ if value.is_nan() => out.write_str("\"NaN\""),
        f64::INFINITY => out.write_str("\"Infinity\""),
        f64::NEG_INFINITY => out.write_str("\"-Infinity\""),
        _ => write!(out, "{}", Plain(value)),
    };
}

/// Formats a finite number. Uses an exponent only for very large and very small numbers.
struct Plain(f64);

impl std::fmt::Display for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.0.abs();
        match size == 0.0 || (1e-6..1e21).contains(&size) {
            true => write!(f, "{}", self.0),
            false => write!(f, "{:e}", self.0),
        }
    }
}

#[cfg(test)]
mod tests;
