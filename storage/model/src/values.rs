//! Value summaries and value predicates: parts whose lowest and highest values rule out an event
//! need no reading (F86, F87).
//!
//! Errors are allowed on one side only: a skipped part never holds a wanted value.

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

/// Maximum bytes of a stored text bound.
const BYTES_MAX: usize = 32;

/// A value, in the order of its type.
#[derive(Debug, Clone, PartialEq)]
pub enum OrderedValue {
    /// A number without a fraction. Includes dates and times in the unit of their column, decimals
    /// in units of their last digit, false (0) and true (1).
    Whole(i128),
    /// Neither NaN nor -0.
    Float(f64),
    /// Text, bytea and uuid, in byte order.
    Bytes(Bytes),
}

impl OrderedValue {
    /// A float; `None` for NaN, which has no order.
    pub fn float(value: f64) -> Option<Self> {
        // Both zeros are equal.
        (!value.is_nan()).then_some(Self::Float(if value == 0.0 { 0.0 } else { value }))
    }

    /// The order of two values. Numbers of different kinds are compared as floats: neighbors may
    /// compare as equal. `None` for values without an order.
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

/// A summary of the values of a part of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueSummary {
    /// Rows.
    pub rows: u64,
    /// The number of NULL values.
    pub nulls: u64,
    /// A lower and an upper bound of the values; neither bound needs to be a value of the part.
    /// `None` if nothing is known, or if all values are NULL.
    pub hull: Option<(OrderedValue, OrderedValue)>,
}

impl ValueSummary {
    /// The summary of an array with the Arrow type of a column.
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
    /// NULL, and nothing else.
    Null,
    /// Values between two bounds, both included. A missing bound is open; without any bound: all
    /// values but NULL.
    Between(Option<OrderedValue>, Option<OrderedValue>),
    /// One of several values, in the column's Arrow type: for an index.
    Among(ArrayRef),
    /// Texts that contain a word for each part: for an inverted index.
    Words(Vec<WordPart>),
}

/// A conjunct about a column, known only in part. The result of a scan may hold other events: the
/// reader applies the complete predicate again.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueFilter {
    /// Position of the column, counted like `ScanRequest::projection`: a position in
    /// `ChronicleDefinition::columns`, or the position of `_seq` behind the user's columns.
    pub column: usize,
    /// The wanted values.
    pub predicate: ValuePredicate,
}

impl ValuePredicate {
    /// The range between the lowest and the highest value of `array`; `None` for values without an
    /// order.
    pub fn among(array: &ArrayRef) -> Option<Self> {
        let (low, high) = hull(array)?;
        debug_assert!(
            low.order(&high).is_some_and(Ordering::is_le),
            "the lowest value is above the highest"
        );
        Some(Self::Between(Some(low), Some(high)))
    }

    /// Whether a part with the summary `part` may hold a wanted value.
    pub fn may_be_in(&self, part: &ValueSummary) -> bool {
        match self {
            Self::Null => part.nulls > 0,
            Self::Between(..) | Self::Among(_) | Self::Words(_) if part.nulls >= part.rows => false,
            // The index has checked the other facts about the part.
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

    /// The union of both predicates; `None` if no predicate can express the union.
    #[must_use]
    pub fn or(self, other: Self) -> Option<Self> {
        let outer = |one: Option<OrderedValue>, other: Option<OrderedValue>, wanted: Ordering| {
            let (one, other) = (one?, other?);
            // As floats, different whole numbers may compare as equal.
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

/// An upper bound of `bytes`, at most [`BYTES_MAX`] bytes long. A cut bound is above all texts with
/// the same first [`BYTES_MAX`] bytes; `None` if no bound of this length exists.
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

/// The bounds of texts.
fn around(low: Option<&[u8]>, high: Option<&[u8]>) -> Option<(OrderedValue, OrderedValue)> {
    debug_assert_eq!(low.is_some(), high.is_some(), "values have one bound only");
    let low = low?;
    let low = Bytes::copy_from_slice(low.get(..BYTES_MAX).unwrap_or(low));
    let high = above(high?)?;
    debug_assert!(low <= high, "the lower bound is above the upper bound");
    Some((OrderedValue::Bytes(low), OrderedValue::Bytes(high)))
}

/// The lowest and the highest value; `None` without values, and for values without an order.
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
        // In this order, NaN of either sign is first or last.
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
