//! Lists that the planner turns into rows: what `generate_subscripts`, `jsonb_object_keys` and
//! their like call, and `generate_series` where its bounds are known per row only.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Int32Array, Int64Array, ListArray, StringViewBuilder, StructArray,
    },
    buffer::{NullBuffer, OffsetBuffer},
    compute::{cast, concat},
    datatypes::{DataType, Field, FieldRef, Fields, Int64Type},
};
use datafusion::common::Result;
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_text::normalize_jsonb;

use crate::{
    failed,
    function::{Arguments, Function, Parameter, RESULT_BYTES_MAX, Returns, text_at},
    json::scan,
};

use Parameter::{Array as List, Integer, Text};

fn list_of(element: ColumnType) -> Returns {
    Returns::Type(ColumnType::Array(Box::new(element)))
}

/// The functions.
pub fn functions() -> Vec<Function> {
    vec![
        Function::immutable(
            "subscripts_list",
            &[&[List, Integer], &[List, Integer, Parameter::Boolean]],
            list_of(ColumnType::Integer),
            "The subscripts of an array, as a list: what `generate_subscripts` calls.",
            |arguments| subscripts(arguments, 1),
        ),
        Function::immutable(
            "vector_subscripts_list",
            &[&[List, Integer], &[List, Integer, Parameter::Boolean]],
            list_of(ColumnType::Integer),
            "The subscripts of a vector of the catalog, which begin with 0, as a list.",
            |arguments| subscripts(arguments, 0),
        ),
        Function::immutable(
            "series_list",
            &[&[Integer, Integer], &[Integer, Integer, Integer]],
            list_of(ColumnType::BigInt),
            "Whole numbers from one to another, as a list: what `generate_series` calls where its bounds differ by row.",
            series,
        ),
        Function::immutable(
            "jsonb_keys_list",
            &[&[Text]],
            list_of(ColumnType::Text),
            "The keys of an object, as a list: what `jsonb_object_keys` calls.",
            keys,
        ),
        Function::immutable(
            "elements_list",
            &[&[List]],
            Returns::Rule(|fields| match fields.first() {
                Some(field) => Ok(field.data_type().clone()),
                None => Err(failed(Error::internal("the argument is no list"))),
            }),
            "A list, which is empty where it is NULL: what `ARRAY(SELECT …)` calls.",
            elements,
        ),
        Function::immutable(
            "expand_array_list",
            &[&[List]],
            Returns::Rule(expanded_type),
            "The elements of an array, each with its number, as a list: what `information_schema._pg_expandarray` calls.",
            expanded,
        ),
    ]
}

/// A list of `values`, in parts of these lengths; `None` is NULL.
fn list(
    arguments: &Arguments<'_>,
    values: ArrayRef,
    lengths: &[Option<usize>],
) -> Result<ArrayRef> {
    let DataType::List(item) = arguments.result else {
        return Err(failed(Error::internal("a list was declared")));
    };
    let present: Vec<bool> = lengths.iter().map(Option::is_some).collect();
    Ok(Arc::new(ListArray::try_new(
        Arc::clone(item),
        OffsetBuffer::from_lengths(lengths.iter().map(|length| length.unwrap_or(0))),
        values,
        Some(NullBuffer::from(present)),
    )?))
}

/// The lists of an argument, with offsets of 32 bits.
fn lists(arguments: &Arguments<'_>) -> Result<ListArray> {
    let array = arguments.array(0)?;
    let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) =
        array.data_type()
    else {
        return Err(failed(Error::internal("the argument is no list")));
    };
    Ok(cast(array, &DataType::List(Arc::clone(item)))?.as_list().clone())
}

fn subscripts(arguments: &Arguments<'_>, first: i32) -> Result<ArrayRef> {
    let (lists, dimensions) = (lists(arguments)?, arguments.integers(1)?);
    let mut values = Vec::new();
    let mut lengths = Vec::with_capacity(arguments.rows);
    for row in 0..arguments.rows {
        // There are arrays of one dimension only.
        if lists.is_null(row) || dimensions.is_null(row) || dimensions.value(row) != 1 {
            lengths.push(None);
            continue;
        }
        let length = lists.value_length(row);
        let back = arguments.has(2) && {
            let back = arguments.array(2)?.as_boolean();
            !back.is_null(row) && back.value(row)
        };
        match back {
            true => values.extend((first..first + length).rev()),
            false => values.extend(first..first + length),
        }
        lengths.push(usize::try_from(length).ok());
    }
    list(arguments, Arc::new(Int32Array::from(values)), &lengths)
}

