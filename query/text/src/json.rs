//! Normalizes JSON as PostgreSQL's jsonb does: validates the text, sorts the keys of objects,
//! removes repeated keys, and keeps numbers exact.

mod reader;

use stratalog_model::Result;

pub use self::reader::Json;

/// The maximum nesting depth of arrays and objects.
pub const DEPTH_MAX: usize = 512;

/// Converts a JSON document to the form that PostgreSQL prints for `jsonb`. Keys are ordered by
/// length and then by bytes. Of members with equal keys, the last one remains. Numbers have no
/// exponent. A space follows each `,` and `:`.
///
/// # Errors
/// `InvalidTextRepresentation` for invalid JSON; the detail has the position of the mistake.
pub fn normalize_jsonb(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len() + 16);
    append_jsonb(text, &mut out)?;
    Ok(out)
}

/// Appends the result of [`normalize_jsonb`] to `out`. An error leaves `out` unchanged.
///
/// # Errors
/// The errors of [`normalize_jsonb`].
pub fn append_jsonb(text: &str, out: &mut String) -> Result<()> {
    let json = Json::parse(text)?;
    json.write(out);
    Ok(())
}

#[cfg(test)]
mod tests;
