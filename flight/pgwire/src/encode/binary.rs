//! Encodes values in PostgreSQL's binary format.

use std::{net::IpAddr, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, FixedSizeBinaryArray,
        Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
        ListArray, StringViewArray,
    },
    compute::cast,
    datatypes::{
        DataType, Decimal128Type, Decimal256Type, Field, Int64Type, Time64MicrosecondType,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType,
    },
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_text::calendar::{DAY_SECONDS, POSTGRES_EPOCH_DAYS};

use crate::types::{element_of, oid, wire_type};

/// Microseconds between 1970-01-01 and 2000-01-01.
pub(crate) const POSTGRES_EPOCH_MICROS: i64 = POSTGRES_EPOCH_DAYS * DAY_SECONDS * 1_000_000;

/// Encodes the values of an Arrow array in PostgreSQL's binary format.
#[derive(Debug)]
pub struct BinaryWriter {
    values: Values,
}

#[derive(Debug)]
enum Values {
    Null,
    Boolean(BooleanArray),
    Int16(Int16Array),
    Int32(Int32Array),
    Int64(Int64Array),
    /// 64-bit values that clients receive as a 4-byte type: `oid`, `xid` or `cid`.
    Oid(Int64Array),
    Float32(Float32Array),
    Float64(Float64Array),
    Decimal {
        array: ArrayRef,
        scale: i8,
    },
    Text(StringViewArray),
    Jsonb(StringViewArray),
    Bytea(BinaryArray),
    Timestamp {
        units: Int64Array,
        per_second: i64,
    },
    Date(Date32Array),
    Time(Int64Array),
    Interval(IntervalMonthDayNanoArray),
    Uuid(FixedSizeBinaryArray),
    /// `"char"`: one byte; 0 for the empty text.
    Char(StringViewArray),
    /// `inet`: network addresses.
    Inet(StringViewArray),
    List {
        array: ListArray,
        element: u32,
        /// The index of the first element as SQL counts: 1, or 0 for vector types.
        lower: i32,
        child: Box<BinaryWriter>,
    },
}

