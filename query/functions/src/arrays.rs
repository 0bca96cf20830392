//! Functions on arrays.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, Scalar},
    buffer::{NullBuffer, OffsetBuffer},
    compute::{cast, concat, filter, kernels::cmp::distinct, take},
    datatypes::{DataType, Field, FieldRef, Int64Type},
};
use datafusion::common::Result;
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_text::ColumnWriter;

use crate::{
    failed,
    function::{
        Arguments, Function, Parameter, RESULT_BYTES_MAX, Returns, Room, text_at, text_rows,
    },
    literal::style_of,
    text_form::field_of,
};

use Parameter::{Any, Array, Integer, Rest, Text};

/// The SQL functions that this module declares.
pub fn functions() -> Vec<Function> {
    vec![
        Function::immutable(
            "array_dims",
            &[&[Array]],
            ColumnType::Text,
            "The first and the last subscript of an array, such as [1:3]; NULL for an empty array.",
            |arguments| {
                let lists = lists(arguments, 0)?;
                text_rows(arguments.rows, |row| {
                    let length = if lists.is_null(row) { 0 } else { lists.value_length(row) };
                    Ok((length > 0).then(|| format!("[1:{length}]")))
                })
            },
        ),
        Function::immutable(
            "array_ndims",
            &[&[Array]],
            ColumnType::Integer,
            "The number of dimensions of an array: 1; NULL for an empty array.",
            |arguments| {
                let lists = lists(arguments, 0)?;
                let dimensions =
                    |row: usize| (lists.is_valid(row) && lists.value_length(row) > 0).then_some(1);
                let dimensions: Int32Array = (0..arguments.rows).map(dimensions).collect();
                Ok(Arc::new(dimensions))
            },
        ),
        Function::immutable(
            "array_part",
            &[&[Array, Integer, Integer]],
            Returns::Same(0),
            "The elements of an array between two subscripts; `a[1:2]` calls this function.",
            part,
        ),
        Function::immutable(
            "array_to_string",
            &[&[Array, Text], &[Array, Text, Text]],
            ColumnType::Text,
            "The elements of an array, joined; NULL elements are omitted, or replaced by a given text.",
            joined,
        ),
        Function::immutable(
            "trim_array",
            &[&[Array, Integer]],
            Returns::Same(0),
            "An array without a given number of elements at the end.",
            trim,
        ),
        Function::immutable(
            "array_fill",
            &[&[Any, Array], &[Any, Array, Array]],
            Returns::Rule(list_of_first),
            "An array with a given number of copies of a value; one dimension, with first subscript 1.",
            fill,
        ),
        Function::immutable(
            "array_remove",
            &[&[Array, Any]],
            Returns::Same(0),
            "An array without the elements equal to a value, or without NULL elements.",
            remove,
        ),
        Function::immutable(
            "num_nulls",
            &[&[Rest]],
            ColumnType::Integer,
            "Number of NULL arguments.",
            |arguments| Ok(count(arguments, true)),
        ),
        Function::immutable(
            "num_nonnulls",
            &[&[Rest]],
            ColumnType::Integer,
            "Number of arguments other than NULL.",
            |arguments| Ok(count(arguments, false)),
        ),
    ]
}

/// Converts argument `at` to a list array with 32-bit offsets.
fn lists(arguments: &Arguments<'_>, at: usize) -> Result<ListArray> {
    let array = arguments.array(at)?;
    let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) =
        array.data_type()
    else {
        return Err(failed(Error::internal("the argument is no list")));
    };
    Ok(cast(array, &DataType::List(Arc::clone(item)))?.as_list().clone())
}

