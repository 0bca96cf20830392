//! Assignment casts: the conversion of a value to the type of a column in INSERT and COPY, as in
//! PostgreSQL. The cast is exact where both types are exact. An out-of-range value is an error,
//! never a wrapped number.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float32Array, Int64Array, ListArray, new_null_array},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Decimal128Type, Field, Float64Type, Int64Type, TimeUnit},
    util::display::FormatOptions,
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_postgres::errors::from_arrow;
use stratalog_text::{ColumnBuilder, ColumnWriter, TextStyle, calendar::nearest_units};

use crate::Session;

const CAST: CastOptions<'static> =
    CastOptions { safe: false, format_options: FormatOptions::new() };

/// The session's format of text values, with the current time as the meaning of `now`.
pub fn style(session: &Session) -> TextStyle {
    TextStyle { now_ns: Some(session.parts().clock.now_ns()), ..session.text_style() }
}

/// The target column of an assignment.
#[derive(Debug, Clone, Copy)]
pub struct Assignment<'a> {
    /// The column's type.
    pub column_type: &'a ColumnType,
    /// The column's name, for messages.
    pub name: &'a str,
    /// The format of text values.
    pub style: &'a TextStyle,
}

/// The error for a type that cannot be assigned to the column.
pub fn mismatch(name: &str, column_type: &ColumnType, from: &str) -> Error {
    Error::new(
        ErrorKind::DatatypeMismatch,
        format!("column \"{name}\" is of type {column_type} but expression is of type {from}"),
    )
    .with_hint("You will need to rewrite or cast the expression.")
}

/// Checks that values of a field's type may be assigned to a column type.
///
/// # Errors
/// `DatatypeMismatch`.
pub fn check(field: &Field, column_type: &ColumnType, name: &str) -> Result<()> {
    if field.data_type().is_null() {
        return Ok(());
    }
    let Some(from) = ColumnType::from_arrow_field(field) else {
        return Err(mismatch(name, column_type, &field.data_type().to_string()));
    };
    if allowed(&from, column_type) {
        Ok(())
    } else {
        Err(mismatch(name, column_type, &from.to_string()))
    }
}

/// Checks that no numeric value has more digits than its type allows: sums, and Arrow data from a
/// client, may have more.
///
/// # Errors
/// `NumericOutOfRange`.
fn check_digits(array: &ArrayRef) -> Result<()> {
    match array.data_type() {
        DataType::Decimal128(precision, scale) => {
            let numbers = array.as_primitive::<Decimal128Type>();
            numbers.validate_decimal_precision(*precision).map_err(|_| {
                let whole = i32::from(*precision) - i32::from(*scale);
                Error::new(ErrorKind::NumericOutOfRange, "numeric field overflow").with_detail(
                    format!(
                        "A field with precision {precision}, scale {scale} must round to an absolute value less than 10^{whole}."
                    ),
                )
            })
        }
        DataType::List(_) => check_digits(array.as_list::<i32>().values()),
        _ => Ok(()),
    }
}

fn allowed(from: &ColumnType, to: &ColumnType) -> bool {
    use ColumnType as T;
    let number = |column_type: &T| {
        matches!(
            column_type,
            T::SmallInt | T::Integer | T::BigInt | T::Real | T::Double | T::Numeric { .. }
        )
    };
    match (from, to) {
        // A text constant may have no type of its own, so text can be assigned to any type.
        (T::Text, _) | (_, T::Text) => true,
        (
            T::Timestamp { .. } | T::TimestampTz { .. },
            T::Timestamp { .. } | T::TimestampTz { .. },
        ) => true,
        (T::Date, T::Timestamp { .. } | T::TimestampTz { .. }) => true,
        (T::Timestamp { .. } | T::TimestampTz { .. }, T::Date | T::Time) => true,
        (T::Time, T::Interval) => true,
        (T::Array(from), T::Array(to)) => allowed(from, to),
        (from, to) => from == to || number(from) && number(to),
    }
}

