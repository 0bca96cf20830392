//! The signatures of PostgreSQL's functions: the types of the parameters, and the result type if
//! the implementing function returns another type.

use std::{collections::HashMap, sync::LazyLock};

use stratalog_model::ColumnType;

/// The values that a parameter accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parameter {
    /// Values of this type. The precision and the scale do not matter.
    Type(ColumnType),
    /// An array. All parameters `Array` and `Element` of a call share one element type.
    Array,
    /// A value of the element type of [`Parameter::Array`].
    Element,
    /// A value of any type, which is not cast.
    Any,
}

/// One of several functions with the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overload {
    /// The parameters.
    pub takes: Vec<Parameter>,
    /// Whether a call may repeat the last parameter any number of times.
    pub variadic: bool,
    /// The result type; `None` means the result type of the called function.
    pub gives: Option<ColumnType>,
    /// The function to call instead of the named function, if any.
    pub calls: Option<&'static str>,
}

/// The signatures. Each line has the form `names: parameters [-> result type] [=> called function]
/// | parameters …`.
const SIGNATURES: &str = "
abs: int2 | int4 | int8 | numeric | float4 | float8
ceil, floor, exp, ln, log10, sqrt: float8 | numeric
sign: float8 | numeric
log: float8 | numeric | numeric, numeric
round, trunc: float8 | numeric | numeric, int4
power: float8, float8 | numeric, numeric
cbrt, degrees, radians, sin, cos, tan, cot, asin, acos, atan, sinh, cosh, tanh, asinh, acosh, atanh: float8
atan2: float8, float8
gcd, lcm: int4, int4 -> int4 | int8, int8 -> int8
factorial: int8
div: numeric, numeric
width_bucket: float8, float8, float8, int4 | numeric, numeric, numeric, int4 | element, array
to_hex: int4 => int4_hex | int8
left, right, repeat: text, int4
lpad, rpad: text, int4 | text, int4, text
substr: text, int4 | text, int4, int4 | bytea, int4 => bytea_substr | bytea, int4, int4 => bytea_substr
overlay: text, text, int4 | text, text, int4, int4 | bytea, bytea, int4 => bytea_overlay | bytea, bytea, int4, int4 => bytea_overlay
split_part: text, text, int4
chr: int4
ascii, initcap, lower, reverse, upper: text
btrim: text | text, text | bytea, bytea => bytea_btrim
ltrim: text | text, text | bytea, bytea => bytea_ltrim
rtrim: text | text, text | bytea, bytea => bytea_rtrim
strpos: text, text | bytea, bytea => bytea_position
starts_with: text, text
translate, replace: text, text, text
regexp_count: text, text | text, text, int4 | text, text, int4, text
regexp_like, regexp_match, regexp_matches_list, regexp_split_to_array: text, text | text, text, text
regexp_replace: text, text, text | text, text, text, text | text, text, text, int4 | text, text, text, int4, int4 | text, text, text, int4, int4, text
regexp_instr: text, text | text, text, int4 | text, text, int4, int4 | text, text, int4, int4, int4 | text, text, int4, int4, int4, text | text, text, int4, int4, int4, text, int4
regexp_substring: text, text | text, int4 => substr | text, int8 => substr | bytea, int4 => bytea_substr
regexp_substr: text, text | text, text, int4 | text, text, int4, int4 | text, text, int4, int4, text | text, text, int4, int4, text, int4
get_byte: bytea, int4
get_bit: bytea, int8
set_byte: bytea, int4, int4
set_bit: bytea, int8, int4
bit_count: bytea
encode, convert_from: bytea, text
decode, convert_to, normalize: text, text
unistr: text
jsonb_set, jsonb_insert: jsonb, text[], jsonb | jsonb, text[], jsonb, bool
jsonb_strip_nulls, jsonb_each_list, jsonb_each_text_list: jsonb
jsonb_delete: jsonb, text | jsonb, int4 | jsonb, text[]
jsonb_delete_path, jsonb_exists_any, jsonb_exists_all: jsonb, text[]
jsonb_object: text[] | text[], text[]
scale, min_scale, trim_scale: numeric
sind, cosd, tand, cotd, asind, acosd, atand: float8
atan2d: float8, float8
array_append: array, element
array_prepend: element, array
array_concat: array, array
array_position: array, element | array, element, int4
array_positions: array, element -> int4[]
array_remove: array, element
trim_array: array, int4
array_fill: element, int4[] | element, int4[], int4[]
array_replace, array_replace_all: array, element, element
array_length, array_lower, array_upper: array, int4 -> int4
array_to_string: array, text | array, text, text
string_to_array: text, text | text, text, text
make_date: int4, int4, int4
make_time: int4, int4, float8
age: timestamptz, timestamptz | timestamp, timestamp
date_bin: interval, timestamptz, timestamptz | interval, timestamp, timestamp
isfinite: date | timestamptz | timestamp | interval
make_timestamp: int4, int4, int4, int4, int4, float8
make_timestamptz: int4, int4, int4, int4, int4, float8 | int4, int4, int4, int4, int4, float8, text
make_interval: | int4 | int4, int4 | int4, int4, int4 | int4, int4, int4, int4 | int4, int4, int4, int4, int4 | int4, int4, int4, int4, int4, int4 | int4, int4, int4, int4, int4, int4, float8
justify_days, justify_hours, justify_interval: interval
series_list: int4, int4 -> int4[] | int4, int4, int4 -> int4[] | int8, int8 | int8, int8, int8 | numeric, numeric | numeric, numeric, numeric | timestamp, timestamp, interval | timestamptz, timestamptz, interval
subscripts_list, vector_subscripts_list: array, int4 | array, int4, bool
pg_sleep: float8
to_char: timestamptz, text | timestamp, text | interval, text | int4, text | int8, text | numeric, text | float4, text | float8, text
to_timestamp: float8 | text, text
to_date, to_number: text, text
";

