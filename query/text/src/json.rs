//! JSON in the form of `jsonb`: validated, keys sorted and unique, numbers exact.

mod reader;

use stratalog_model::Result;

pub use self::reader::Json;

/// The maximum accepted nesting of arrays and objects.
pub const DEPTH_MAX: usize = 512;

/// The normalized text of a JSON document in PostgreSQL's form of `jsonb`: object keys ordered by
/// length, then bytes, with the last of equal keys; numbers without exponent; one space after `,`
/// and `:`.
///
/// # Errors
/// `InvalidTextRepresentation` with the position of the mistake in the detail.
pub fn normalize_jsonb(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len() + 16);
    append_jsonb(text, &mut out)?;
    Ok(out)
}

/// Like [`normalize_jsonb`], but appends to `out`; an error leaves `out` unchanged.
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
