//! Converts the values of a tick column into ticks, and back (F21, F23).

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, PrimitiveArray},
    buffer::ScalarBuffer,
    datatypes::{
        ArrowTimestampType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
};
use stratalog_model::{Error, ErrorKind, Result, Tick, TickScale};

/// Computes the tick of each value of a tick column without NULL. The unit of the values is
/// `unit_ns` nanoseconds.
///
/// # Errors
/// `DatetimeOverflow` if a value has no tick.
pub fn assign(values: &[i64], unit_ns: i64, scale: &TickScale) -> Result<Vec<i64>> {
    debug_assert!(unit_ns > 0, "the tick column has no unit");
    let (base, granularity) = (scale.base_ns(), scale.granularity().ns());
    let mut ticks = Vec::with_capacity(values.len());
    for value in values {
        let time_ns = value.checked_mul(unit_ns).ok_or_else(|| out_of_range(*value, unit_ns))?;
        let tick = match time_ns.checked_sub(base) {
            Some(distance) if granularity == 1 => distance,
            Some(distance) => distance.div_euclid(granularity),
            None => scale.tick_of(time_ns)?.0,
        };
        if tick > Tick::MAX.0 {
            // `i64::MAX` is only the end of ranges, and never a tick: this call returns the error.
            scale.tick_of(time_ns)?;
        }
        ticks.push(tick);
    }
    debug_assert_eq!(ticks.len(), values.len(), "a value has no tick");
    debug_assert!(ticks.iter().all(|tick| *tick <= Tick::MAX.0), "a tick is the end of ranges");
    Ok(ticks)
}

/// Computes the value of the tick column at which each tick starts, in units of `unit_ns`
/// nanoseconds.
///
/// # Errors
/// `DatetimeOverflow` if the start of a tick is out of the range of nanoseconds.
pub fn starts(ticks: &[i64], unit_ns: i64, scale: &TickScale) -> Result<Vec<i64>> {
    debug_assert!(unit_ns > 0, "the tick column has no unit");
    ticks
        .iter()
        .map(|tick| match scale.time_ns_of(Tick(*tick)) {
            Some(time_ns) => Ok(time_ns.div_euclid(unit_ns)),
            None => Err(Error::new(
                ErrorKind::DatetimeOverflow,
                format!("tick {tick} starts outside of the range of timestamps"),
            )),
        })
        .collect()
}

/// The values of a timestamp column, in the unit of the column.
pub fn values(column: &ArrayRef) -> Result<ScalarBuffer<i64>> {
    let values = match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            column.as_primitive::<TimestampSecondType>().values()
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            column.as_primitive::<TimestampMillisecondType>().values()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            column.as_primitive::<TimestampMicrosecondType>().values()
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            column.as_primitive::<TimestampNanosecondType>().values()
        }
        other => return Err(Error::internal(format!("{other} is no type of a tick column"))),
    };
    Ok(values.clone())
}

/// A timestamp column of `data_type` with the given values.
pub fn column(values: Vec<i64>, data_type: &DataType) -> Result<ArrayRef> {
    fn of<T: ArrowTimestampType>(values: Vec<i64>, data_type: &DataType) -> ArrayRef {
        let array = PrimitiveArray::<T>::new(values.into(), None);
        Arc::new(array.with_data_type(data_type.clone()))
    }
    Ok(match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => of::<TimestampSecondType>(values, data_type),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            of::<TimestampMillisecondType>(values, data_type)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            of::<TimestampMicrosecondType>(values, data_type)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            of::<TimestampNanosecondType>(values, data_type)
        }
        other => return Err(Error::internal(format!("{other} is no type of a tick column"))),
    })
}

fn out_of_range(value: i64, unit_ns: i64) -> Error {
    Error::new(
        ErrorKind::DatetimeOverflow,
        format!(
            "time {value} × {unit_ns} ns is outside of the years 1677 to 2262 that ticks cover"
        ),
    )
}

#[cfg(test)]
mod tests;