/// Builds an array of lists with the declared result type; `None` becomes NULL.
fn declared(
    arguments: &Arguments<'_>,
    values: &[Option<ArrayRef>],
    item: DataType,
) -> Result<ArrayRef> {
    let parts: Vec<&dyn arrow::array::Array> = values.iter().flatten().map(AsRef::as_ref).collect();
    let joined = match parts.is_empty() {
        true => arrow::array::new_empty_array(&item),
        false => concat(&parts)?,
    };
    let lengths = values.iter().map(|part| part.as_ref().map_or(0, |part| part.len()));
    let nulls: Vec<bool> = values.iter().map(Option::is_some).collect();
    let lists = ListArray::try_new(
        Arc::new(Field::new_list_field(item, true)),
        OffsetBuffer::from_lengths(lengths),
        joined,
        Some(NullBuffer::from(nulls)),
    )?;
    Ok(cast(&(Arc::new(lists) as ArrayRef), arguments.result)?)
}

fn part(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let lists = lists(arguments, 0)?;
    let (starts, stops) = (arguments.integers(1)?, arguments.integers(2)?);
    let one = |row: usize| -> Option<ArrayRef> {
        if lists.is_null(row) || starts.is_null(row) || stops.is_null(row) {
            return None;
        }
        let values = lists.value(row);
        let start = usize::try_from(starts.value(row)).unwrap_or(0).max(1);
        let stop = usize::try_from(stops.value(row)).unwrap_or(0).min(values.len());
        Some(match stop.checked_sub(start) {
            Some(further) => values.slice(start - 1, further + 1),
            None => values.slice(0, 0),
        })
    };
    let parts: Vec<Option<ArrayRef>> = (0..arguments.rows).map(one).collect();
    declared(arguments, &parts, lists.value_type())
}

fn joined(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (lists, separators) = (lists(arguments, 0)?, arguments.text(1)?);
    let substitutes = arguments.has(2).then(|| arguments.text(2)).transpose()?;
    let style = style_of(arguments.config);
    let item = match field_of(arguments, 0)?.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.as_ref().clone()
        }
        _ => Field::new_list_field(lists.value_type(), true),
    };
    let values = Arc::clone(lists.values());
    let writer = ColumnWriter::new(values.as_ref(), &item, &style).map_err(failed)?;
    text_rows(arguments.rows, |row| {
        let Some(separator) = text_at(separators, row).filter(|_| lists.is_valid(row)) else {
            return Ok(None);
        };
        let substitute = substitutes.and_then(|substitutes| text_at(substitutes, row));
        let start = usize::try_from(*lists.value_offsets().get(row).unwrap_or(&0)).unwrap_or(0);
        let length = usize::try_from(lists.value_length(row)).unwrap_or(0);
        let mut out: Vec<u8> = Vec::new();
        let mut is_first = true;
        let mut element = Vec::new();
        for at in start..start + length {
            element.clear();
            let text: Option<&[u8]> = match writer.write(at, &mut element) {
                true => Some(element.as_slice()),
                false => substitute.map(str::as_bytes),
            };
            let Some(text) = text else { continue };
            if !is_first {
                out.extend_from_slice(separator.as_bytes());
            }
            is_first = false;
            out.extend_from_slice(text);
            if out.len() > RESULT_BYTES_MAX {
                let message =
                    format!("array_to_string() would make more than {RESULT_BYTES_MAX} bytes");
                return Err(failed(Error::new(ErrorKind::LimitExceeded, message)));
            }
        }
        Ok(Some(String::from_utf8_lossy(&out).into_owned()))
    })
}

fn trim(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (lists, counts) = (lists(arguments, 0)?, arguments.integers(1)?);
    let one = |row: usize| -> Result<Option<ArrayRef>> {
        if lists.is_null(row) || counts.is_null(row) {
            return Ok(None);
        }
        let values = lists.value(row);
        let fewer = usize::try_from(counts.value(row)).ok().filter(|fewer| *fewer <= values.len());
        let fewer = fewer.ok_or_else(|| {
            failed(Error::new(
                ErrorKind::ArraySubscript,
                format!("number of elements to trim must be between 0 and {}", values.len()),
            ))
        })?;
        Ok(Some(values.slice(0, values.len() - fewer)))
    };
    let parts = (0..arguments.rows).map(one).collect::<Result<Vec<_>>>()?;
    declared(arguments, &parts, lists.value_type())
}

