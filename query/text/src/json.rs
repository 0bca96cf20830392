//! JSON as `jsonb` stores it: validated, keys sorted and unique, numbers exact.

mod reader;

use stratalog_model::Result;

pub use self::reader::Json;

/// Deepest nesting of arrays and objects that is accepted.
pub const DEPTH_MAX: usize = 512;

/// The normalized text of a JSON document, as PostgreSQL writes a `jsonb`: object keys
/// ordered by length, then bytes, the last of equal ones kept; numbers in full; one space
/// after `,` and `:`.
///
/// # Errors
/// `InvalidTextRepresentation` with the place of the mistake in the detail.
pub fn normalize_jsonb(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len() + 16);
    append_jsonb(text, &mut out)?;
    Ok(out)
}

/// [`normalize_jsonb`], appended to `out`; on an error `out` is as before.
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
