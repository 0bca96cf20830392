//! Normalizes JSON as jsonb does: validates it, sorts keys, removes equal keys, and keeps numbers
//! exact.

mod reader;

use stratalog_model::Result;

pub use self::reader::Json;

/// The maximum nesting depth of arrays and objects.
pub const DEPTH_MAX: usize = 512;

/// The text of a JSON document in the form that PostgreSQL prints for `jsonb`. Keys are ordered by
/// length and then by bytes, and of equal keys the last counts; numbers have no exponent; a space
/// follows `,` and `:`.
///
/// # Errors
/// `InvalidTextRepresentation`; its detail has the position of the mistake.
pub fn normalize_jsonb(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len() + 16);
    append_jsonb(text, &mut out)?;
    Ok(out)
}

/// Appends the result of [`normalize_jsonb`] to `out`. An error leaves `out` unchanged.
///
/// # Errors
/// As [`normalize_jsonb`].
pub fn append_jsonb(text: &str, out: &mut String) -> Result<()> {
    let json = Json::parse(text)?;
    json.write(out);
    Ok(())
}

#[cfg(test)]
mod tests;
