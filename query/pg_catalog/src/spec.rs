//! System tables as data: name, oid, columns.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{Field, Schema, SchemaRef};
use stratalog_model::{ColumnType, types::PG_TYPE_METADATA};

use crate::column_type::{oid_of_name, type_oid};

mod information_schema;
mod own;
mod tables;
mod views;

/// The types of PostgreSQL 15 but for the arrays over others, one a line, by oid; between tabs: oid,
/// name, length, by value, kind, category, preferred, delimiter, subscript function, element, array,
/// input, output, receive, send, modifier input, modifier output, analyze, alignment, storage,
/// collation, SQL name.
pub(crate) const TYPES: &str = include_str!("spec/types.txt");

/// Functions of PostgreSQL 15 that take and give types of ours, one a line, by name; between tabs:
/// oid, name, kind, strict, returns a set, volatility, parallel, leakproof, cost, rows, variadic
/// type, number of defaults, type of the result, types of the parameters, source, types of all
/// parameters, their modes, their names, and where their types do not say it all, the parameters in
/// full, without defaults, and the result, in SQL.
pub(crate) const FUNCTIONS: &str = include_str!("spec/functions.txt");

/// Operators over types of ours, one a line; between tabs: oid, name, kind, merges, hashes, left
/// type, right type, type of the result, commutator, negator, function, its estimators.
pub(crate) const OPERATORS: &str = include_str!("spec/operators.txt");

/// Casts between types of ours, one a line; between tabs: oid, source, target, function, context,
/// method.
pub(crate) const CASTS: &str = include_str!("spec/casts.txt");

/// Operator classes of btree, one a line; between tabs: oid, name, family, its name, type, default,
/// type of its keys.
pub(crate) const OPERATOR_CLASSES: &str = include_str!("spec/opclasses.txt");

/// Keywords, one a line; between tabs: word, category, whether it may be a name without AS.
pub(crate) const KEYWORDS: &str = include_str!("spec/keywords.txt");

/// A table as it is written down.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) oid: i64,
    /// `name type[?], …`
    pub(crate) columns: &'static str,
}

/// A column of a system table.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) column_type: ColumnType,
    /// Its type in PostgreSQL, where ours is another.
    pub(crate) pg_type: Option<&'static str>,
    pub(crate) nullable: bool,
}

impl Column {
    /// The oid of its type.
    pub(crate) fn type_number(&self) -> i64 {
        let known = self.pg_type.and_then(oid_of_name);
        known.unwrap_or_else(|| i64::from(type_oid(&self.column_type)))
    }

    fn arrow_field(&self) -> Field {
        // Every column may be NULL to the planner: outer joins and defaults stay simple.
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
    /// `r` or `v`.
    pub(crate) kind: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) arrow: SchemaRef,
}

/// The type of ours that stands for one of PostgreSQL, by its name.
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

/// Whether a type is one of ours, and no other stands for it.
fn is_ours(name: &str) -> bool {
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
                let pg_type = (!is_ours(kind_name)).then_some(kind_name);
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

/// Every system table, by schema and name.
pub(crate) static SYSTEM_TABLES: LazyLock<Vec<Arc<Table>>> = LazyLock::new(|| {
    let sources: [(&str, &str, &'static [Spec]); 4] = [
        ("pg_catalog", "r", tables::TABLES),
        ("pg_catalog", "v", views::VIEWS),
        ("information_schema", "v", information_schema::INFORMATION_SCHEMA),
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

/// The system table of a name.
pub(crate) fn system_table(schema: &str, name: &str) -> Option<&'static Arc<Table>> {
    let tables: &'static [Arc<Table>] = &SYSTEM_TABLES;
    let at =
        tables.binary_search_by_key(&(schema, name), |table| (table.schema, table.name)).ok()?;
    tables.get(at)
}

#[cfg(test)]
mod tests;
