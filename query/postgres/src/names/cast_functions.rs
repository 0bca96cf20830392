//! Functions that a later rewrite turns into casts.

use datafusion::sql::sqlparser::ast::{DataType, ExactNumberInfo, TimezoneInfo};

/// The functions of the current time that become casts of `now()`.
pub const CLOCK_FUNCTIONS: [&str; 4] =
    ["current_time", "current_timestamp", "localtime", "localtimestamp"];

/// The target type of a function that only casts and has the name of a type, for example `text(v)`;
/// `None` for other functions.
pub fn type_of_function(name: &str) -> Option<DataType> {
    Some(match name {
        "bool" => DataType::Boolean,
        "bytea" => DataType::Bytea,
        "date" => DataType::Date,
        "float4" => DataType::Real,
        "float8" => DataType::DoublePrecision,
        "int2" => DataType::SmallInt(None),
        "int4" => DataType::Integer(None),
        "int8" => DataType::BigInt(None),
        "jsonb" => DataType::JSONB,
        "numeric" => DataType::Numeric(ExactNumberInfo::None),
        "text" | "varchar" => DataType::Text,
        "timestamptz" => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        "uuid" => DataType::Uuid,
        _ => return None,
    })
}