impl BinaryWriter {
    /// Creates an encoder for `array`. `wire_oid` is the object id of the type that the client
    /// receives.
    ///
    /// # Errors
    /// `FeatureNotSupported` if no SQL type matches `field`.
    pub fn new(array: &ArrayRef, field: &Field, wire_oid: u32) -> Result<Self> {
        let unsupported = || {
            Error::new(
                ErrorKind::FeatureNotSupported,
                format!(
                    "column \"{}\" has type {}, which has no binary form",
                    field.name(),
                    stratalog_text::type_name(field)
                ),
            )
            .with_hint("cast the column to an SQL type, or request the text format")
        };
        if matches!(array.data_type(), DataType::Null) {
            return Ok(Self { values: Values::Null });
        }
        let column_type = ColumnType::from_arrow_field(field).ok_or_else(unsupported)?;
        if is_name_of_oid(wire_oid) {
            // The value is a name, but the binary format needs the object id, which only the
            // catalog knows.
            return Err(unsupported());
        }
        if matches!(wire_oid, oid::OID | oid::XID | oid::CID) && array.data_type().is_integer() {
            let wide = cast(array, &DataType::Int64)?;
            return Ok(Self { values: Values::Oid(wide.as_primitive().clone()) });
        }
        // 256-bit decimals are not cast to the canonical type, which has 128 bits.
        if let DataType::Decimal256(_, scale) = array.data_type() {
            return Ok(Self {
                values: Values::Decimal { array: Arc::clone(array), scale: *scale },
            });
        }
        let array = canonical(array, &column_type)?;
        let values = match &column_type {
            ColumnType::Boolean => Values::Boolean(array.as_boolean().clone()),
            ColumnType::SmallInt => Values::Int16(array.as_primitive().clone()),
            ColumnType::Integer => Values::Int32(array.as_primitive().clone()),
            ColumnType::BigInt => Values::Int64(array.as_primitive().clone()),
            ColumnType::Real => Values::Float32(array.as_primitive().clone()),
            ColumnType::Double => Values::Float64(array.as_primitive().clone()),
            ColumnType::Numeric { .. } => match array.data_type() {
                DataType::Decimal128(_, scale) => {
                    let scale = *scale;
                    Values::Decimal { array, scale }
                }
                _ => return Err(unsupported()),
            },
            ColumnType::Text if wire_oid == oid::CHAR => {
                Values::Char(array.as_string_view().clone())
            }
            ColumnType::Text if wire_oid == oid::INET => {
                Values::Inet(array.as_string_view().clone())
            }
            ColumnType::Text => Values::Text(array.as_string_view().clone()),
            ColumnType::Jsonb if wire_oid == oid::JSON => {
                Values::Text(array.as_string_view().clone())
            }
            ColumnType::Jsonb => Values::Jsonb(array.as_string_view().clone()),
            ColumnType::Bytea => Values::Bytea(array.as_binary().clone()),
            ColumnType::Timestamp { .. } | ColumnType::TimestampTz { .. } => {
                use arrow::datatypes::TimeUnit;
                let DataType::Timestamp(unit, _) = array.data_type() else {
                    return Err(unsupported());
                };
                macro_rules! units {
                    ($type:ty) => {
                        array.as_primitive::<$type>().reinterpret_cast::<Int64Type>()
                    };
                }
                let (units, per_second) = match unit {
                    TimeUnit::Second => (units!(TimestampSecondType), 1),
                    TimeUnit::Millisecond => (units!(TimestampMillisecondType), 1_000),
                    TimeUnit::Microsecond => (units!(TimestampMicrosecondType), 1_000_000),
                    TimeUnit::Nanosecond => (units!(TimestampNanosecondType), 1_000_000_000),
                };
                Values::Timestamp { units, per_second }
            }
            ColumnType::Date => Values::Date(array.as_primitive().clone()),
            ColumnType::Time => Values::Time(
                array.as_primitive::<Time64MicrosecondType>().reinterpret_cast::<Int64Type>(),
            ),
            ColumnType::Interval => Values::Interval(array.as_primitive().clone()),
            ColumnType::Uuid => Values::Uuid(array.as_fixed_size_binary().clone()),
            ColumnType::Array(element) => {
                let list = array.as_list::<i32>().clone();
                let DataType::List(item) = list.data_type() else { return Err(unsupported()) };
                let element = element_of(wire_oid).unwrap_or_else(|| wire_type(element).oid);
                let child = Self::new(list.values(), item, element)?;
                let lower = match wire_oid {
                    oid::INT2VECTOR | oid::OIDVECTOR => 0,
                    _ => 1,
                };
                Values::List { child: Box::new(child), element, lower, array: list }
            }
        };
        Ok(Self { values })
    }

    fn array(&self) -> Option<&dyn Array> {
        Some(match &self.values {
            Values::Null => return None,
            Values::Boolean(array) => array,
            Values::Int16(array) => array,
            Values::Int32(array) => array,
            Values::Int64(array) | Values::Oid(array) | Values::Time(array) => array,
            Values::Float32(array) => array,
            Values::Float64(array) => array,
            Values::Decimal { array, .. } => array.as_ref(),
            Values::Text(array)
            | Values::Jsonb(array)
            | Values::Char(array)
            | Values::Inet(array) => array,
            Values::Bytea(array) => array,
            Values::Timestamp { units, .. } => units,
            Values::Date(array) => array,
            Values::Interval(array) => array,
            Values::Uuid(array) => array,
            Values::List { array, .. } => array,
        })
    }

    /// True if a time has digits beyond microseconds, which [`Self::write`] omits.
    pub(crate) fn cuts_digits(&self) -> bool {
        self.array().is_some_and(|array| self.cuts_digits_of(0, array.len()))
    }

    /// Does the same as [`Self::cuts_digits`] for the rows from `start` (included) to `end`
    /// (excluded). The list rows of a batch may use only a part of their child array.
    fn cuts_digits_of(&self, start: usize, end: usize) -> bool {
        let mut rows = start..end;
        match &self.values {
            Values::Timestamp { units, per_second } if *per_second > 1_000_000 => {
                let step = *per_second / 1_000_000;
                rows.any(|row| units.is_valid(row) && units.value(row) % step != 0)
            }
            Values::Interval(array) => {
                rows.any(|row| array.is_valid(row) && array.value(row).nanoseconds % 1_000 != 0)
            }
            Values::List { array, child, .. } => rows.any(|row| {
                let (start, end) = elements(array, row);
                array.is_valid(row) && child.cuts_digits_of(start, end)
            }),
            _ => false,
        }
    }

