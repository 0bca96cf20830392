//! Oids: stable numbers of the objects in `pg_catalog`.
//!
//! ```text
//!   11 …        fixed by PostgreSQL          16384 …       tables (visor/core)
//!   5, 2200     database, schema public      1_000_000_000 schemas and databases (visor/core)
//!   14_000 …    our own system tables        2_000_000_000 indexes
//!   15_000 …    functions                    3_000_000_000 constraints, then defaults
//! ```

use stratalog_model::{ChronicleId, ColumnId, chronicle::COLUMNS_MAX};

/// Schemas that every database has.
pub(crate) const SYSTEM_SCHEMAS: &[(&str, i64)] =
    &[("pg_catalog", 11), ("information_schema", 13_207), ("stratalog", 13_999)];

/// Schema `pg_catalog`.
pub(crate) const SYSTEM_CATALOG: i64 = 11;
/// Schema `public`.
pub(crate) const PUBLIC: i64 = 2_200;
/// The one role.
pub(crate) const ROLE: i64 = 10;
/// The access method of chronicles.
pub(crate) const ACCESS_CHRONICLE: i64 = 2;
/// The access method shown for keys.
pub(crate) const ACCESS_BTREE: i64 = 403;
/// The access methods of secondary indexes.
pub(crate) const ACCESS_BLOOM: i64 = 13_996;
/// See [`ACCESS_BLOOM`].
pub(crate) const ACCESS_INVERTED: i64 = 13_997;
/// Languages of functions.
pub(crate) const LANGUAGES: [(i64, &str); 2] = [(12, "internal"), (14, "sql")];
/// Tablespaces.
pub(crate) const TABLESPACES: [(i64, &str); 2] = [(TABLESPACE, "pg_default"), (1_664, "pg_global")];
/// The tablespace of everything.
pub(crate) const TABLESPACE: i64 = 1_663;
/// `pg_class` itself, the target of comments on tables.
pub(crate) const CLASS: i64 = 1_259;
/// `pg_namespace` itself.
pub(crate) const NAMESPACE: i64 = 2_615;
/// `pg_constraint` itself.
pub(crate) const CONSTRAINT: i64 = 2_606;
/// `pg_attrdef` itself.
pub(crate) const DEFAULT: i64 = 2_604;
/// `pg_extension` itself.
pub(crate) const EXTENSION: i64 = 3_079;
/// The extension that owns this project's schema.
pub(crate) const OWN_EXTENSION: i64 = 13_998;
/// The collation of text.
pub(crate) const COLLATION: i64 = 100;

/// The first function.
pub(crate) const FUNCTION_FIRST: i64 = 15_000;

/// A chronicle's table.
pub(crate) fn table(id: ChronicleId) -> i64 {
    i64::from(stratalog_visor_core::catalog::oid_of(id))
}

/// The index of a chronicle's primary key.
pub(crate) fn index(id: ChronicleId) -> i64 {
    2_000_000_000 + i64::from(id.0)
}

/// The first oid of secondary indexes.
const SECONDARY_INDEX_FIRST: i64 = 2_250_000_000;

/// The number of oids for the secondary indexes of one chronicle.
const SECONDARY_INDEXES: i64 = 1_024;

/// The number of chronicles with distinct oids for secondary indexes: two chronicles with ids so
/// far apart share the oids.
const INDEXED_CHRONICLES: i64 = 240_000;

/// A secondary index of a chronicle, by its number.
pub(crate) fn secondary_index(id: ChronicleId, number: u32) -> i64 {
    SECONDARY_INDEX_FIRST
        + i64::from(id.0) % INDEXED_CHRONICLES * SECONDARY_INDEXES
        + i64::from(number) % SECONDARY_INDEXES
}

/// The chronicle of a secondary index's oid.
pub(crate) fn of_secondary_index(number: i64) -> Option<ChronicleId> {
    let place = number.checked_sub(SECONDARY_INDEX_FIRST)?;
    let id = u32::try_from(place.checked_div(SECONDARY_INDEXES)?).ok()?;
    (i64::from(id) < INDEXED_CHRONICLES).then_some(ChronicleId(id))
}

/// The constraint of a chronicle's primary key.
pub(crate) fn constraint(id: ChronicleId) -> i64 {
    3_000_000_000 + i64::from(id.0)
}

/// The default of a column.
pub(crate) fn default(id: ChronicleId, column: ColumnId) -> i64 {
    let columns = i64::try_from(COLUMNS_MAX).unwrap_or(1_600);
    3_500_000_000 + (i64::from(id.0) * columns + i64::from(column.0)) % 700_000_000
}

/// The first oid of row types.
const ROW_TYPE_FIRST: i64 = 2_000_000_000;

/// The oid of the type of a table's rows.
pub(crate) fn row_type(id: stratalog_model::ChronicleId) -> i64 {
    ROW_TYPE_FIRST + i64::from(id.0)
}

/// The first oid of array types of row types.
const ROW_ARRAY_TYPE_FIRST: i64 = 2_500_000_000;

/// The oid of the type of arrays of a table's rows.
pub(crate) fn row_array_type(id: stratalog_model::ChronicleId) -> i64 {
    ROW_ARRAY_TYPE_FIRST + i64::from(id.0)
}
