//! Reads the jsonb argument of a call.

use std::borrow::Cow;

use arrow::array::StringViewArray;
use datafusion::common::Result;
use stratalog_model::ColumnType;
use stratalog_text::normalize_jsonb;

use super::scan;
use crate::{
    failed,
    function::{Arguments, text_at},
};

/// The form in which a function returns an element.
#[derive(Clone, Copy)]
pub(super) enum ElementForm {
    /// The element is returned as JSON.
    Json,
    /// Strings are returned without quotes, and other values as JSON.
    Text,
}

impl ElementForm {
    pub(super) fn of(self, found: Option<&str>) -> Option<String> {
        match self {
            ElementForm::Json => found.map(str::to_string),
            ElementForm::Text => found.and_then(scan::as_text),
        }
    }
}

/// True if argument 0 is a jsonb column, whose values are normalized.
pub(super) fn is_normalized(arguments: &Arguments<'_>) -> bool {
    arguments
        .fields
        .first()
        .is_some_and(|field| ColumnType::from_arrow_field(field) == Some(ColumnType::Jsonb))
}

/// The jsonb value in a row of argument 0; `None` for NULL. Unless `normalized`, the text is
/// normalized first.
pub(super) fn json_at<'a>(
    json: &'a StringViewArray,
    row: usize,
    normalized: bool,
) -> Result<Option<Cow<'a, str>>> {
    match text_at(json, row) {
        None => Ok(None),
        Some(text) if normalized => Ok(Some(text.into())),
        Some(text) => normalize_jsonb(text).map(|text| Some(text.into())).map_err(failed),
    }
}
