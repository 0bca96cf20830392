//! Object ids and sizes of column types in the protocol.

use arrow::datatypes::Field;
use stratalog_model::{ColumnType, types::PG_TYPE_METADATA};

/// Object ids of PostgreSQL's types.
pub mod oid {
    /// `boolean`
    pub const BOOL: u32 = 16;
    /// `bytea`
    pub const BYTEA: u32 = 17;
    /// `"char"`
    pub const CHAR: u32 = 18;
    /// `name`
    pub const NAME: u32 = 19;
    /// `bigint`
    pub const INT8: u32 = 20;
    /// `smallint`
    pub const INT2: u32 = 21;
    /// `int2vector`
    pub const INT2VECTOR: u32 = 22;
    /// `integer`
    pub const INT4: u32 = 23;
    /// `text`
    pub const TEXT: u32 = 25;
    /// `oid`
    pub const OID: u32 = 26;
    /// `oidvector`
    pub const OIDVECTOR: u32 = 30;
    /// `xid`
    pub const XID: u32 = 28;
    /// `inet`
    pub const INET: u32 = 869;
    /// `json`
    pub const JSON: u32 = 114;
    /// `real`
    pub const FLOAT4: u32 = 700;
    /// `double precision`
    pub const FLOAT8: u32 = 701;
    /// `unknown`, a literal without a known type
    pub const UNKNOWN: u32 = 705;
    /// `character(n)`
    pub const BPCHAR: u32 = 1042;
    /// `character varying`
    pub const VARCHAR: u32 = 1043;
    /// `date`
    pub const DATE: u32 = 1082;
    /// `time`
    pub const TIME: u32 = 1083;
    /// `timestamp`
    pub const TIMESTAMP: u32 = 1114;
    /// `timestamptz`
    pub const TIMESTAMPTZ: u32 = 1184;
    /// `interval`
    pub const INTERVAL: u32 = 1186;
    /// `numeric`
    pub const NUMERIC: u32 = 1700;
    /// `cid`
    pub const CID: u32 = 29;
    /// `regproc`
    pub const REGPROC: u32 = 24;
    /// `regclass`
    pub const REGCLASS: u32 = 2205;
    /// `regtype`
    pub const REGTYPE: u32 = 2206;
    /// `regnamespace`
    pub const REGNAMESPACE: u32 = 4089;
    /// `regrole`
    pub const REGROLE: u32 = 4096;
    /// `uuid`
    pub const UUID: u32 = 2950;
    /// `jsonb`
    pub const JSONB: u32 = 3802;
}

/// Pairs of object ids: a type, and the array type with elements of this type.
const ARRAYS: [(u32, u32); 21] = [
    (oid::BOOL, 1000),
    (oid::BYTEA, 1001),
    (oid::CHAR, 1002),
    (oid::NAME, 1003),
    (oid::INT2, 1005),
    (oid::INT4, 1007),
    (oid::TEXT, 1009),
    (oid::VARCHAR, 1015),
    (oid::INT8, 1016),
    (oid::FLOAT4, 1021),
    (oid::FLOAT8, 1022),
    (oid::OID, 1028),
    (oid::TIMESTAMP, 1115),
    (oid::DATE, 1182),
    (oid::TIME, 1183),
    (oid::TIMESTAMPTZ, 1185),
    (oid::INTERVAL, 1187),
    (oid::NUMERIC, 1231),
    (oid::UUID, 2951),
    (oid::JSON, 199),
    (oid::JSONB, 3807),
];

/// The type of a column in a RowDescription message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireType {
    /// Object id of the type.
    pub oid: u32,
    /// Bytes of a value; negative if values differ in size.
    pub size: i16,
    /// The type modifier, which encodes a length, or precision and scale; -1 for none.
    pub modifier: i32,
}

/// The object id of the array type with elements of type `element`; `text[]` for an unknown element
/// type.
pub fn array_of(element: u32) -> u32 {
    ARRAYS.iter().find(|(id, _)| *id == element).map_or(1009, |(_, array)| *array)
}

/// Object id of the element type of an array type; `None` if `array` is not an array type.
pub fn element_of(array: u32) -> Option<u32> {
    match array {
        0 => return None,
        oid::INT2VECTOR => return Some(oid::INT2),
        oid::OIDVECTOR => return Some(oid::OID),
        _ => {}
    }
    let named = NAMED.iter().map(|(_, oid, _, array)| (*oid, *array));
    ARRAYS.iter().copied().chain(named).find(|(_, id)| *id == array).map(|(element, _)| element)
}

