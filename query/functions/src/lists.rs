//! Set-returning functions: functions with one result row per element, for example
//! `generate_subscripts`, `jsonb_object_keys`, and `generate_series` with bounds from columns. A
//! function of this module returns a list for each row, and the planner turns the lists into rows.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Decimal128Array, Int32Array, Int64Array, ListArray,
        StringViewBuilder, StructArray,
    },
    buffer::{NullBuffer, OffsetBuffer},
    compute::{CastOptions, cast, cast_with_options, concat},
    datatypes::{
        DataType, Decimal128Type, Field, FieldRef, Fields, Int64Type, IntervalMonthDayNanoType,
        TimeUnit,
    },
};
use datafusion::common::{DataFusionError, Result, plan_err};
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_text::{TimeZone, normalize_jsonb};

use crate::{
    failed,
    function::{Arguments, Function, Parameter, RESULT_BYTES_MAX, Returns, Room, text_at},
    json::scan,
    series::TimeSeries,
    style::style_of,
};

use Parameter::{Array as List, Integer, Interval, Numeric, Text, Time};

fn list_of(element: ColumnType) -> Returns {
    Returns::Type(ColumnType::Array(Box::new(element)))
}

/// The SQL functions that this module declares.
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
            &[
                &[Integer, Integer],
                &[Integer, Integer, Integer],
                &[Numeric, Numeric],
                &[Numeric, Numeric, Numeric],
                &[Time, Time, Interval],
            ],
            Returns::Rule(series_type),
            "Numbers or times from one to another, as a list: what `generate_series` calls where its bounds are no constants.",
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
            expanded_rows,
        ),
    ]
}

/// Makes an array of lists from consecutive `values`. `lengths` contains the number of elements of
/// each list; `None` makes a NULL.
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

/// Converts argument 0 to a list array with 32-bit offsets.
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
        // Every array has exactly one dimension. Any other dimension gives NULL.
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

/// The result type of `generate_series`: a list of the elements' type. Numerics have the larger
/// scale of the first bound and the step. Timestamps have the finer unit of the two bounds, at
/// least microseconds.
fn series_type(fields: &[FieldRef]) -> Result<DataType> {
    let data_type = |at: usize| fields.get(at).map(|field| field.data_type());
    let element = match (data_type(0), data_type(1)) {
        (Some(DataType::Decimal128(_, scale)), _) => {
            let scale = match data_type(2) {
                Some(DataType::Decimal128(_, of_step)) => (*scale).max(*of_step),
                _ => *scale,
            };
            DataType::Decimal128(38, scale)
        }
        (Some(DataType::Timestamp(first, zone)), Some(DataType::Timestamp(last, other)))
            if zone.is_some() == other.is_some() =>
        {
            let unit = (*first).max(*last).max(TimeUnit::Microsecond);
            DataType::Timestamp(unit, zone.clone())
        }
        (Some(DataType::Timestamp(_, _) | DataType::Date32), _) => {
            return plan_err!(
                "function generate_series of these types is not unique: cast both bounds to timestamptz"
            );
        }
        _ => DataType::Int64,
    };
    Ok(DataType::List(Arc::new(Field::new_list_field(element, true))))
}

fn series(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let DataType::List(item) = arguments.result else {
        return Err(failed(Error::internal("a list was declared")));
    };
    match item.data_type() {
        DataType::Timestamp(unit, zone) => {
            series_of_times(arguments, *unit, zone.is_some(), item.data_type())
        }
        DataType::Decimal128(_, scale) => series_of_numerics(arguments, *scale, item.data_type()),
        _ => series_of_integers(arguments),
    }
}

fn too_long() -> DataFusionError {
    let message = "generate_series() has too many rows outside of FROM";
    failed(
        Error::new(ErrorKind::LimitExceeded, message)
            .with_hint("call generate_series() in FROM, with constants"),
    )
}

fn no_step() -> DataFusionError {
    let message = "step size cannot equal zero";
    failed(Error::new(ErrorKind::InvalidParameterValue, message))
}

fn series_of_integers(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let bounds: Vec<&Int64Array> = (0..arguments.arrays.len())
        .map(|at| Ok(arguments.array(at)?.as_primitive::<Int64Type>()))
        .collect::<Result<_>>()?;
    let mut room = Room::of(arguments.rows);
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
            return Err(no_step());
        }
        let before = values.len();
        let mut next = Some(from);
        while let Some(value) =
            next.filter(|value| if step > 0 { *value <= to } else { *value >= to })
        {
            if values.len() >= RESULT_BYTES_MAX / 8 {
                return Err(too_long());
            }
            room.take(2 * size_of::<i64>())?;
            values.push(value);
            next = value.checked_add(step);
        }
        lengths.push(Some(values.len() - before));
    }
    list(arguments, Arc::new(Int64Array::from(values)), &lengths)
}