static BY_NAME: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let lines = SIGNATURES.lines().filter_map(|line| line.split_once(':'));
    lines
        .flat_map(|(names, overloads)| {
            let overloads: Vec<Overload> = overloads.split('|').filter_map(read).collect();
            names.split(',').map(move |name| (name.trim(), overloads.clone()))
        })
        .collect()
});

/// The overloads of the function with DataFusion's name `name`.
pub fn of(name: &str) -> &'static [Overload] {
    BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

fn read(overload: &'static str) -> Option<Overload> {
    let (overload, calls) = match overload.split_once("=>") {
        Some((overload, calls)) => (overload, Some(calls.trim())),
        None => (overload, None),
    };
    let (takes, gives) = match overload.split_once("->") {
        Some((takes, gives)) => (takes, Some(column_type(gives.trim())?)),
        None => (overload, None),
    };
    let (takes, variadic) = match takes.trim().strip_suffix("...") {
        Some(takes) => (takes, true),
        None => (takes.trim(), false),
    };
    let takes = match takes {
        "" => Vec::new(),
        takes => takes.split(',').map(|name| parameter(name.trim())).collect::<Option<_>>()?,
    };
    Some(Overload { takes, variadic, gives, calls })
}

fn parameter(name: &str) -> Option<Parameter> {
    Some(match name {
        "array" => Parameter::Array,
        "element" => Parameter::Element,
        "any" => Parameter::Any,
        name => Parameter::Type(column_type(name)?),
    })
}

fn column_type(name: &str) -> Option<ColumnType> {
    use ColumnType as T;
    Some(match name {
        "int2" => T::SmallInt,
        "int4" => T::Integer,
        "int8" => T::BigInt,
        "numeric" => T::NUMERIC,
        "float4" => T::Real,
        "float8" => T::Double,
        "bool" => T::Boolean,
        "text" => T::Text,
        "bytea" => T::Bytea,
        "date" => T::Date,
        "time" => T::Time,
        "timestamp" => T::Timestamp { precision: 6 },
        "timestamptz" => T::TimestampTz { precision: 6 },
        "interval" => T::Interval,
        "uuid" => T::Uuid,
        "jsonb" => T::Jsonb,
        name => T::Array(Box::new(column_type(name.strip_suffix("[]")?)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_can_be_read() {
        for line in SIGNATURES.lines().filter(|line| !line.is_empty()) {
            let (names, overloads) = line.split_once(':').unwrap();
            for overload in overloads.split('|') {
                assert!(read(overload).is_some(), "{names}: {overload}");
            }
        }
        assert_eq!(of("gcd").len(), 2);
        assert!(of("nothing").is_empty());
    }
}