impl Assignment<'_> {
    /// Converts the values of `array` to the column's type.
    ///
    /// # Errors
    /// `DatatypeMismatch`; the parse or range error of a value.
    pub fn convert(&self, array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
        let wanted = self.column_type.arrow_type();
        if array.data_type().is_null() {
            return Ok(new_null_array(&wanted, array.len()));
        }
        check(field, self.column_type, self.name)?;
        let from = ColumnType::from_arrow_field(field)
            .ok_or_else(|| mismatch(self.name, self.column_type, &field.data_type().to_string()))?;
        if *array.data_type() == wanted && &from == self.column_type {
            check_digits(array)?;
            return Ok(Arc::clone(array));
        }
        match (&from, self.column_type) {
            // The assigned text is `true` or `false`; only the output of a boolean is `t` or `f`.
            (ColumnType::Text | ColumnType::Boolean, ColumnType::Text) => {
                cast_with_options(array, &wanted, &CAST).map_err(from_arrow)
            }
            (ColumnType::Text, _) => self.parse(array),
            (_, ColumnType::Text) => self.write(array, field),
            (_, ColumnType::SmallInt | ColumnType::Integer | ColumnType::BigInt) => {
                stratalog_functions::to_integer(array, self.column_type)
            }
            (_, ColumnType::Real) => self.to_real(array),
            (ColumnType::Real | ColumnType::Double, ColumnType::Numeric { precision, scale }) => {
                stratalog_functions::to_numeric(array, *precision, *scale)
            }
            (_, ColumnType::Numeric { .. }) => {
                cast_with_options(array, &wanted, &CAST).map_err(|error| {
                    Error::new(ErrorKind::NumericOutOfRange, "numeric field overflow")
                        .with_detail(error.to_string())
                })
            }
            (_, ColumnType::Timestamp { .. } | ColumnType::TimestampTz { .. }) => {
                self.to_timestamp(array)
            }
            (ColumnType::Array(_), ColumnType::Array(element)) => self.to_array(array, element),
            _ => cast_with_options(array, &wanted, &CAST).map_err(from_arrow),
        }
    }

    fn parse(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let text = cast_with_options(array, &DataType::Utf8View, &CAST).map_err(from_arrow)?;
        let mut builder = ColumnBuilder::new(self.column_type, text.len());
        for value in text.as_string_view() {
            match value {
                Some(value) => builder.append_text(value, self.style)?,
                None => builder.append_null(),
            }
        }
        Ok(builder.finish())
    }

    fn write(&self, array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
        let writer = ColumnWriter::new(array, field, self.style)?;
        let mut builder = ColumnBuilder::new(&ColumnType::Text, array.len());
        let mut bytes = Vec::new();
        for row in 0..array.len() {
            if array.is_null(row) {
                builder.append_null();
                continue;
            }
            bytes.clear();
            writer.write(row, &mut bytes);
            builder.append_text(&String::from_utf8_lossy(&bytes), self.style)?;
        }
        Ok(builder.finish())
    }

    fn to_real(self, array: &ArrayRef) -> Result<ArrayRef> {
        let doubles = cast_with_options(array, &DataType::Float64, &CAST).map_err(from_arrow)?;
        let reals: Option<Vec<Option<f32>>> = doubles
            .as_primitive::<Float64Type>()
            .iter()
            .map(|value| match value {
                None => Some(None),
                Some(value) => {
                    #[expect(
                        clippy::cast_possible_truncation,
                        reason = "rounding to the nearest real is what is wanted; overflow is checked"
                    )]
                    let real = value as f32;
                    (real.is_finite() || !value.is_finite()).then_some(Some(real))
                }
            })
            .collect();
        match reals {
            Some(reals) => Ok(Arc::new(Float32Array::from(reals))),
            None => Err(Error::new(ErrorKind::NumericOutOfRange, "value out of range: overflow")),
        }
    }

    /// Converts timestamps to the column's unit and time zone. A coarser unit rounds to the nearest
    /// value.
    fn to_timestamp(self, array: &ArrayRef) -> Result<ArrayRef> {
        self.timestamp(array, true)
    }

    /// Converts timestamps like an assignment, but truncates to a coarser unit: the current time
    /// must never be rounded into the future.
    ///
    /// # Errors
    /// `DatetimeOverflow`.
    pub fn truncate_time(&self, array: &ArrayRef, _field: &Field) -> Result<ArrayRef> {
        self.timestamp(array, false)
    }

    fn timestamp(&self, array: &ArrayRef, round: bool) -> Result<ArrayRef> {
        let overflow = || Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range");
        let unit_ns = i128::from(self.column_type.timestamp_unit_ns().unwrap_or(1));
        let zoned_to = matches!(self.column_type, ColumnType::TimestampTz { .. });
        let (zoned_from, from_ns): (bool, i128) = match array.data_type() {
            DataType::Timestamp(unit, zone) => (zone.is_some(), nanoseconds(*unit)),
            DataType::Date32 => (false, 86_400_000_000_000),
            other => return Err(mismatch(self.name, self.column_type, &other.to_string())),
        };
        let counts: ArrayRef = match array.data_type() {
            DataType::Date32 => {
                let days = cast_with_options(array, &DataType::Int32, &CAST).map_err(from_arrow)?;
                cast_with_options(&days, &DataType::Int64, &CAST).map_err(from_arrow)?
            }
            _ => cast_with_options(array, &DataType::Int64, &CAST).map_err(from_arrow)?,
        };
        let zone = &self.style.time_zone;
        let mut converted: Vec<Option<i64>> = Vec::with_capacity(counts.len());
        for count in counts.as_primitive::<Int64Type>() {
            let Some(count) = count else {
                converted.push(None);
                continue;
            };
            let mut ns = i128::from(count) * from_ns;
            let seconds = || i64::try_from(ns.div_euclid(1_000_000_000)).map_err(|_| overflow());
            match (zoned_from, zoned_to) {
                (true, false) => ns += i128::from(zone.offset_at(seconds()?)) * 1_000_000_000,
                (false, true) => ns -= i128::from(zone.offset_of_local(seconds()?)) * 1_000_000_000,
                _ => {}
            }
            let value = match round {
                true => nearest_units(ns, unit_ns),
                false => ns.div_euclid(unit_ns),
            };
            converted.push(Some(i64::try_from(value).map_err(|_| overflow())?));
        }
        let counts: ArrayRef = Arc::new(Int64Array::from(converted));
        cast_with_options(&counts, &self.column_type.arrow_type(), &CAST).map_err(from_arrow)
    }

    fn to_array(self, array: &ArrayRef, element: &ColumnType) -> Result<ArrayRef> {
        let field = match array.data_type() {
            DataType::List(field) => Arc::clone(field),
            DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                let plain = cast_with_options(array, &DataType::List(Arc::clone(field)), &CAST)
                    .map_err(from_arrow)?;
                return self.to_array(&plain, element);
            }
            other => return Err(mismatch(self.name, self.column_type, &other.to_string())),
        };
        let list = array.as_list::<i32>();
        let inner = Assignment { column_type: element, ..self };
        let values = inner.convert(list.values(), &field)?;
        let list = ListArray::try_new(
            Arc::new(element.arrow_field("item", true)),
            list.offsets().clone(),
            values,
            list.nulls().cloned(),
        )
        .map_err(from_arrow)?;
        Ok(Arc::new(list))
    }
}

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Rounds a decimal constant to the nearest whole number, and halves away from zero.
///
/// # Errors
/// `NumericOutOfRange` when it has more digits than any integer.
pub fn round_decimal(number: &str) -> Result<String> {
    let out_of_range =
        || Error::new(ErrorKind::NumericOutOfRange, format!("value \"{number}\" is out of range"));
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            (mantissa, exponent.parse::<i32>().map_err(|_| out_of_range())?)
        }
        None => (number, 0),
    };
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let point = i64::try_from(whole.len()).map_err(|_| out_of_range())? + i64::from(exponent);
    if point > 40 {
        return if digits.bytes().all(|digit| digit == b'0') {
            Ok("0".to_string())
        } else {
            Err(out_of_range())
        };
    }
    if point < 0 {
        return Ok("0".to_string());
    }
    let point = usize::try_from(point).map_err(|_| out_of_range())?;
    let mut kept: String = digits.chars().chain(std::iter::repeat('0')).take(point).collect();
    if kept.is_empty() {
        kept.push('0');
    }
    let up = digits.as_bytes().get(point).is_some_and(|digit| *digit >= b'5');
    let value: i128 = kept.parse::<i128>().map_err(|_| out_of_range())? + i128::from(up);
    Ok(if value == 0 { "0".to_string() } else { format!("{sign}{value}") })
}

#[cfg(test)]
mod tests;