fn series_of_numerics(
    arguments: &Arguments<'_>,
    scale: i8,
    element: &DataType,
) -> Result<ArrayRef> {
    let scales = arguments.arrays.iter().filter_map(|array| match array.data_type() {
        DataType::Decimal128(_, scale) => Some(*scale),
        _ => None,
    });
    let finest = scales.fold(scale, i8::max);
    let common = DataType::Decimal128(38, finest);
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let bounds: Vec<ArrayRef> = arguments
        .arrays
        .iter()
        .map(|array| Ok(cast_with_options(array, &common, &strict)?))
        .collect::<Result<_>>()?;
    let power = |digits: i8| 10_i128.checked_pow(u32::try_from(digits).ok()?);
    // Only the last bound can have more digits after the point than the series.
    let (Some(one), Some(surplus)) = (power(finest), power(finest - scale)) else {
        return Err(failed(Error::new(ErrorKind::NumericOutOfRange, "numeric field overflow")));
    };
    let mut values: Vec<i128> = Vec::new();
    let mut lengths = Vec::with_capacity(arguments.rows);
    for row in 0..arguments.rows {
        if bounds.iter().any(|bound| bound.is_null(row)) {
            lengths.push(None);
            continue;
        }
        let bound = |at: usize| {
            bounds.get(at).map(|bound| bound.as_primitive::<Decimal128Type>().value(row))
        };
        let (Some(from), Some(to)) = (bound(0), bound(1)) else {
            return Err(failed(Error::internal("a series has two bounds")));
        };
        let step = bound(2).unwrap_or(one);
        if step == 0 {
            return Err(no_step());
        }
        let before = values.len();
        let mut next = Some(from);
        while let Some(value) =
            next.filter(|value| if step > 0 { *value <= to } else { *value >= to })
        {
            if values.len() >= RESULT_BYTES_MAX / 16 {
                return Err(too_long());
            }
            values.push(value / surplus);
            next = value.checked_add(step);
        }
        lengths.push(Some(values.len() - before));
    }
    let values = Decimal128Array::from(values).with_data_type(element.clone());
    list(arguments, Arc::new(values), &lengths)
}

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

fn series_of_times(
    arguments: &Arguments<'_>,
    unit: TimeUnit,
    zoned: bool,
    element: &DataType,
) -> Result<ArrayRef> {
    let zone = if zoned { style_of(arguments.config).time_zone } else { TimeZone::UTC };
    let bound = |at: usize| -> Result<(Int64Array, i128)> {
        let array = arguments.array(at)?;
        let DataType::Timestamp(unit, _) = array.data_type() else {
            return Err(failed(Error::internal("a bound of a series is a timestamp")));
        };
        let counts = cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
        Ok((counts, nanoseconds(*unit)))
    };
    let ((first, first_unit), (last, last_unit)) = (bound(0)?, bound(1)?);
    let steps = arguments.array(2)?.as_primitive::<IntervalMonthDayNanoType>();
    let mut values: Vec<i64> = Vec::new();
    let mut lengths = Vec::with_capacity(arguments.rows);
    for row in 0..arguments.rows {
        if first.is_null(row) || last.is_null(row) || steps.is_null(row) {
            lengths.push(None);
            continue;
        }
        let first_ns = i128::from(first.value(row)) * first_unit;
        let last_ns = i128::from(last.value(row)) * last_unit;
        let before = values.len();
        for time_ns in TimeSeries::new(first_ns, last_ns, steps.value(row), zone)? {
            if values.len() >= RESULT_BYTES_MAX / 8 {
                return Err(too_long());
            }
            let count = i64::try_from(time_ns.div_euclid(nanoseconds(unit))).map_err(|_| {
                failed(Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range"))
            })?;
            values.push(count);
        }
        lengths.push(Some(values.len() - before));
    }
    list(arguments, cast(&Int64Array::from(values), element)?, &lengths)
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

/// The fields of the row type `(x, n)`: an element of an array, and its number.
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

fn expanded_rows(arguments: &Arguments<'_>) -> Result<ArrayRef> {
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