    /// Appends the value of row `row` to `out`; the caller passes a valid row. For NULL, appends
    /// nothing and returns `false`.
    ///
    /// # Errors
    /// `DatetimeOverflow` for times that the binary format cannot express.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<bool> {
        if self.array().is_none_or(|array| array.is_null(row)) {
            return Ok(false);
        }
        match &self.values {
            Values::Null => return Ok(false),
            Values::Boolean(array) => out.push(u8::from(array.value(row))),
            Values::Int16(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Values::Int32(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Values::Int64(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Values::Oid(array) => {
                let id = u32::try_from(array.value(row)).unwrap_or(0);
                out.extend_from_slice(&id.to_be_bytes());
            }
            Values::Float32(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Values::Float64(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Values::Decimal { array, scale } => {
                let mut text = Vec::new();
                match array.data_type() {
                    DataType::Decimal128(_, _) => {
                        let value = array.as_primitive::<Decimal128Type>().value(row);
                        stratalog_text::write::number::write_decimal(value, *scale, &mut text);
                    }
                    _ => {
                        let value = array.as_primitive::<Decimal256Type>().value(row);
                        let digits = value.to_string();
                        stratalog_text::write::number::write_decimal_text(
                            &digits, *scale, &mut text,
                        );
                    }
                }
                write_numeric(&text, out);
            }
            Values::Text(array) => out.extend_from_slice(array.value(row).as_bytes()),
            Values::Char(array) => out.push(array.value(row).bytes().next().unwrap_or(0)),
            Values::Inet(array) => write_address(array.value(row), out)?,
            Values::Jsonb(array) => {
                // The version number of the binary format of jsonb.
                out.push(1);
                out.extend_from_slice(array.value(row).as_bytes());
            }
            Values::Bytea(array) => out.extend_from_slice(array.value(row)),
            Values::Timestamp { units, per_second } => {
                let micros = micros(units.value(row), *per_second)
                    .and_then(|micros| micros.checked_sub(POSTGRES_EPOCH_MICROS))
                    .ok_or_else(|| {
                        Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range")
                    })?;
                out.extend_from_slice(&micros.to_be_bytes());
            }
            Values::Date(array) => {
                let epoch = i32::try_from(POSTGRES_EPOCH_DAYS).unwrap_or(0);
                let days = array.value(row).saturating_sub(epoch);
                out.extend_from_slice(&days.to_be_bytes());
            }
            Values::Time(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Values::Interval(array) => {
                let value = array.value(row);
                out.extend_from_slice(&value.nanoseconds.div_euclid(1_000).to_be_bytes());
                out.extend_from_slice(&value.days.to_be_bytes());
                out.extend_from_slice(&value.months.to_be_bytes());
            }
            Values::Uuid(array) => out.extend_from_slice(array.value(row)),
            Values::List { array, element, lower, child } => {
                write_list(array, (*element, *lower), child, row, out)?;
            }
        }
        Ok(true)
    }
}

/// True for an oid type whose values Stratalog represents as names, for example `regclass`.
fn is_name_of_oid(wire_oid: u32) -> bool {
    matches!(
        wire_oid,
        oid::REGPROC | oid::REGCLASS | oid::REGTYPE | oid::REGNAMESPACE | oid::REGROLE
    )
}

/// Encodes a network address as `inet`.
fn write_address(text: &str, out: &mut Vec<u8>) -> Result<()> {
    let address: IpAddr = text.parse().map_err(|_| {
        let message = format!("invalid input syntax for type inet: \"{text}\"");
        Error::new(ErrorKind::InvalidTextRepresentation, message)
    })?;
    // The four bytes before the address: PostgreSQL's number of the address family, the bits of the
    // network mask, 0 for "not a cidr", and the number of address bytes.
    match address {
        IpAddr::V4(address) => {
            out.extend_from_slice(&[2, 32, 0, 4]);
            out.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.extend_from_slice(&[3, 128, 0, 16]);
            out.extend_from_slice(&address.octets());
        }
    }
    Ok(())
}

/// Casts a column to the Arrow type that Stratalog normally uses for the SQL type. A query result
/// may have another Arrow type of the same SQL type.
fn canonical(array: &ArrayRef, column_type: &ColumnType) -> Result<ArrayRef> {
    let wanted = match (array.data_type(), column_type) {
        // A 128-bit decimal array needs no cast, whatever its precision and scale.
        (DataType::Decimal128(_, _), ColumnType::Numeric { .. }) => return Ok(Arc::clone(array)),
        // The zone of a timestamp is not part of its value, so a cast would only copy the array.
        (DataType::Timestamp(_, _), _) => return Ok(Arc::clone(array)),
        (_, wanted) => wanted.arrow_type(),
    };
    if *array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    Ok(cast(array, &wanted)?)
}

/// Converts a time in units of 1/`per_second` second to microseconds, rounded down; `None` if the
/// result exceeds 64 bits.
fn micros(units: i64, per_second: i64) -> Option<i64> {
    if per_second > 1_000_000 {
        Some(units.div_euclid(per_second / 1_000_000))
    } else {
        units.checked_mul(1_000_000 / per_second)
    }
}

/// The start and the end (excluded) of a row's elements in the child array of a list.
fn elements(array: &ListArray, row: usize) -> (usize, usize) {
    let bound = |at: usize| {
        array.value_offsets().get(at).and_then(|offset| usize::try_from(*offset).ok()).unwrap_or(0)
    };
    (bound(row), bound(row + 1))
}

fn write_list(
    array: &ListArray,
    (element, lower): (u32, i32),
    child: &BinaryWriter,
    row: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let (start, end) = elements(array, row);
    let length = i32::try_from(end.saturating_sub(start)).unwrap_or(0);
    let has_nulls = child.array().is_none_or(|values| (start..end).any(|at| values.is_null(at)));
    let dimensions = i32::from(length > 0);
    out.extend_from_slice(&dimensions.to_be_bytes());
    out.extend_from_slice(&i32::from(has_nulls && length > 0).to_be_bytes());
    out.extend_from_slice(&element.to_be_bytes());
    if length == 0 {
        return Ok(());
    }
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&lower.to_be_bytes());
    for at in start..end {
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        let length = if child.write(at, out)? {
            i32::try_from(out.len() - length_at - 4)
                .map_err(|_| crate::outbound::row_too_large())?
        } else {
            -1
        };
        crate::outbound::patch(out, length_at, length);
    }
    Ok(())
}

/// Encodes the text of a decimal number as PostgreSQL's binary `numeric`: groups of four digits on
/// both sides of the decimal point.
fn write_numeric(text: &[u8], out: &mut Vec<u8>) {
    let (negative, text) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (whole, fraction) = text.split_at(point);
    let fraction = fraction.get(1..).unwrap_or_default();
    let whole_groups = whole.len().div_ceil(4);
    let fraction_groups = fraction.len().div_ceil(4);
    let padding = whole_groups * 4 - whole.len();
    let mut groups: Vec<i16> = Vec::with_capacity(whole_groups + fraction_groups);
    let digits = std::iter::repeat_n(b'0', padding)
        .chain(whole.iter().copied())
        .chain(fraction.iter().copied())
        .chain(std::iter::repeat_n(b'0', fraction_groups * 4 - fraction.len()));
    let mut group = 0_i16;
    for (at, digit) in digits.enumerate() {
        group = group * 10 + i16::from(digit - b'0');
        if at % 4 == 3 {
            groups.push(group);
            group = 0;
        }
    }
    let mut weight = i16::try_from(whole_groups).unwrap_or(i16::MAX) - 1;
    let leading = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..leading);
    weight -= i16::try_from(leading).unwrap_or(0);
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    let sign: u16 = if negative && !groups.is_empty() { 0x4000 } else { 0 };
    out.extend_from_slice(&u16::try_from(groups.len()).unwrap_or(0).to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&u16::try_from(fraction.len()).unwrap_or(0).to_be_bytes());
    for group in groups {
        out.extend_from_slice(&group.to_be_bytes());
    }
}
