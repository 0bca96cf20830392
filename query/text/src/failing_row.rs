//! A row that breaks a constraint, as errors show it.

use arrow::{
    array::{Array, ArrayRef},
    datatypes::FieldRef,
};

use crate::{TextStyle, write_value};

/// Bytes of a value that are shown, as in PostgreSQL.
const SHOWN_BYTES_MAX: usize = 64;

/// The DETAIL of an error about one row of these columns: `Failing row contains (1, a, null).`
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
            Ok(Some(text)) => cut(text),
            Ok(None) => "null".to_string(),
            Err(_) => "?".to_string(),
        }
    };
    let values: Vec<String> = columns.into_iter().map(shown).collect();
    format!("Failing row contains ({}).", values.join(", "))
}

fn cut(mut text: String) -> String {
    if text.len() > SHOWN_BYTES_MAX {
        text.truncate(text.floor_char_boundary(SHOWN_BYTES_MAX));
        text.push_str("...");
    }
    text
}
