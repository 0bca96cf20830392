//! Casts of numbers to integers. Halves round to even for floats, and away from zero for numerics.
//! A result out of range is an error.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Int64Array},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Decimal128Type, Float64Type},
    util::display::FormatOptions,
};
use datafusion::logical_expr::Volatility;
use stratalog_model::{ColumnType, Error, ErrorKind, Result};

use crate::{
    failed,
    function::{Arguments, Function, Parameter, Returns},
};

const CAST: CastOptions<'static> =
    CastOptions { safe: false, format_options: FormatOptions::new() };

/// The SQL functions for casts of numbers to integers.
pub fn functions() -> Vec<Function> {
    let function = |name, column_type: ColumnType, description| Function {
        name,
        aliases: &[],
        parameters: &[&[Parameter::Any]],
        returns: Returns::Type(column_type.clone()),
        volatility: Volatility::Immutable,
        description,
        run: Arc::new(move |arguments: &Arguments<'_>| {
            to_integer(arguments.array(0)?, &column_type).map_err(failed)
        }),
    };
    vec![
        function(
            "int2",
            ColumnType::SmallInt,
            "The nearest smallint: what a cast of a number calls.",
        ),
        function(
            "int4",
            ColumnType::Integer,
            "The nearest integer: what a cast of a number calls.",
        ),
        function("int8", ColumnType::BigInt, "The nearest bigint: what a cast of a number calls."),
    ]
}

/// Casts an array of numbers to the integer type `column_type`, with rounding.
///
/// # Errors
/// `NumericOutOfRange` for a number outside of the range of the type.
pub fn to_integer(array: &ArrayRef, column_type: &ColumnType) -> Result<ArrayRef> {
    let out_of_range =
        || Error::new(ErrorKind::NumericOutOfRange, format!("{column_type} out of range"));
    let cast_to = |array: &ArrayRef, data_type: &DataType| {
        cast_with_options(array, data_type, &CAST).map_err(|_| out_of_range())
    };
    let whole: Option<Vec<Option<i64>>> = match array.data_type() {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let floats = cast_to(array, &DataType::Float64)?;
            let values = floats.as_primitive::<Float64Type>().iter();
            values
                .map(|value| match value {
                    None => Some(None),
                    Some(value) => whole_of(value.round_ties_even()).map(Some),
                })
                .collect()
        }
        DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _) => {
            let decimals = cast_to(array, &DataType::Decimal128(38, 0))?;
            let values = decimals.as_primitive::<Decimal128Type>().iter();
            values
                .map(|value| match value {
                    None => Some(None),
                    Some(value) => i64::try_from(value).ok().map(Some),
                })
                .collect()
        }
        _ => return cast_to(array, &column_type.arrow_type()),
    };
    let whole: ArrayRef = Arc::new(Int64Array::from(whole.ok_or_else(out_of_range)?));
    cast_to(&whole, &column_type.arrow_type())
}

fn whole_of(value: f64) -> Option<i64> {
    // The upper bound is 2^63 and exclusive, because a double represents 2^63 exactly, but not
    // i64::MAX.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
    fits.then_some(value as i64)
}
