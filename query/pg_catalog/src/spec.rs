//! The definitions of the system tables: name, oid and columns of each.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{Field, Schema, SchemaRef};
use stratalog_model::{ColumnType, types::PG_TYPE_METADATA};

use crate::column_type::{oid_of_name, type_oid};

mod information_schema;
mod own;
mod tables;
mod views;

/// The types of PostgreSQL 15 without the array types of other types. Each line describes one type;
/// the lines are ordered by oid. The fields are separated by tabs: oid, name, length, by value,
/// kind, category, preferred, delimiter, subscript function, element, array, input, output,
/// receive, send, modifier input, modifier output, analyze, alignment, storage, collation, SQL
/// name.
pub(crate) const TYPES: &str = include_str!("spec/types.txt");

/// The functions of PostgreSQL 15 whose parameter and result types all exist here. Each line
/// describes one function; the lines are ordered by name. The fields are separated by tabs: oid,
/// name, kind, strict, returns a set, volatility, parallel, leakproof, cost, rows, variadic type,
/// number of defaults, result type, parameter types, source, types of all parameters, parameter
/// modes, parameter names. If the types do not describe the full signature, three more fields
/// contain SQL text: the parameters, the parameters without defaults, and the result.
pub(crate) const FUNCTIONS: &str = include_str!("spec/functions.txt");

/// Operators whose operand types exist here, one operator per line. The fields are separated by
/// tabs: oid, name, kind, merges, hashes, left type, right type, result type, commutator, negator,
/// function, estimators.
pub(crate) const OPERATORS: &str = include_str!("spec/operators.txt");

/// Casts between types that exist here, one cast per line. The fields are separated by tabs: oid,
/// source, target, function, context, method.
pub(crate) const CASTS: &str = include_str!("spec/casts.txt");

/// Operator classes of the access method btree, one class per line. The fields are separated by
/// tabs: oid, name, family, family name, type, default, key type.
pub(crate) const OPERATOR_CLASSES: &str = include_str!("spec/opclasses.txt");

/// SQL keywords, one keyword per line. The fields are separated by tabs: the word, its category,
/// and whether the word may be a column alias without AS.
pub(crate) const KEYWORDS: &str = include_str!("spec/keywords.txt");

/// The supported features of the SQL standard, one feature or sub-feature per line, with the names
/// that PostgreSQL uses. The fields are separated by tabs: the id of the feature, the number of the
/// sub-feature, the name of the feature, the name of the sub-feature.
pub(crate) const SQL_FEATURES: &str = include_str!("spec/sql_features.txt");

/// The definition of a system table.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) oid: i64,
    /// The columns as text: `name type[?], …`, where `?` marks a nullable column.
    pub(crate) columns: &'static str,
}

/// A column of a system table.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) column_type: ColumnType,
    /// The name of the column's type in PostgreSQL, if `column_type` only represents this type.
    pub(crate) pg_type: Option<&'static str>,
    pub(crate) nullable: bool,
}

impl Column {
    /// The oid of the column's type.
    pub(crate) fn type_number(&self) -> i64 {
        let known = self.pg_type.and_then(oid_of_name);
        known.unwrap_or_else(|| i64::from(type_oid(&self.column_type)))
    }

    fn arrow_field(&self) -> Field {
        // For the planner, all columns are nullable. This makes outer joins and defaults simple.
        let field = self.column_type.arrow_field(self.name, true);
        let Some(pg_type) = self.pg_type else { return field };
        let mut metadata = field.metadata().clone();
        metadata.insert(PG_TYPE_METADATA.to_string(), pg_type.to_string());
        field.with_metadata(metadata)
    }
}

/// A system table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    pub(crate) oid: i64,
    /// The kind of the relation: `r` for a table, `v` for a view.
    pub(crate) kind: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) arrow: SchemaRef,
}

/// The column type for the name of a PostgreSQL type. If no column can have this type, the result
/// is the column type that represents it.
pub(crate) fn type_of(name: &str) -> ColumnType {
    match name {
        "bool" => ColumnType::Boolean,
        "int2" => ColumnType::SmallInt,
        "int4" => ColumnType::Integer,
        "int8" | "oid" | "xid" | "xid8" | "cid" => ColumnType::BigInt,
        "float4" => ColumnType::Real,
        "float8" => ColumnType::Double,
        "numeric" => ColumnType::NUMERIC,
        "bytea" => ColumnType::Bytea,
        "interval" => ColumnType::Interval,
        "json" => ColumnType::Jsonb,
        "timestamptz" => ColumnType::TimestampTz { precision: 6 },
        "int2vector" => ColumnType::Array(Box::new(ColumnType::SmallInt)),
        "oidvector" => ColumnType::Array(Box::new(ColumnType::BigInt)),
        other => match other.strip_suffix("[]") {
            Some(element) => ColumnType::Array(Box::new(type_of(element))),
            None => ColumnType::Text,
        },
    }
}

/// True if columns can have the PostgreSQL type with this name directly, without another type as a
/// representation.
fn is_column_type(name: &str) -> bool {
    const OURS: [&str; 11] = [
        "bool",
        "int2",
        "int4",
        "int8",
        "float4",
        "float8",
        "numeric",
        "bytea",
        "interval",
        "timestamptz",
        "text",
    ];
    OURS.contains(&name.strip_suffix("[]").unwrap_or(name))
}

impl Table {
    fn new(schema: &'static str, kind: &'static str, spec: &'static Spec) -> Self {
        let columns: Vec<Column> = spec
            .columns
            .split(',')
            .filter_map(|column| column.trim().split_once(' '))
            .map(|(name, kind_name)| {
                let nullable = kind == "v" || kind_name.ends_with('?');
                let kind_name = kind_name.trim_end_matches('?');
                let pg_type = (!is_column_type(kind_name)).then_some(kind_name);
                Column { name, column_type: type_of(kind_name), pg_type, nullable }
            })
            .collect();
        let fields: Vec<_> = columns.iter().map(Column::arrow_field).collect();
        Self {
            schema,
            name: spec.name,
            oid: spec.oid,
            kind,
            columns,
            arrow: Arc::new(Schema::new(fields)),
        }
    }
}

/// All system tables, ordered by schema and name.
pub(crate) static SYSTEM_TABLES: LazyLock<Vec<Arc<Table>>> = LazyLock::new(|| {
    let sources: [(&str, &str, &'static [Spec]); 5] = [
        ("pg_catalog", "r", tables::TABLES),
        ("pg_catalog", "v", views::VIEWS),
        ("information_schema", "v", information_schema::INFORMATION_SCHEMA),
        ("information_schema", "r", information_schema::INFORMATION_TABLES),
        ("stratalog", "v", own::OWN),
    ];
    let mut all: Vec<Arc<Table>> = sources
        .into_iter()
        .flat_map(|(schema, kind, specs)| {
            specs.iter().map(move |spec| Arc::new(Table::new(schema, kind, spec)))
        })
        .collect();
    all.sort_by_key(|table| (table.schema, table.name));
    all
});

/// The system table with this schema and name; `None` if there is none.
pub(crate) fn system_table(schema: &str, name: &str) -> Option<&'static Arc<Table>> {
    let tables: &'static [Arc<Table>] = &SYSTEM_TABLES;
    let at =
        tables.binary_search_by_key(&(schema, name), |table| (table.schema, table.name)).ok()?;
    tables.get(at)
}

#[cfg(test)]
mod tests;
