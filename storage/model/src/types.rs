//! SQL column types and the Arrow type of each.

use std::{collections::HashMap, fmt, sync::Arc};

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

/// Metadata key of a result field that returns a table column unchanged. The value is
/// `<oid of the table>.<number of the column>`.
pub const ORIGIN_METADATA: &str = "stratalog.origin";

/// Metadata key of a field whose Arrow type does not determine its PostgreSQL type, such as the
/// catalog's `oid`, `name`, `char` and `int2vector`. The value is the name of the PostgreSQL type.
pub const PG_TYPE_METADATA: &str = "stratalog.pg_type";

/// Largest number of decimal digits of a NUMERIC.
pub const NUMERIC_PRECISION_MAX: u8 = 38;

/// Arrow's metadata key for the name of an extension type.
const EXTENSION_NAME: &str = "ARROW:extension:name";

/// The type of a column. Each SQL type has exactly one Arrow type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// `boolean`: Boolean
    Boolean,
    /// `smallint`: Int16
    SmallInt,
    /// `integer`: Int32
    Integer,
    /// `bigint`: Int64
    BigInt,
    /// `real`: Float32
    Real,
    /// `double precision`: Float64
    Double,
    /// `numeric(precision, scale)`: Decimal128, precision 1 … 38, scale 0 … precision
    Numeric {
        /// Total number of decimal digits.
        precision: u8,
        /// Decimal digits after the point.
        scale: u8,
    },
    /// `text`: Utf8View
    Text,
    /// `bytea`: Binary
    Bytea,
    /// `timestamp(precision)` without time zone: Timestamp; the precision is 0, 3, 6 or 9
    Timestamp {
        /// Decimal digits of the fraction of a second.
        precision: u8,
    },
    /// `timestamptz(precision)`: Timestamp in UTC; the precision is 0, 3, 6 or 9
    TimestampTz {
        /// Decimal digits of the fraction of a second.
        precision: u8,
    },
    /// `date`: Date32
    Date,
    /// `time` without time zone: Time64 in microseconds
    Time,
    /// `interval`: IntervalMonthDayNano, with months, days and nanoseconds
    Interval,
    /// `uuid`: 16 bytes, extension `arrow.uuid`
    Uuid,
    /// `jsonb`: Utf8View with normalized JSON, extension `arrow.json`
    Jsonb,
    /// `element[]`: List with one dimension
    Array(Box<ColumnType>),
}

impl ColumnType {
    /// NUMERIC without precision and scale.
    pub const NUMERIC: Self = ColumnType::Numeric { precision: 38, scale: Self::NUMERIC_SCALE };

    /// Digits after the point of a NUMERIC without precision and scale.
    pub const NUMERIC_SCALE: u8 = 10;

