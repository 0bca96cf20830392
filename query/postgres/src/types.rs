//! Maps SQL type names to column types.

use arrow::datatypes::FieldRef;
use datafusion::{
    error::Result as PlanResult,
    logical_expr::planner::TypePlanner,
    sql::sqlparser::ast::{
        ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, ObjectName, ObjectNamePart,
        TimezoneInfo,
    },
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_pg_catalog::{cast_field, catalog_type};

use crate::{errors::unsupported_type, rules::types::jsonb_arrays};

pub mod origin_type;
pub mod source;

pub use crate::rules::types::numeric_results::round_as_numerics;

/// The precision of a timestamp type without an explicit precision, in decimal digits of the
/// seconds.
///
/// PostgreSQL uses 6 digits. The default granularity of a chronicle is the nanosecond, and the
/// default precision of timestamps is therefore 9.
pub const TIMESTAMP_PRECISION_DEFAULT: u8 = 9;

/// The column type for the name of an SQL type.
///
/// # Errors
/// `FeatureNotSupported` for known but unsupported types, `UndefinedObject` for unknown types,
/// `InvalidParameterValue` for an invalid precision, scale or length.
pub fn column_type(sql_type: &DataType) -> Result<ColumnType> {
    let column_type = match sql_type {
        DataType::Boolean | DataType::Bool => ColumnType::Boolean,
        DataType::SmallInt(None) | DataType::Int2(None) => ColumnType::SmallInt,
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => ColumnType::Integer,
        DataType::BigInt(None) | DataType::Int8(None) => ColumnType::BigInt,
        DataType::Real | DataType::Float4 => ColumnType::Real,
        DataType::DoublePrecision | DataType::Float8 | DataType::Double(ExactNumberInfo::None) => {
            ColumnType::Double
        }
        DataType::Float(bits) => float(bits)?,
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => numeric(info)?,
        DataType::Text => ColumnType::Text,
        DataType::Varchar(length)
        | DataType::CharacterVarying(length)
        | DataType::CharVarying(length) => text(sql_type, length.as_ref())?,
        DataType::Char(_) | DataType::Character(_) => {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!(
                    "type {} is not supported: blank-padded strings are not stored",
                    lower(sql_type)
                ),
            )
            .with_hint("use text"));
        }
        DataType::Bytea => ColumnType::Bytea,
        DataType::Timestamp(precision, zone) => timestamp(*precision, *zone)?,
        DataType::Date => ColumnType::Date,
        DataType::Time(None | Some(6), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            ColumnType::Time
        }
        DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!("type {} is not supported: a time has microseconds", lower(sql_type)),
            )
            .with_hint("use time"));
        }
        DataType::Interval { fields: None, precision: None } => ColumnType::Interval,
        DataType::Uuid => ColumnType::Uuid,
        DataType::JSONB => ColumnType::Jsonb,
        DataType::JSON => {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                "type json is not supported: the text of a document is not stored unchanged",
            )
            .with_hint("use jsonb"));
        }
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            match column_type(element)? {
                ColumnType::Jsonb => return Err(jsonb_arrays::refusal()),
                element => ColumnType::Array(Box::new(element)),
            }
        }
        DataType::Custom(name, modifiers) => custom(&unquoted(name), modifiers)?,
        other => return Err(unsupported_type(&lower(other))),
    };
    column_type.validate()?;
    Ok(column_type)
}

/// The column type and the type name for a parameter that is cast to a type that only PostgreSQL
/// has, for example oid; `None` for other types.
pub fn parameter_type(sql_type: &DataType) -> Option<(ColumnType, &'static str)> {
    const TAKEN: [&str; 8] =
        ["oid", "name", "char", "json", "varchar", "oid[]", "name[]", "char[]"];
    catalog_type(sql_type).filter(|(_, name)| TAKEN.contains(name))
}

/// Provides the types of casts to the planner: the column type of every type name that
/// [`column_type`] knows.
#[derive(Debug)]
pub struct SqlTypes;

impl TypePlanner for SqlTypes {
    fn plan_type_field(&self, sql_type: &DataType) -> PlanResult<Option<FieldRef>> {
        if let Some((column_type, known)) = catalog_type(sql_type) {
            return Ok(Some(cast_field(&column_type, Some(known))));
        }
        match column_type(sql_type) {
            Ok(column_type) => Ok(Some(cast_field(&column_type, None))),
            Err(error) if is_ours(sql_type) || is_refused_array(sql_type, &error) => {
                Err(crate::errors::to_datafusion(error))
            }
            // DataFusion handles types that only it has, for example unsigned integers.
            Err(_) => Ok(None),
        }
    }
}

fn is_refused_array(sql_type: &DataType, error: &Error) -> bool {
    matches!(sql_type, DataType::Array(_)) && error.kind() == ErrorKind::FeatureNotSupported
}

fn is_ours(sql_type: &DataType) -> bool {
    matches!(
        sql_type,
        DataType::Custom(_, _)
            | DataType::Char(_)
            | DataType::Character(_)
            | DataType::Varchar(_)
            | DataType::CharacterVarying(_)
            | DataType::CharVarying(_)
            | DataType::Numeric(_)
            | DataType::Decimal(_)
            | DataType::Dec(_)
            | DataType::Float(_)
            | DataType::Timestamp(_, _)
            | DataType::Time(_, _)
    )
}

