//! `date_bin` for the whole range of timestamps. DataFusion's `date_bin` returns NULL for times
//! more than 292 years from the origin.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, Int64Array, PrimitiveArray},
    compute::cast,
    datatypes::{
        DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
        TimeUnit,
    },
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        ColumnarValue, ScalarFunctionArgs, ScalarUDF, Signature, Volatility,
        type_coercion::functions::fields_with_udf,
    },
};
use stratalog_model::{Error, ErrorKind};
use stratalog_text::calendar::UNIX_EPOCH_JULIAN;

use super::lengths::{as_intervals, length_of};
use crate::{errors::to_datafusion, rules::layers::ScalarLayer};

const DAY_NS: i128 = 86_400_000_000_000;

/// The first time in the range of timestamps, in the year 4714 before Christ, in nanoseconds since
/// 1970.
const FIRST_NS: i128 = -(UNIX_EPOCH_JULIAN as i128) * DAY_NS;

/// A layer around `date_bin` that computes bins of constant length. DataFusion still computes bins
/// of months.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bins {
    signature: Signature,
}

impl Default for Bins {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarLayer for Bins {
    fn signature<'a>(&'a self, _: &'a ScalarUDF) -> &'a Signature {
        &self.signature
    }

    // DataFusion would convert an origin to nanoseconds, which cannot hold all times.
    fn coerce_types(&self, inner: &ScalarUDF, given: &[DataType]) -> Result<Vec<DataType>> {
        let field = |given: &DataType| Arc::new(Field::new("", given.clone(), true));
        let fields: Vec<FieldRef> = given.iter().map(field).collect();
        let fields = fields_with_udf(&fields, inner)?;
        let mut coerced: Vec<DataType> =
            fields.iter().map(|field| field.data_type().clone()).collect();
        let Some(time @ DataType::Timestamp(unit, zone)) = given.get(1) else {
            return Ok(coerced);
        };
        let origin = match given.get(2) {
            Some(DataType::Timestamp(_, other)) if other.is_some() != zone.is_some() => {
                return Ok(coerced);
            }
            Some(origin @ DataType::Timestamp(_, _)) => Some(origin.clone()),
            Some(DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Date32) => {
                let nanos = *unit == TimeUnit::Nanosecond;
                let unit = if nanos { *unit } else { TimeUnit::Microsecond };
                Some(DataType::Timestamp(unit, zone.clone()))
            }
            _ => None,
        };
        if let Some(coerced) = coerced.get_mut(1) {
            *coerced = time.clone();
        }
        if let (Some(coerced), Some(origin)) = (coerced.get_mut(2), origin) {
            *coerced = origin;
        }
        Ok(coerced)
    }

    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant =
            arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { arguments.number_rows };
        let [stride, time, origin @ ..] = arguments.args.as_slice() else {
            return inner.invoke_with_args(arguments);
        };
        let strides = as_intervals(&stride.to_array(rows)?)?;
        let strides = strides.as_primitive::<IntervalMonthDayNanoType>();
        for stride in strides.iter().flatten() {
            check_stride(stride)?;
        }
        let months = strides.iter().flatten().any(|stride| stride.months != 0);
        let result = arguments.return_field.data_type();
        if months || !matches!(result, DataType::Timestamp(_, _)) {
            return inner.invoke_with_args(with_origin_in_nanos(arguments)?);
        }
        let times = time.to_array(rows)?;
        let origins = origin.first().map(|origin| origin.to_array(rows)).transpose()?;
        let binned = binned(strides, &times, origins.as_ref(), result)?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&binned, 0)?),
            false => ColumnarValue::Array(binned),
        })
    }
}

/// Refuses the strides that PostgreSQL refuses. The limit of a stride is in microseconds.
fn check_stride(stride: IntervalMonthDayNano) -> Result<()> {
    if i64::try_from(length_ns(stride) / 1_000).is_err() {
        return Err(out_of_range("interval out of range"));
    }
    if length_of(stride) <= 0 {
        return Err(out_of_range("stride must be greater than zero"));
    }
    Ok(())
}

/// The length of a stride in nanoseconds, without its months.
fn length_ns(stride: IntervalMonthDayNano) -> i128 {
    i128::from(stride.days) * DAY_NS + i128::from(stride.nanoseconds)
}

/// Converts the arguments to the types that DataFusion's function accepts.
fn with_origin_in_nanos(mut arguments: ScalarFunctionArgs) -> Result<ScalarFunctionArgs> {
    if let Some(origin) = arguments.args.get_mut(2)
        && let DataType::Timestamp(_, zone) = origin.data_type()
    {
        *origin = origin.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, zone), None)?;
    }
    Ok(arguments)
}

fn out_of_range(text: &str) -> datafusion::error::DataFusionError {
    to_datafusion(Error::new(ErrorKind::DatetimeOverflow, text))
}

fn unit_ns(data_type: &DataType) -> Result<i128> {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => Ok(1_000_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => Ok(1_000_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Ok(1_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Ok(1),
        _ => Err(to_datafusion(Error::internal("date_bin needs timestamps"))),
    }
}

/// For each time, the start of the bin that contains the time. Bins are counted from the origin, by
/// default from 1970.
fn binned(
    strides: &PrimitiveArray<IntervalMonthDayNanoType>,
    times: &ArrayRef,
    origins: Option<&ArrayRef>,
    result: &DataType,
) -> Result<ArrayRef> {
    let (time_unit, result_unit) = (unit_ns(times.data_type())?, unit_ns(result)?);
    let origin_unit = origins.map_or(Ok(1), |origins| unit_ns(origins.data_type()))?;
    let times = cast(times, &DataType::Int64)?;
    let times = times.as_primitive::<Int64Type>();
    let origins = origins.map(|origins| cast(origins, &DataType::Int64)).transpose()?;
    let origins = origins.as_ref().map(|origins| origins.as_primitive::<Int64Type>());
    let start = |row: usize| -> Result<Option<i64>> {
        let origin_is_null = origins.is_some_and(|origins| origins.is_null(row));
        if strides.is_null(row) || times.is_null(row) || origin_is_null {
            return Ok(None);
        }
        let stride_ns = length_ns(strides.value(row));
        let time_ns = i128::from(times.value(row)) * time_unit;
        let origin_ns = origins.map_or(0, |origins| i128::from(origins.value(row)) * origin_unit);
        let start_ns = time_ns - (time_ns - origin_ns).rem_euclid(stride_ns);
        let start = i64::try_from(start_ns.div_euclid(result_unit)).ok();
        let start = start.filter(|_| start_ns >= FIRST_NS);
        start.map(Some).ok_or_else(|| out_of_range("timestamp out of range"))
    };
    let starts = (0..times.len()).map(start).collect::<Result<Int64Array>>()?;
    Ok(Arc::new(cast(&starts, result)?) as ArrayRef)
}