    /// Checks the limits of precision, scale and nesting.
    pub fn validate(&self) -> Result<()> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidParameterValue, message);
        match self {
            ColumnType::Numeric { precision, scale } => {
                if !(1..=NUMERIC_PRECISION_MAX).contains(precision) {
                    return Err(invalid(format!(
                        "NUMERIC precision {precision} must be between 1 and {NUMERIC_PRECISION_MAX}"
                    )));
                }
                if scale > precision {
                    return Err(invalid(format!(
                        "NUMERIC scale {scale} must be between 0 and precision {precision}"
                    )));
                }
                Ok(())
            }
            ColumnType::Timestamp { precision } | ColumnType::TimestampTz { precision } => {
                if matches!(precision, 0 | 3 | 6 | 9) {
                    Ok(())
                } else {
                    Err(invalid(format!("timestamp precision {precision} is not 0, 3, 6 or 9")))
                }
            }
            ColumnType::Array(element) => match element.as_ref() {
                ColumnType::Array(_) => Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    "arrays of arrays are not supported",
                )),
                other => other.validate(),
            },
            _ => Ok(()),
        }
    }

    /// The Arrow type of the column's arrays.
    pub fn arrow_type(&self) -> DataType {
        match self {
            ColumnType::Boolean => DataType::Boolean,
            ColumnType::SmallInt => DataType::Int16,
            ColumnType::Integer => DataType::Int32,
            ColumnType::BigInt => DataType::Int64,
            ColumnType::Real => DataType::Float32,
            ColumnType::Double => DataType::Float64,
            ColumnType::Numeric { precision, scale } => {
                DataType::Decimal128(*precision, i8::try_from(*scale).unwrap_or(0))
            }
            ColumnType::Text | ColumnType::Jsonb => DataType::Utf8View,
            ColumnType::Bytea => DataType::Binary,
            ColumnType::Timestamp { precision } => DataType::Timestamp(time_unit(*precision), None),
            ColumnType::TimestampTz { precision } => {
                DataType::Timestamp(time_unit(*precision), Some(Arc::from("UTC")))
            }
            ColumnType::Date => DataType::Date32,
            ColumnType::Time => DataType::Time64(TimeUnit::Microsecond),
            ColumnType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            ColumnType::Uuid => DataType::FixedSizeBinary(16),
            ColumnType::Array(element) => {
                DataType::List(Arc::new(element.arrow_field("item", true)))
            }
        }
    }

    /// The Arrow field of a column of this type, extension metadata included.
    pub fn arrow_field(&self, name: &str, nullable: bool) -> Field {
        let field = Field::new(name, self.arrow_type(), nullable);
        let field = match self.extension_name() {
            Some(extension) => field.with_metadata(HashMap::from([(
                EXTENSION_NAME.to_string(),
                extension.to_string(),
            )])),
            None => field,
        };
        debug_assert!(
            self.validate().is_err() || Self::from_arrow_field(&field).as_ref() == Some(self),
            "the field is of another type"
        );
        field
    }

    fn extension_name(&self) -> Option<&'static str> {
        match self {
            ColumnType::Uuid => Some("arrow.uuid"),
            ColumnType::Jsonb => Some("arrow.json"),
            _ => None,
        }
    }

    /// The column type of a result field for clients; `None` if no SQL type of Stratalog fits
    /// (structs, maps …).
    pub fn from_arrow_field(field: &Field) -> Option<ColumnType> {
        match field.metadata().get(EXTENSION_NAME).map(String::as_str) {
            Some("arrow.uuid") => return Some(ColumnType::Uuid),
            Some("arrow.json") => return Some(ColumnType::Jsonb),
            _ => {}
        }
        Self::from_arrow_type(field.data_type())
    }

    fn from_arrow_type(data_type: &DataType) -> Option<ColumnType> {
        Some(match data_type {
            DataType::Boolean => ColumnType::Boolean,
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => ColumnType::SmallInt,
            DataType::Int32 | DataType::UInt16 => ColumnType::Integer,
            DataType::Int64 | DataType::UInt32 => ColumnType::BigInt,
            DataType::UInt64 => ColumnType::Numeric { precision: 20, scale: 0 },
            DataType::Float16 | DataType::Float32 => ColumnType::Real,
            DataType::Float64 => ColumnType::Double,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => ColumnType::Numeric {
                precision: *precision,
                scale: u8::try_from(*scale).unwrap_or(0),
            },
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
                ColumnType::Text
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => ColumnType::Bytea,
            // Array functions drop the metadata of the elements. No `bytea` of Stratalog has a
            // fixed size, so 16 bytes are a UUID.
            DataType::FixedSizeBinary(16) => ColumnType::Uuid,
            DataType::FixedSizeBinary(_) => ColumnType::Bytea,
            DataType::Timestamp(unit, None) => ColumnType::Timestamp { precision: digits(*unit) },
            DataType::Timestamp(unit, Some(_)) => {
                ColumnType::TimestampTz { precision: digits(*unit) }
            }
            DataType::Date32 | DataType::Date64 => ColumnType::Date,
            DataType::Time32(_) | DataType::Time64(_) => ColumnType::Time,
            DataType::Interval(_) | DataType::Duration(_) => ColumnType::Interval,
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => {
                ColumnType::Array(Box::new(Self::from_arrow_field(item)?))
            }
            DataType::Dictionary(_, value) => Self::from_arrow_type(value)?,
            DataType::RunEndEncoded(_, value) => Self::from_arrow_field(value)?,
            _ => return None,
        })
    }

    /// Whether a column of this type may be the tick column.
    pub fn is_timestamp(&self) -> bool {
        matches!(self, ColumnType::Timestamp { .. } | ColumnType::TimestampTz { .. })
    }

    /// Nanoseconds per stored unit of a timestamp type; `None` for other types.
    pub fn timestamp_unit_ns(&self) -> Option<i64> {
        let unit_ns = match self {
            ColumnType::Timestamp { precision } | ColumnType::TimestampTz { precision } => {
                Some(match precision {
                    0 => 1_000_000_000,
                    3 => 1_000_000,
                    6 => 1_000,
                    _ => 1,
                })
            }
            _ => None,
        };
        debug_assert_eq!(unit_ns.is_some(), self.is_timestamp(), "only timestamps have a unit");
        unit_ns
    }
}

impl fmt::Display for ColumnType {
    /// Writes the SQL name of the type, as in the output of `\d`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnType::Boolean => f.write_str("boolean"),
            ColumnType::SmallInt => f.write_str("smallint"),
            ColumnType::Integer => f.write_str("integer"),
            ColumnType::BigInt => f.write_str("bigint"),
            ColumnType::Real => f.write_str("real"),
            ColumnType::Double => f.write_str("double precision"),
            ColumnType::Numeric { precision, scale } => write!(f, "numeric({precision},{scale})"),
            ColumnType::Text => f.write_str("text"),
            ColumnType::Bytea => f.write_str("bytea"),
            ColumnType::Timestamp { precision } => {
                write!(f, "timestamp({precision}) without time zone")
            }
            ColumnType::TimestampTz { precision } => {
                write!(f, "timestamp({precision}) with time zone")
            }
            ColumnType::Date => f.write_str("date"),
            ColumnType::Time => f.write_str("time without time zone"),
            ColumnType::Interval => f.write_str("interval"),
            ColumnType::Uuid => f.write_str("uuid"),
            ColumnType::Jsonb => f.write_str("jsonb"),
            ColumnType::Array(element) => write!(f, "{element}[]"),
        }
    }
}

fn time_unit(precision: u8) -> TimeUnit {
    match precision {
        0 => TimeUnit::Second,
        3 => TimeUnit::Millisecond,
        6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

fn digits(unit: TimeUnit) -> u8 {
    let digits = match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    debug_assert!(time_unit(digits) == unit, "the precision belongs to another unit");
    digits
}
