//! The elements of an array, one row each: `jsonb_array_elements` and its like for text.
//! A function gives them as a list, which the planner turns into rows.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, ListArray, StringViewBuilder},
    buffer::{NullBuffer, OffsetBuffer},
    datatypes::DataType,
};
use datafusion::common::Result;
use stratalog_model::{Error, ErrorKind};

use super::{Take, is_normalized, json_at, scan};
use crate::{failed, function::Arguments};

/// What `jsonb_array_elements` calls.
pub const OF_JSON: &str = "jsonb_elements_list";

/// What `jsonb_array_elements_text` calls.
pub const OF_TEXT: &str = "jsonb_elements_text_list";

pub(super) fn lists(arguments: &Arguments<'_>, take: Take) -> Result<ArrayRef> {
    let (json, normalized) = (arguments.text(0)?, is_normalized(arguments));
    let mut values = StringViewBuilder::new();
    let mut lengths = Vec::with_capacity(arguments.rows);
    let mut present = Vec::with_capacity(arguments.rows);
    for row in 0..arguments.rows {
        let Some(json) = json_at(json, row, normalized)? else {
            lengths.push(0);
            present.push(false);
            continue;
        };
        let what = match scan::type_name(&json) {
            "array" => None,
            "object" => Some("an object"),
            _ => Some("a scalar"),
        };
        if let Some(what) = what {
            return Err(failed(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("cannot extract elements from {what}"),
            )));
        }
        let mut length = 0_usize;
        for element in scan::elements(&json) {
            values.append_option(take.of(Some(element)));
            length += 1;
        }
        lengths.push(length);
        present.push(true);
    }
    let DataType::List(item) = arguments.result else {
        return Err(failed(Error::internal("elements are a list")));
    };
    Ok(Arc::new(ListArray::try_new(
        Arc::clone(item),
        OffsetBuffer::from_lengths(lengths),
        Arc::new(values.finish()),
        Some(NullBuffer::from(present)),
    )?))
}
