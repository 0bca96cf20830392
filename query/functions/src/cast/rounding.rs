//! Casts that round: casts of timestamps to fewer digits, and casts of arrays whose elements are
//! rounded.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, Int64Array, ListArray},
    compute::{CastOptions, cast, cast_with_options},
    datatypes::{DataType, FieldRef, Int64Type, TimeUnit},
};
use datafusion::{
    common::Result,
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
        Signature, Volatility,
        sort_properties::{ExprProperties, SortProperties},
    },
};
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_text::calendar::nearest_units;

use crate::{failed, integer_rounding::to_integer, literal::scalar_of};

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// True if a cast of a time from the unit `from` to the unit `to` loses digits.
pub(super) fn loses_digits(from: TimeUnit, to: TimeUnit) -> bool {
    nanoseconds(from) < nanoseconds(to)
}

fn rounded(times: &ArrayRef, to: TimeUnit) -> Result<ArrayRef> {
    let DataType::Timestamp(from, zone) = times.data_type() else {
        return Err(failed(Error::internal("a timestamp was declared")));
    };
    let (from_ns, to_ns) = (nanoseconds(*from), nanoseconds(to));
    let counts = cast(times, &DataType::Int64)?;
    let counts: Int64Array = counts.as_primitive::<Int64Type>().try_unary(|count| {
        let nearest = nearest_units(i128::from(count) * from_ns, to_ns);
        i64::try_from(nearest).map_err(|_| failed(Error::internal("a coarser time fits")))
    })?;
    Ok(cast(&counts, &DataType::Timestamp(to, zone.clone()))?)
}

/// Makes an expression that rounds the timestamp `time` to the digits of `unit`.
pub(super) fn in_unit(unit: TimeUnit, time: Expr) -> Expr {
    let name = format!("timestamp_rounded_to_{unit:?}").to_lowercase();
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(TimestampRounding { name, unit, signature })).call(vec![time])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TimestampRounding {
    name: String,
    unit: TimeUnit,
    signature: Signature,
}

impl ScalarUDFImpl for TimestampRounding {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let zone = match arguments.first() {
            Some(DataType::Timestamp(_, zone)) => zone.clone(),
            _ => None,
        };
        Ok(DataType::Timestamp(self.unit, zone))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        on_first(&arguments, |times| rounded(times, self.unit))
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        Ok(input.first().map_or(SortProperties::Unordered, |time| time.sort_properties))
    }
}

pub(super) fn on_first(
    arguments: &ScalarFunctionArgs,
    change: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    match arguments.args.first() {
        Some(ColumnarValue::Array(array)) => change(array).map(ColumnarValue::Array),
        Some(ColumnarValue::Scalar(value)) => {
            let changed = change(&value.to_array()?)?;
            Ok(ColumnarValue::Scalar(scalar_of(&changed)?))
        }
        None => Err(failed(Error::internal("a cast needs an argument"))),
    }
}

/// Converts an array of lists to lists with 32-bit offsets.
pub(super) fn lists_of(array: &ArrayRef) -> Result<ListArray> {
    match array.data_type() {
        DataType::List(_) => Ok(array.as_list::<i32>().clone()),
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Ok(cast(array, &DataType::List(Arc::clone(item)))?.as_list::<i32>().clone())
        }
        _ => Err(failed(Error::internal("an array was declared"))),
    }
}

/// True if a cast of an array must round the elements: floats and numerics to integers, and
/// timestamps to fewer digits. `from` and `to` are the types of the elements.
pub(super) fn rounds_elements(from: &ColumnType, to: &ColumnType) -> bool {
    use ColumnType as T;
    matches!(
        (from, to),
        (T::Real | T::Double | T::Numeric { .. }, T::SmallInt | T::Integer | T::BigInt)
    ) || match (from.timestamp_unit_ns(), to.timestamp_unit_ns()) {
        (Some(from), Some(to)) => from < to,
        _ => false,
    }
}

/// Makes an expression that casts the elements of `array` to the type `element`, with PostgreSQL's
/// rounding.
pub(super) fn elements(element: ColumnType, array: Expr) -> Expr {
    let name = format!("array_to_{element}_array").replace(' ', "_");
    let signature = Signature::any(1, Volatility::Immutable);
    let function = ElementRounding { name, element, signature };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![array])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ElementRounding {
    name: String,
    element: ColumnType,
    signature: Signature,
}

impl ElementRounding {
    fn cast(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let DataType::List(wanted) = ColumnType::Array(Box::new(self.element.clone())).arrow_type()
        else {
            return Err(failed(Error::internal("an array was declared")));
        };
        let (_, offsets, values, nulls) = lists_of(array)?.into_parts();
        let values = match (values.data_type(), &self.element) {
            (
                DataType::Timestamp(from, _),
                ColumnType::Timestamp { .. } | ColumnType::TimestampTz { .. },
            ) => match wanted.data_type() {
                DataType::Timestamp(to, _) if loses_digits(*from, *to) => rounded(&values, *to)?,
                _ => values,
            },
            (_, ColumnType::SmallInt | ColumnType::Integer | ColumnType::BigInt) => {
                to_integer(&values, &self.element).map_err(failed)?
            }
            _ => values,
        };
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let values = cast_with_options(&values, wanted.data_type(), &strict).map_err(|_| {
            let message = format!("{} out of range", self.element);
            failed(Error::new(ErrorKind::NumericOutOfRange, message))
        })?;
        Ok(Arc::new(ListArray::try_new(wanted, offsets, values, nulls)?))
    }
}

impl ScalarUDFImpl for ElementRounding {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(ColumnType::Array(Box::new(self.element.clone())).arrow_type())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let array = ColumnType::Array(Box::new(self.element.clone()));
        Ok(Arc::new(array.arrow_field(&self.name, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        on_first(&arguments, |array| self.cast(array))
    }
}