/// The PostgreSQL type in which clients receive the values of a column type.
pub fn wire_type(column_type: &ColumnType) -> WireType {
    let plain = |oid, size| WireType { oid, size, modifier: -1 };
    // PostgreSQL's modifier has at most 6 digits; a type with 9 digits gets no modifier.
    let precise = |oid, precision: u8| WireType {
        oid,
        size: 8,
        modifier: if precision <= 6 { i32::from(precision) } else { -1 },
    };
    match column_type {
        ColumnType::Boolean => plain(oid::BOOL, 1),
        ColumnType::SmallInt => plain(oid::INT2, 2),
        ColumnType::Integer => plain(oid::INT4, 4),
        ColumnType::BigInt => plain(oid::INT8, 8),
        ColumnType::Real => plain(oid::FLOAT4, 4),
        ColumnType::Double => plain(oid::FLOAT8, 8),
        ColumnType::Numeric { precision, scale } => WireType {
            oid: oid::NUMERIC,
            size: -1,
            modifier: ((i32::from(*precision) << 16) | i32::from(*scale)) + 4,
        },
        ColumnType::Text => plain(oid::TEXT, -1),
        ColumnType::Bytea => plain(oid::BYTEA, -1),
        ColumnType::Timestamp { precision } => precise(oid::TIMESTAMP, *precision),
        ColumnType::TimestampTz { precision } => precise(oid::TIMESTAMPTZ, *precision),
        ColumnType::Date => plain(oid::DATE, 4),
        ColumnType::Time => plain(oid::TIME, 8),
        ColumnType::Interval => plain(oid::INTERVAL, 16),
        ColumnType::Uuid => plain(oid::UUID, 16),
        ColumnType::Jsonb => plain(oid::JSONB, -1),
        ColumnType::Array(element) => {
            let element = wire_type(element);
            WireType { oid: array_of(element.oid), size: -1, modifier: element.modifier }
        }
    }
}

/// PostgreSQL types whose values Stratalog represents in another column type. Each entry has the
/// name, the object id, the bytes of a value (negative if values differ in size), and the object id
/// of the array type.
const NAMED: [(&str, u32, i16, u32); 32] = [
    ("aclitem", 1033, 12, 1034),
    ("anyarray", 2277, -1, 0),
    ("bpchar", oid::BPCHAR, -1, 1014),
    ("char", oid::CHAR, 1, 1002),
    ("cid", oid::CID, 4, 1012),
    ("cstring", 2275, -2, 1263),
    ("inet", oid::INET, -1, 1041),
    ("int2vector", oid::INT2VECTOR, -1, 1006),
    ("json", oid::JSON, -1, 199),
    ("name", oid::NAME, 64, 1003),
    ("oid", oid::OID, 4, 1028),
    ("oidvector", oid::OIDVECTOR, -1, 1013),
    ("pg_dependencies", 3402, -1, 0),
    ("pg_lsn", 3220, 8, 3221),
    ("pg_mcv_list", 5017, -1, 0),
    ("pg_ndistinct", 3361, -1, 0),
    ("pg_node_tree", 194, -1, 0),
    ("regclass", oid::REGCLASS, 4, 2210),
    ("regcollation", 4191, 4, 4192),
    ("regconfig", 3734, 4, 3735),
    ("regdictionary", 3769, 4, 3770),
    ("regnamespace", oid::REGNAMESPACE, 4, 4090),
    ("regoper", 2203, 4, 2208),
    ("regoperator", 2204, 4, 2209),
    ("regproc", oid::REGPROC, 4, 1008),
    ("regprocedure", 2202, 4, 2207),
    ("regrole", oid::REGROLE, 4, 4097),
    ("regtype", oid::REGTYPE, 4, 2211),
    ("tid", 27, 6, 1010),
    ("varchar", oid::VARCHAR, -1, 1015),
    ("xid", oid::XID, 4, 1011),
    ("xid8", 5069, 8, 271),
];

/// The wire type of a PostgreSQL type in [`NAMED`], or of its array type `name[]`.
pub fn named_type(name: &str) -> Option<WireType> {
    let find = |name: &str| NAMED.iter().find(|(known, ..)| *known == name);
    let (oid, size) = match name.strip_suffix("[]") {
        Some(element) => find(element).map(|(_, _, _, array)| (*array, -1)),
        None => find(name).map(|(_, oid, size, _)| (*oid, *size)),
    }
    .filter(|(oid, _)| *oid != 0)?;
    Some(WireType { oid, size, modifier: -1 })
}

/// The wire type of a field of a result.
pub fn field_type(field: &Field) -> WireType {
    let named = field.metadata().get(PG_TYPE_METADATA).and_then(|name| named_type(name));
    named.unwrap_or_else(|| {
        wire_type(&ColumnType::from_arrow_field(field).unwrap_or(ColumnType::Text))
    })
}

/// The column type for the object id that a client declares for a parameter. `None` if the client
/// leaves the type to the server, or if only the statement determines the exact type (numeric).
pub fn column_type(id: u32) -> Option<ColumnType> {
    Some(match id {
        oid::BOOL => ColumnType::Boolean,
        oid::INT2 => ColumnType::SmallInt,
        oid::INT4 => ColumnType::Integer,
        oid::INT8 | oid::OID => ColumnType::BigInt,
        oid::FLOAT4 => ColumnType::Real,
        oid::FLOAT8 => ColumnType::Double,
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::CHAR => ColumnType::Text,
        oid::BYTEA => ColumnType::Bytea,
        oid::TIMESTAMP => ColumnType::Timestamp { precision: 6 },
        oid::TIMESTAMPTZ => ColumnType::TimestampTz { precision: 6 },
        oid::DATE => ColumnType::Date,
        oid::TIME => ColumnType::Time,
        oid::INTERVAL => ColumnType::Interval,
        oid::UUID => ColumnType::Uuid,
        oid::JSON | oid::JSONB => ColumnType::Jsonb,
        other => ColumnType::Array(Box::new(column_type(element_of(other)?)?)),
    })
}

#[cfg(test)]
mod tests;