fn list_of_first(fields: &[FieldRef]) -> Result<DataType> {
    match fields.first() {
        Some(field) => {
            Ok(DataType::List(Arc::new(Field::new_list_field(field.data_type().clone(), true))))
        }
        None => Err(failed(Error::internal("array_fill needs a value"))),
    }
}

fn fill(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (values, lengths) = (arguments.array(0)?, lists(arguments, 1)?);
    let starts = arguments.has(2).then(|| lists_at(arguments, 2)).transpose()?;
    let mut total = 0_usize;
    let mut room = Room::of(arguments.rows);
    let mut one = |row: usize| -> Result<Option<ArrayRef>> {
        if lengths.is_null(row) || starts.as_ref().is_some_and(|starts| starts.is_null(row)) {
            return Err(failed(Error::new(
                ErrorKind::NullNotAllowed,
                "dimension array or low bound array cannot be null",
            )));
        }
        if let Some(starts) = &starts
            && starts.value(row).as_primitive::<Int64Type>().iter().any(|start| start != Some(1))
        {
            return Err(failed(Error::not_yet("an array that does not begin with 1")));
        }
        let sides = cast(&lengths.value(row), &DataType::Int64)?;
        let sides = sides.as_primitive::<Int64Type>();
        let length = match sides.len() {
            0 => 0,
            1 if sides.is_null(0) => {
                return Err(failed(Error::new(
                    ErrorKind::NullNotAllowed,
                    "dimension values cannot be null",
                )));
            }
            1 => usize::try_from(sides.value(0)).unwrap_or(0),
            _ => return Err(failed(Error::not_yet("an array of more than one dimension"))),
        };
        total = total.saturating_add(length);
        if total > RESULT_BYTES_MAX / 8 {
            let limit = Error::new(
                ErrorKind::LimitExceeded,
                format!("array size exceeds the maximum allowed ({})", RESULT_BYTES_MAX / 8),
            );
            return Err(failed(limit));
        }
        room.take(length.saturating_mul(2 * size_of::<u64>()))?;
        let places = arrow::array::UInt64Array::from_value(row as u64, length);
        Ok(Some(take(values, &places, None)?))
    };
    let parts = (0..arguments.rows).map(&mut one).collect::<Result<Vec<_>>>()?;
    declared(arguments, &parts, values.data_type().clone())
}

/// Converts argument `at` to a list array with elements of the type Int64.
fn lists_at(arguments: &Arguments<'_>, at: usize) -> Result<ListArray> {
    let item = Field::new_list_field(DataType::Int64, true);
    let lists: ArrayRef = Arc::new(lists(arguments, at)?);
    Ok(cast(&lists, &DataType::List(Arc::new(item)))?.as_list().clone())
}

fn remove(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let lists = lists(arguments, 0)?;
    let item = lists.value_type();
    let removed = cast(arguments.array(1)?, &item)?;
    let one = |row: usize| -> Result<Option<ArrayRef>> {
        if lists.is_null(row) {
            return Ok(None);
        }
        let values = lists.value(row);
        let kept: BooleanArray = distinct(&values, &Scalar::new(removed.slice(row, 1)))?;
        Ok(Some(filter(&values, &kept)?))
    };
    let parts = (0..arguments.rows).map(one).collect::<Result<Vec<_>>>()?;
    declared(arguments, &parts, item)
}

fn count(arguments: &Arguments<'_>, nulls: bool) -> ArrayRef {
    let counts: Int32Array = (0..arguments.rows)
        .map(|row| {
            let found = arguments.arrays.iter().filter(|array| array.is_null(row) == nulls);
            i32::try_from(found.count()).ok()
        })
        .collect();
    Arc::new(counts)
}