fn series(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let bounds: Vec<&Int64Array> = (0..arguments.arrays.len())
        .map(|at| Ok(arguments.array(at)?.as_primitive::<Int64Type>()))
        .collect::<Result<_>>()?;
    let mut values: Vec<i64> = Vec::new();
    let mut lengths = Vec::with_capacity(arguments.rows);
    for row in 0..arguments.rows {
        if bounds.iter().any(|bound| bound.is_null(row)) {
            lengths.push(None);
            continue;
        }
        let bound = |at: usize| bounds.get(at).map(|bound| bound.value(row));
        let (Some(from), Some(to)) = (bound(0), bound(1)) else {
            return Err(failed(Error::internal("a series has two bounds")));
        };
        let step = bound(2).unwrap_or(1);
        if step == 0 {
            let message = "step size cannot equal zero";
            return Err(failed(Error::new(ErrorKind::InvalidParameterValue, message)));
        }
        let before = values.len();
        let mut next = Some(from);
        while let Some(value) =
            next.filter(|value| if step > 0 { *value <= to } else { *value >= to })
        {
            if values.len() >= RESULT_BYTES_MAX / 8 {
                let message = "generate_series() has too many rows in this place";
                return Err(failed(
                    Error::new(ErrorKind::LimitExceeded, message)
                        .with_hint("call it in FROM, with constants"),
                ));
            }
            values.push(value);
            next = value.checked_add(step);
        }
        lengths.push(Some(values.len() - before));
    }
    list(arguments, Arc::new(Int64Array::from(values)), &lengths)
}

fn keys(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let json = arguments.text(0)?;
    let mut values = StringViewBuilder::new();
    let mut lengths = Vec::with_capacity(arguments.rows);
    for row in 0..arguments.rows {
        let Some(text) = text_at(json, row) else {
            lengths.push(None);
            continue;
        };
        let object = normalize_jsonb(text).map_err(failed)?;
        let what = match scan::type_name(&object) {
            "object" => None,
            "array" => Some("an array"),
            _ => Some("a scalar"),
        };
        if let Some(what) = what {
            let message = format!("cannot call jsonb_object_keys on {what}");
            return Err(failed(Error::new(ErrorKind::InvalidParameterValue, message)));
        }
        let mut length = 0;
        for (key, _) in scan::members(&object) {
            values.append_option(scan::as_text(key));
            length += 1;
        }
        lengths.push(Some(length));
    }
    list(arguments, Arc::new(values.finish()), &lengths)
}

/// A row of an array's element, `x`, and its number, `n`.
fn numbered(element: &DataType) -> Fields {
    Fields::from(vec![
        Field::new("x", element.clone(), true),
        Field::new("n", DataType::Int32, true),
    ])
}

fn expanded_type(fields: &[FieldRef]) -> Result<DataType> {
    let element = match fields.first().map(|field| field.data_type()) {
        Some(
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _),
        ) => item.data_type().clone(),
        _ => return Err(failed(Error::internal("the argument is no list"))),
    };
    let row = Field::new("item", DataType::Struct(numbered(&element)), true);
    Ok(DataType::List(Arc::new(row)))
}

fn elements(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let lists = lists(arguments)?;
    let DataType::List(item) = arguments.result else {
        return Err(failed(Error::internal("a list was declared")));
    };
    let present = (0..arguments.rows).filter(|&row| lists.is_valid(row));
    let parts: Vec<ArrayRef> = present.map(|row| lists.value(row)).collect();
    let values = match parts.is_empty() {
        true => arrow::array::new_empty_array(item.data_type()),
        false => concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?,
    };
    let length = |row| if lists.is_valid(row) { lists.value(row).len() } else { 0 };
    let offsets = OffsetBuffer::from_lengths((0..arguments.rows).map(length));
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, None)?))
}

fn expanded(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let lists = lists(arguments)?;
    let element = lists.value_type();
    let mut parts = Vec::with_capacity(arguments.rows);
    let mut numbers = Vec::new();
    let mut lengths = Vec::with_capacity(arguments.rows);
    for row in 0..arguments.rows {
        if lists.is_null(row) {
            lengths.push(None);
            continue;
        }
        let values = lists.value(row);
        numbers.extend(1..=i32::try_from(values.len()).unwrap_or(i32::MAX));
        lengths.push(Some(values.len()));
        parts.push(values);
    }
    let values = match parts.is_empty() {
        true => arrow::array::new_empty_array(&element),
        false => concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?,
    };
    let columns: Vec<ArrayRef> = vec![values, Arc::new(Int32Array::from(numbers))];
    let rows = StructArray::try_new_with_length(numbered(&element), columns, None, {
        lengths.iter().flatten().sum()
    })?;
    list(arguments, Arc::new(rows), &lengths)
}
