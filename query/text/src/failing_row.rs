//! Shows a row that violates a constraint, for error messages.

use arrow::{
    array::{Array, ArrayRef},
    datatypes::FieldRef,
};

use crate::{TextStyle, write_value};

/// The maximum number of bytes of a value in the message, as in PostgreSQL.
const SHOWN_BYTES_MAX: usize = 64;

/// The DETAIL text of an error about a row, for example `Failing row contains (1, a, null).`
pub fn failing_row<'a>(
    columns: impl IntoIterator<Item = (&'a ArrayRef, &'a FieldRef)>,
    row: usize,
    style: &TextStyle,
) -> String {
    let shown = |(array, field): (&ArrayRef, &FieldRef)| {
        if row >= array.len() {
            return "?".to_string();
        }
        match write_value(array.as_ref(), row, field, style) {
            Ok(Some(text)) => cut_to_length(text),
            Ok(None) => "null".to_string(),
            Err(_) => "?".to_string(),
        }
    };
    let values: Vec<String> = columns.into_iter().map(shown).collect();
    format!("Failing row contains ({}).", values.join(", "))
}

fn cut_to_length(mut text: String) -> String {
    if text.len() > SHOWN_BYTES_MAX {
        text.truncate(text.floor_char_boundary(SHOWN_BYTES_MAX));
        text.push_str("...");
    }
    text
}
