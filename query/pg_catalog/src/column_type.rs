//! The rows of `pg_type`, and the oid, name and modifier of each column type.

use std::{collections::HashMap, sync::LazyLock};

use stratalog_model::ColumnType;

use crate::spec::TYPES;

/// A row of `pg_type` for a type that is not an array type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BaseType {
    pub(crate) oid: i64,
    pub(crate) name: &'static str,
    pub(crate) length: i64,
    pub(crate) by_value: bool,
    pub(crate) kind: &'static str,
    pub(crate) category: &'static str,
    pub(crate) preferred: bool,
    pub(crate) delimiter: &'static str,
    pub(crate) subscript: &'static str,
    pub(crate) element: i64,
    pub(crate) array: i64,
    pub(crate) input: &'static str,
    pub(crate) output: &'static str,
    pub(crate) receive: &'static str,
    pub(crate) send: &'static str,
    pub(crate) modifier_in: &'static str,
    pub(crate) modifier_out: &'static str,
    pub(crate) analyze: &'static str,
    pub(crate) align: &'static str,
    pub(crate) storage: &'static str,
    pub(crate) collation: i64,
    /// The name of the type in SQL, which may contain spaces.
    pub(crate) sql_name: &'static str,
}

impl BaseType {
    fn read(line: &'static str) -> Option<Self> {
        let mut words = line.split('\t');
        let number = |word: Option<&'static str>| word?.parse::<i64>().ok();
        Some(Self {
            oid: number(words.next())?,
            name: words.next()?,
            length: number(words.next())?,
            by_value: words.next()? == "t",
            kind: words.next()?,
            category: words.next()?,
            preferred: words.next()? == "t",
            delimiter: words.next()?,
            subscript: words.next()?,
            element: number(words.next())?,
            array: number(words.next())?,
            input: words.next()?,
            output: words.next()?,
            receive: words.next()?,
            send: words.next()?,
            modifier_in: words.next()?,
            modifier_out: words.next()?,
            analyze: words.next()?,
            align: words.next()?,
            storage: words.next()?,
            collation: number(words.next())?,
            sql_name: words.next()?,
        })
    }
}

/// The types that are not array types, in the order of their oids.
pub(crate) static BASE_TYPES: LazyLock<Vec<BaseType>> =
    LazyLock::new(|| TYPES.lines().filter_map(BaseType::read).collect());

static BY_OID: LazyLock<HashMap<i64, BaseType>> =
    LazyLock::new(|| BASE_TYPES.iter().map(|base| (base.oid, *base)).collect());

static BY_ARRAY: LazyLock<HashMap<i64, BaseType>> = LazyLock::new(|| {
    BASE_TYPES.iter().filter(|base| base.array != 0).map(|base| (base.array, *base)).collect()
});

/// The type with this oid; `None` for array types and unknown oids.
pub(crate) fn base_type(oid: i64) -> Option<&'static BaseType> {
    BY_OID.get(&oid)
}

/// The element type of the array type with this oid; `None` for all other oids.
pub(crate) fn element_of_array(oid: i64) -> Option<&'static BaseType> {
    BY_ARRAY.get(&oid)
}

/// The oid of the collation of a type, or of the elements of an array type; 0 if the type has no
/// collation.
pub(crate) fn collation_of(oid: i64) -> i64 {
    base_type(oid).or(element_of_array(oid)).map_or(0, |base| base.collation)
}

/// The oid of the type with this name, in the syntax of `regtype`; `None` for an unknown name.
pub(crate) fn oid_of_name(name: &str) -> Option<i64> {
    let name = name.trim().strip_prefix("pg_catalog.").unwrap_or(name.trim());
    let name = name.trim_matches('"').to_ascii_lowercase();
    if let Some(element) = name.strip_suffix("[]") {
        let element = oid_of_name(element)?;
        return base_type(element).map(|base| base.array).filter(|array| *array != 0);
    }
    let name = match name.as_str() {
        "int" => "integer",
        "decimal" => "numeric",
        "float" => "double precision",
        "serial" => "integer",
        "bigserial" => "bigint",
        other => other,
    };
    let array = name.strip_prefix('_');
    BASE_TYPES.iter().find_map(|base| {
        if base.name == name || base.sql_name == name {
            Some(base.oid)
        } else if array == Some(base.name) && base.array != 0 {
            Some(base.array)
        } else {
            None
        }
    })
}

/// The oid of a column type in `pg_type`.
pub fn type_oid(column_type: &ColumnType) -> u32 {
    match column_type {
        ColumnType::Boolean => 16,
        ColumnType::SmallInt => 21,
        ColumnType::Integer => 23,
        ColumnType::BigInt => 20,
        ColumnType::Real => 700,
        ColumnType::Double => 701,
        ColumnType::Numeric { .. } => 1700,
        ColumnType::Text => 25,
        ColumnType::Bytea => 17,
        ColumnType::Timestamp { .. } => 1114,
        ColumnType::TimestampTz { .. } => 1184,
        ColumnType::Date => 1082,
        ColumnType::Time => 1083,
        ColumnType::Interval => 1186,
        ColumnType::Uuid => 2950,
        ColumnType::Jsonb => 3802,
        ColumnType::Array(element) => base_type(i64::from(type_oid(element)))
            .and_then(|base| u32::try_from(base.array).ok())
            .unwrap_or(0),
    }
}

/// The type modifier (`atttypmod`) of a column type: the precision and scale of numeric, or the
/// number of fraction digits of timestamps. -1 means no modifier; timestamps with nanoseconds, the
/// default, have none.
pub(crate) fn type_modifier(column_type: &ColumnType) -> i64 {
    match column_type {
        ColumnType::Numeric { precision, scale } => {
            (i64::from(*precision) << 16 | i64::from(*scale)) + 4
        }
        ColumnType::Timestamp { precision: 9 } | ColumnType::TimestampTz { precision: 9 } => -1,
        ColumnType::Timestamp { precision } | ColumnType::TimestampTz { precision } => {
            i64::from(*precision)
        }
        ColumnType::Array(element) => type_modifier(element),
        _ => -1,
    }
}

/// The name of the type with this oid, as `format_type` returns it, for example `numeric(10,2)` or
/// `text[]`.
pub fn type_name(oid: i64, modifier: Option<i64>) -> String {
    match (oid, modifier) {
        // `character` and `bit` without a length mean length 1.
        (1042, Some(..0)) => return "bpchar".to_string(),
        (1560, Some(..0)) => return "\"bit\"".to_string(),
        _ => {}
    }
    let modifier = modifier.filter(|modifier| *modifier >= 0);
    if let Some(element) = element_of_array(oid) {
        return format!("{}[]", type_name(element.oid, modifier));
    }
    let Some(base) = base_type(oid) else {
        return if oid == 0 { "-".to_string() } else { "???".to_string() };
    };
    let name = base.sql_name;
    match (oid, modifier) {
        (1700, Some(modifier)) => {
            let digits = modifier - 4;
            format!("numeric({},{})", digits >> 16, digits & 0xffff)
        }
        (1042, Some(modifier)) => format!("character({})", modifier - 4),
        (1043, Some(modifier)) => format!("{name}({})", modifier - 4),
        (1560, Some(modifier)) => format!("bit({modifier})"),
        (1562, Some(modifier)) => format!("{name}({modifier})"),
        (1083 | 1114 | 1184 | 1266, Some(modifier)) => {
            let (first, rest) = name.split_once(' ').unwrap_or((name, ""));
            format!("{first}({modifier}) {rest}")
        }
        _ => name.to_string(),
    }
}

#[cfg(test)]
mod tests;
