//! The oids of objects in `pg_catalog`. The oid of an object never changes.
//!
//! ```text
//!   11 …        fixed by PostgreSQL          16384 …       tables (visor/core)
//!   5, 2200     database, schema public      1_000_000_000 schemas and databases (visor/core)
//!   14_000 …    our own system tables        2_000_000_000 indexes
//!   15_000 …    functions                    3_000_000_000 constraints, then defaults
//! ```

use stratalog_model::{ChronicleId, ColumnId, chronicle::COLUMNS_MAX};

/// The system schemas, which every database has: name and oid.
pub(crate) const SYSTEM_SCHEMAS: &[(&str, i64)] =
    &[("pg_catalog", 11), ("information_schema", 13_207), ("stratalog", 13_999)];

/// The oid of the schema `pg_catalog`.
pub(crate) const SYSTEM_CATALOG: i64 = 11;
/// The oid of the schema `public`.
pub(crate) const PUBLIC: i64 = 2_200;
/// The oid of the predefined superuser, who owns the system tables.
pub(crate) const ROLE: i64 = 10;
/// The oid of the table `pg_authid`, to which comments on roles refer.
pub(crate) const AUTHID: i64 = 1_260;
/// The first oid in the range for lists of default privileges.
pub(crate) const DEFAULT_LIST_FIRST: i64 = 4_290_000_000;
/// The oid of the access method of chronicles (tables).
pub(crate) const ACCESS_CHRONICLE: i64 = 2;
/// The oid of the access method `btree`. The catalog shows it for the indexes of primary keys.
pub(crate) const ACCESS_BTREE: i64 = 403;
/// The oid of the access method of Bloom indexes.
pub(crate) const ACCESS_BLOOM: i64 = 13_996;
/// The oid of the access method of inverted indexes.
pub(crate) const ACCESS_INVERTED: i64 = 13_997;
/// The languages of functions: oid and name.
pub(crate) const LANGUAGES: [(i64, &str); 2] = [(12, "internal"), (14, "sql")];
/// The tablespaces: oid and name.
pub(crate) const TABLESPACES: [(i64, &str); 2] = [(TABLESPACE, "pg_default"), (1_664, "pg_global")];
/// The oid of the tablespace `pg_default`, which contains everything.
pub(crate) const TABLESPACE: i64 = 1_663;
/// The oid of the table `pg_class`, to which comments on tables refer.
pub(crate) const CLASS: i64 = 1_259;
/// The oid of the table `pg_namespace`.
pub(crate) const NAMESPACE: i64 = 2_615;
/// The oid of the table `pg_constraint`.
pub(crate) const CONSTRAINT: i64 = 2_606;
/// The oid of the table `pg_attrdef`.
pub(crate) const DEFAULT: i64 = 2_604;
/// The oid of the table `pg_extension`.
pub(crate) const EXTENSION: i64 = 3_079;
/// The oid of the extension `stratalog`, to which the schema `stratalog` belongs.
pub(crate) const OWN_EXTENSION: i64 = 13_998;
/// The oid of the collation of texts.
pub(crate) const COLLATION: i64 = 100;

/// The oid of the first function that PostgreSQL does not have; the other functions of this kind
/// follow.
pub(crate) const FUNCTION_FIRST: i64 = 15_000;

/// The oid of a chronicle's table.
pub(crate) fn table(id: ChronicleId) -> i64 {
    i64::from(stratalog_visor_core::catalog::oid_of(id))
}

/// The oid of the index of a chronicle's primary key.
pub(crate) fn index(id: ChronicleId) -> i64 {
    2_000_000_000 + i64::from(id.0)
}

/// The first oid in the range for secondary indexes.
const SECONDARY_INDEX_FIRST: i64 = 2_250_000_000;

/// The number of oids that each chronicle has for its secondary indexes.
const SECONDARY_INDEXES: i64 = 1_024;

/// The number of chronicles whose secondary indexes have different oids. Two chronicles whose ids
/// differ by this number have the same oids.
const INDEXED_CHRONICLES: i64 = 240_000;

/// The oid of a secondary index of a chronicle; `number` is the number of the index within the
/// chronicle.
pub(crate) fn secondary_index(id: ChronicleId, number: u32) -> i64 {
    SECONDARY_INDEX_FIRST
        + i64::from(id.0) % INDEXED_CHRONICLES * SECONDARY_INDEXES
        + i64::from(number) % SECONDARY_INDEXES
}

/// The chronicle to whose secondary index an oid belongs; `None` for other oids.
pub(crate) fn of_secondary_index(number: i64) -> Option<ChronicleId> {
    let place = number.checked_sub(SECONDARY_INDEX_FIRST)?;
    let id = u32::try_from(place.checked_div(SECONDARY_INDEXES)?).ok()?;
    (i64::from(id) < INDEXED_CHRONICLES).then_some(ChronicleId(id))
}

/// The oid of the constraint of a chronicle's primary key.
pub(crate) fn constraint(id: ChronicleId) -> i64 {
    3_000_000_000 + i64::from(id.0)
}

/// The oid of the default value of a column.
pub(crate) fn default(id: ChronicleId, column: ColumnId) -> i64 {
    let columns = i64::try_from(COLUMNS_MAX).unwrap_or(1_600);
    3_500_000_000 + (i64::from(id.0) * columns + i64::from(column.0)) % 700_000_000
}

/// The oid of a row policy; `at` is the place of the policy among the policies of its table.
pub(crate) fn policy(id: ChronicleId, at: usize) -> i64 {
    let at = i64::try_from(at).unwrap_or_default();
    4_200_000_000 + (i64::from(id.0) * 100 + at) % 90_000_000
}

/// The first oid in the range for row types.
const ROW_TYPE_FIRST: i64 = 2_000_000_000;

/// The oid of the type of a table's rows.
pub(crate) fn row_type(id: stratalog_model::ChronicleId) -> i64 {
    ROW_TYPE_FIRST + i64::from(id.0)
}

/// The first oid in the range for types of arrays of rows.
const ROW_ARRAY_TYPE_FIRST: i64 = 2_500_000_000;

/// The oid of the type of arrays of a table's rows.
pub(crate) fn row_array_type(id: stratalog_model::ChronicleId) -> i64 {
    ROW_ARRAY_TYPE_FIRST + i64::from(id.0)
}