fn lower(sql_type: &DataType) -> String {
    sql_type.to_string().to_ascii_lowercase()
}

/// The name of a type, with quotes only if they change the meaning.
fn unquoted(name: &ObjectName) -> String {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) if ident.value == ident.value.to_lowercase() => {
            ident.value.clone()
        }
        other => other.to_string(),
    };
    let parts: Vec<String> = name.0.iter().map(part).collect();
    parts.join(".")
}

fn custom(name: &str, modifiers: &[String]) -> Result<ColumnType> {
    let bare = name.to_ascii_lowercase();
    let bare = bare.strip_prefix("pg_catalog.").unwrap_or(&bare);
    let precision = match modifiers {
        [] => None,
        [one] => Some(one.parse::<u64>().map_err(|_| {
            Error::new(
                ErrorKind::InvalidParameterValue,
                format!("type modifier \"{one}\" of {bare} is not a number"),
            )
        })?),
        _ => return Err(unsupported_type(name)),
    };
    match bare {
        "timestamptz" => timestamp(precision, TimezoneInfo::Tz),
        "timestamp" => timestamp(precision, TimezoneInfo::None),
        "bool" => Ok(ColumnType::Boolean),
        "int2" => Ok(ColumnType::SmallInt),
        "int4" => Ok(ColumnType::Integer),
        "int8" => Ok(ColumnType::BigInt),
        "float4" => Ok(ColumnType::Real),
        "float8" => Ok(ColumnType::Double),
        "text" | "varchar" if modifiers.is_empty() => Ok(ColumnType::Text),
        "numeric" if modifiers.is_empty() => numeric(&ExactNumberInfo::None),
        "date" => Ok(ColumnType::Date),
        "time" => Ok(ColumnType::Time),
        "interval" => Ok(ColumnType::Interval),
        "bytea" => Ok(ColumnType::Bytea),
        "uuid" => Ok(ColumnType::Uuid),
        "jsonb" => Ok(ColumnType::Jsonb),
        "serial" | "bigserial" | "smallserial" | "serial4" | "serial8" | "serial2" => {
            Err(Error::not_yet(format!("type {bare} (a column filled by a sequence)"))
                .with_hint("_gsn numbers events"))
        }
        "json" | "xml" | "money" | "inet" | "cidr" | "macaddr" | "point" | "bpchar" | "name"
        | "oid" | "timetz" | "hstore" | "regclass" => Err(unsupported_type(bare)),
        _ => Err(Error::new(ErrorKind::UndefinedObject, format!("type \"{name}\" does not exist"))),
    }
}

fn float(bits: &ExactNumberInfo) -> Result<ColumnType> {
    match bits {
        ExactNumberInfo::None => Ok(ColumnType::Double),
        ExactNumberInfo::Precision(1..=24) => Ok(ColumnType::Real),
        ExactNumberInfo::Precision(25..=53) => Ok(ColumnType::Double),
        _ => Err(Error::new(
            ErrorKind::InvalidParameterValue,
            "precision for type float must be between 1 and 53 bits",
        )),
    }
}

fn numeric(info: &ExactNumberInfo) -> Result<ColumnType> {
    let range = |what: &str, value: String| {
        Error::new(
            ErrorKind::InvalidParameterValue,
            format!("NUMERIC {what} {value} is out of range"),
        )
        .with_hint("precision is 1 to 38 digits, scale is 0 to the precision")
    };
    let (precision, scale) = match *info {
        ExactNumberInfo::None => return Ok(ColumnType::NUMERIC),
        ExactNumberInfo::Precision(precision) => {
            (u8::try_from(precision).map_err(|_| range("precision", precision.to_string()))?, 0)
        }
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (
            u8::try_from(precision).map_err(|_| range("precision", precision.to_string()))?,
            u8::try_from(scale).map_err(|_| range("scale", scale.to_string()))?,
        ),
    };
    Ok(ColumnType::Numeric { precision, scale })
}

fn text(sql_type: &DataType, length: Option<&CharacterLength>) -> Result<ColumnType> {
    match length {
        None => Ok(ColumnType::Text),
        Some(_) => Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("type {} is not supported: lengths are not enforced", lower(sql_type)),
        )
        .with_hint("use text or varchar without a length")),
    }
}

fn timestamp(precision: Option<u64>, zone: TimezoneInfo) -> Result<ColumnType> {
    let precision = match precision {
        None => TIMESTAMP_PRECISION_DEFAULT,
        Some(digits @ (0 | 3 | 6 | 9)) => u8::try_from(digits).unwrap_or(9),
        Some(other) => {
            return Err(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("timestamp precision {other} is not 0, 3, 6 or 9"),
            ));
        }
    };
    Ok(match zone {
        TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => ColumnType::Timestamp { precision },
        TimezoneInfo::Tz | TimezoneInfo::WithTimeZone => ColumnType::TimestampTz { precision },
    })
}

#[cfg(test)]
mod tests;
