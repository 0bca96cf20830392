//! Summaries of column values, and predicates on values. A scan skips a block or row group if the
//! lowest and highest value show that no event can match (F86, F87).
//!
//! A skipped block or row group never contains a matching value; a block or row group that is read
//! may contain none.

use std::{cmp::Ordering, fmt};

use arrow::{
    array::{Array, ArrayRef, ArrowNumericType, AsArray, PrimitiveArray},
    compute::{max, max_binary, max_boolean, max_fixed_size_binary, max_string_view},
    compute::{min, min_binary, min_boolean, min_fixed_size_binary, min_string_view},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
        Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    },
};
use bytes::Bytes;

use crate::index::WordPart;

/// Maximum length of a stored bound of texts, in bytes.
const BYTES_MAX: usize = 32;

/// A value that can be compared with other values of its type.
#[derive(Debug, Clone, PartialEq)]
pub enum OrderedValue {
    /// An integer; also a date or time in the unit of its column, a decimal in units of its last
    /// digit, or a boolean (false is 0, true is 1).
    Whole(i128),
    /// A float, but neither NaN nor -0.
    Float(f64),
    /// Text, bytea and uuid, in byte order.
    Bytes(Bytes),
}

impl OrderedValue {
    /// Makes an ordered value from a float; `None` for NaN, which has no order.
    pub fn float(value: f64) -> Option<Self> {
        // 0 and -0 are equal: store both as 0.
        (!value.is_nan()).then_some(Self::Float(if value == 0.0 { 0.0 } else { value }))
    }

    /// Compares two values. An integer and a float are compared as floats, so neighboring numbers
    /// may compare as equal. `None` for values that cannot be compared.
    fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => Some(one.cmp(other)),
            (Self::Float(one), Self::Float(other)) => one.partial_cmp(other),
            (Self::Whole(one), Self::Float(other)) => (*one as f64).partial_cmp(other),
            (Self::Float(one), Self::Whole(other)) => one.partial_cmp(&(*other as f64)),
            (Self::Bytes(one), Self::Bytes(other)) => Some(one.cmp(other)),
            _ => None,
        }
    }
}

/// A summary of one column's values in a block or row group.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueSummary {
    /// Number of rows.
    pub rows: u64,
    /// The number of NULL values.
    pub nulls: u64,
    /// A lower and an upper bound of the values; the bounds need not occur as values. `None` if
    /// nothing is known, or if all values are NULL.
    pub hull: Option<(OrderedValue, OrderedValue)>,
}

impl ValueSummary {
    /// Computes the summary of an array of column values.
    pub fn of(array: &ArrayRef) -> Self {
        let (rows, nulls) = (array.len() as u64, array.logical_null_count() as u64);
        let hull = hull(array);
        debug_assert!(nulls <= rows, "there are more NULL values than rows");
        debug_assert!(hull.is_none() || nulls < rows, "NULL values have bounds");
        Self { rows, nulls, hull }
    }
}

/// A predicate on the values of a column. NULL matches only [`Self::Null`].
#[derive(Debug, Clone, PartialEq)]
pub enum ValuePredicate {
    /// Matches only NULL.
    Null,
    /// Matches values between two bounds, both included. `None` means unbounded on this side;
    /// without any bound, the predicate matches all values except NULL.
    Between(Option<OrderedValue>, Option<OrderedValue>),
    /// Matches one of several values, in the column's Arrow type; used with a Bloom index.
    Among(ArrayRef),
    /// Matches texts that contain, for each word part, a matching word; used with an inverted
    /// index.
    Words(Vec<WordPart>),
}

/// A necessary condition of a query on one column. The scan may return events that do not match:
/// the reader applies the complete condition again.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueFilter {
    /// The column, as a position like in `ScanRequest::projection`: a position in
    /// `ChronicleDefinition::columns`, or the position of `_seq` after the user's columns.
    pub column: usize,
    /// The condition on the values.
    pub predicate: ValuePredicate,
}

impl ValuePredicate {
    /// The predicate that matches all values between the lowest and the highest value of `array`;
    /// `None` for values without an order.
    pub fn among(array: &ArrayRef) -> Option<Self> {
        let (low, high) = hull(array)?;
        debug_assert!(
            low.order(&high).is_some_and(Ordering::is_le),
            "the lowest value is above the highest"
        );
        Some(Self::Between(Some(low), Some(high)))
    }

    /// Whether a block or row group with the summary `part` may contain a matching value.
    pub fn may_be_in(&self, part: &ValueSummary) -> bool {
        match self {
            Self::Null => part.nulls > 0,
            Self::Between(..) | Self::Among(_) | Self::Words(_) if part.nulls >= part.rows => false,
            // The index decides about these predicates; the summary cannot exclude anything.
            Self::Among(_) | Self::Words(_) => true,
            Self::Between(low, high) => {
                let Some((lowest, highest)) = &part.hull else { return true };
                let below = |one: &OrderedValue, other: &OrderedValue| {
                    one.order(other) == Some(Ordering::Less)
                };
                !low.as_ref().is_some_and(|low| below(highest, low))
                    && !high.as_ref().is_some_and(|high| below(high, lowest))
            }
        }
    }

