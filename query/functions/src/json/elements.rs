//! Functions with one result row per element, for example `jsonb_array_elements`. Each function
//! itself returns a list, and the planner turns the list into rows.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, ListArray, StringViewBuilder, StructArray},
    buffer::{NullBuffer, OffsetBuffer},
    datatypes::{DataType, Field, FieldRef, Fields},
};
use datafusion::common::Result;
use stratalog_model::{ColumnType, Error, ErrorKind};

use super::{
    reading::{ElementForm, is_normalized, json_at},
    scan,
};
use crate::{
    failed,
    function::{Arguments, Function, Parameter, Returns},
};

/// The SQL functions that convert a JSON object to a list of its members.
pub(super) fn pairs() -> Vec<Function> {
    vec![
        Function::immutable(
            "jsonb_each_list",
            &[&[Parameter::Text]],
            Returns::Rule(|fields| Ok(pairs_type(fields))),
            "The members of an object, as a list of key and value: what `jsonb_each` calls.",
            |arguments| members(arguments, ElementForm::Json),
        ),
        Function::immutable(
            "jsonb_each_text_list",
            &[&[Parameter::Text]],
            Returns::Rule(|fields| Ok(pairs_type(fields))),
            "The members of an object, as a list of key and value as text: what `jsonb_each_text` calls.",
            |arguments| members(arguments, ElementForm::Text),
        ),
    ]
}

fn pair() -> Fields {
    let text = ColumnType::Text.arrow_type();
    Fields::from(vec![Field::new("key", text.clone(), true), Field::new("value", text, true)])
}

fn pairs_type(_: &[FieldRef]) -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::Struct(pair()), true)))
}

fn members(arguments: &Arguments<'_>, take: ElementForm) -> Result<ArrayRef> {
    let (json, normalized) = (arguments.text(0)?, is_normalized(arguments));
    let (mut keys, mut values) = (StringViewBuilder::new(), StringViewBuilder::new());
    let mut lengths = Vec::with_capacity(arguments.rows);
    for row in 0..arguments.rows {
        let Some(json) = json_at(json, row, normalized)? else {
            lengths.push(0);
            continue;
        };
        let what = match scan::type_name(&json) {
            "object" => None,
            "array" => Some("an array"),
            _ => Some("a non-object"),
        };
        if let Some(what) = what {
            let message = format!("cannot call jsonb_each on {what}");
            return Err(failed(Error::new(ErrorKind::InvalidParameterValue, message)));
        }
        let mut length = 0_usize;
        for (key, value) in scan::members(&json) {
            keys.append_option(scan::as_text(key));
            values.append_option(take.of(Some(value)));
            length += 1;
        }
        lengths.push(length);
    }
    let text = ColumnType::Text.arrow_type();
    let columns = [keys.finish(), values.finish()]
        .map(|column| arrow::compute::cast(&(Arc::new(column) as ArrayRef), &text));
    let columns = columns.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    let rows = StructArray::try_new(pair(), columns, None)?;
    let DataType::List(item) = arguments.result else {
        return Err(failed(Error::internal("members are a list")));
    };
    Ok(Arc::new(ListArray::try_new(
        Arc::clone(item),
        OffsetBuffer::from_lengths(lengths),
        Arc::new(rows),
        None,
    )?))
}

/// The name of the function that replaces `jsonb_array_elements`.
pub const OF_JSON: &str = "jsonb_elements_list";

/// The name of the function that replaces `jsonb_array_elements_text`.
pub const OF_TEXT: &str = "jsonb_elements_text_list";

pub(super) fn lists(arguments: &Arguments<'_>, take: ElementForm) -> Result<ArrayRef> {
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