    /// A predicate that matches all values that either predicate matches; `None` if no predicate
    /// can express this.
    #[must_use]
    pub fn or(self, other: Self) -> Option<Self> {
        let outer = |one: Option<OrderedValue>, other: Option<OrderedValue>, wanted: Ordering| {
            let (one, other) = (one?, other?);
            // Integers and floats are compared as floats: different integers may compare as equal.
            if std::mem::discriminant(&one) != std::mem::discriminant(&other) {
                return None;
            }
            Some(if one.order(&other)? == wanted { one } else { other })
        };
        match (self, other) {
            (Self::Null, Self::Null) => Some(Self::Null),
            (Self::Between(low, high), Self::Between(other_low, other_high)) => {
                let low = outer(low, other_low, Ordering::Less);
                Some(Self::Between(low, outer(high, other_high, Ordering::Greater)))
            }
            _ => None,
        }
    }
}

impl fmt::Display for OrderedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Bytes(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
        }
    }
}

impl fmt::Display for ValuePredicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("is null"),
            Self::Between(None, None) => f.write_str("is not null"),
            Self::Between(Some(low), None) => write!(f, ">= {low}"),
            Self::Between(None, Some(high)) => write!(f, "<= {high}"),
            Self::Between(Some(low), Some(high)) => write!(f, "{low} … {high}"),
            Self::Among(values) => write!(f, "by index: one of {} values", values.len()),
            Self::Words(words) => write!(f, "by index: {} words", words.len()),
        }
    }
}

/// An upper bound of `bytes` that is at most [`BYTES_MAX`] bytes long. The bound of a longer text
/// is above all texts with the same first [`BYTES_MAX`] bytes; `None` if no bound of this length
/// exists.
fn above(bytes: &[u8]) -> Option<Bytes> {
    let Some(head) = bytes.get(..BYTES_MAX).filter(|_| bytes.len() > BYTES_MAX) else {
        return Some(Bytes::copy_from_slice(bytes));
    };
    let last = head.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut above = head.get(..=last)?.to_vec();
    *above.last_mut()? += 1;
    debug_assert!(above.len() <= BYTES_MAX, "the upper bound is too long");
    debug_assert!(above.as_slice() > bytes, "the upper bound is not above the text");
    Some(above.into())
}

/// Bounds of at most [`BYTES_MAX`] bytes for texts between `low` and `high`.
fn around(low: Option<&[u8]>, high: Option<&[u8]>) -> Option<(OrderedValue, OrderedValue)> {
    debug_assert_eq!(low.is_some(), high.is_some(), "values have one bound only");
    let low = low?;
    let low = Bytes::copy_from_slice(low.get(..BYTES_MAX).unwrap_or(low));
    let high = above(high?)?;
    debug_assert!(low <= high, "the lower bound is above the upper bound");
    Some((OrderedValue::Bytes(low), OrderedValue::Bytes(high)))
}

/// The lowest and the highest value of an array; `None` without values, and for values without an
/// order.
fn hull(array: &ArrayRef) -> Option<(OrderedValue, OrderedValue)> {
    fn whole<T: ArrowNumericType<Native: Into<i128>>>(
        array: &ArrayRef,
    ) -> Option<(OrderedValue, OrderedValue)> {
        let values: &PrimitiveArray<T> = array.as_primitive_opt()?;
        Some((OrderedValue::Whole(min(values)?.into()), OrderedValue::Whole(max(values)?.into())))
    }
    fn float<T: ArrowNumericType<Native: Into<f64>>>(
        array: &ArrayRef,
    ) -> Option<(OrderedValue, OrderedValue)> {
        // Arrow orders NaN first or last, depending on its sign: a NaN appears as the minimum or
        // maximum.
        let values: &PrimitiveArray<T> = array.as_primitive_opt()?;
        Some((OrderedValue::float(min(values)?.into())?, OrderedValue::float(max(values)?.into())?))
    }
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            let rank = |value: bool| OrderedValue::Whole(value.into());
            Some((rank(min_boolean(values)?), rank(max_boolean(values)?)))
        }
        DataType::Int16 => whole::<Int16Type>(array),
        DataType::Int32 => whole::<Int32Type>(array),
        DataType::Int64 => whole::<Int64Type>(array),
        DataType::Date32 => whole::<Date32Type>(array),
        DataType::Time64(TimeUnit::Microsecond) => whole::<Time64MicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Second, _) => whole::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => whole::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => whole::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => whole::<TimestampNanosecondType>(array),
        DataType::Decimal128(..) => whole::<Decimal128Type>(array),
        DataType::Float32 => float::<Float32Type>(array),
        DataType::Float64 => float::<Float64Type>(array),
        DataType::Utf8View => {
            let values = array.as_string_view();
            around(
                min_string_view(values).map(str::as_bytes),
                max_string_view(values).map(str::as_bytes),
            )
        }
        DataType::Binary => {
            let values = array.as_binary::<i32>();
            around(min_binary(values), max_binary(values))
        }
        DataType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary();
            around(min_fixed_size_binary(values), max_fixed_size_binary(values))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
