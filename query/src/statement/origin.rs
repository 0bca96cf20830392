//! Details of result columns for the RowDescription message, in addition to types: the table and
//! column of an unchanged column, and the PostgreSQL type that a Stratalog type represents.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::{datasource::source_as_provider, logical_expr::LogicalPlan};
use stratalog_model::types::{ORIGIN_METADATA, PG_TYPE_METADATA};
use stratalog_postgres::types::{
    origin_type::{self, OriginType, fits},
    source::{ColumnSource, source},
};
use stratalog_visor_core::catalog::oid_of;

use crate::table::plain_table;

/// Adds metadata to the schema of a result: the origin of each column, and its PostgreSQL type if a
/// Stratalog type represents another PostgreSQL type.
pub fn tell(plan: &LogicalPlan, schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().enumerate().map(|(at, field)| {
        let mut metadata = field.metadata().clone();
        if let Some((table, column)) = origin(plan, at) {
            metadata.insert(ORIGIN_METADATA.to_string(), format!("{table}.{column}"));
        }
        let known = match origin_type::of_column(plan, at) {
            OriginType::Named(known) if fits(&known, field) => Some(known),
            _ => None,
        };
        match known {
            Some(known) => metadata.insert(PG_TYPE_METADATA.to_string(), known),
            None => metadata.remove(PG_TYPE_METADATA),
        };
        match metadata == *field.metadata() {
            true => Arc::clone(field),
            false => Arc::new(Field::clone(field).with_metadata(metadata)),
        }
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The oid of the table and the number (from 1) of the column from which a result column comes
/// unchanged; otherwise `None`.
fn origin(plan: &LogicalPlan, at: usize) -> Option<(i64, usize)> {
    let (ColumnSource::Table(scan), at) = source(plan, at)? else { return None };
    let provider = source_as_provider(&scan.source).ok()?;
    let name = scan.projected_schema.fields().get(at)?.name();
    if let Some(table) = plain_table(&provider) {
        let definition = table.definition();
        let column = definition.columns.iter().position(|column| column.name == *name)?;
        return Some((i64::from(oid_of(definition.id)), column + 1));
    }
    let table = stratalog_pg_catalog::system_table_oid(provider.as_ref())?;
    Some((table, scan.source.schema().index_of(name).ok()? + 1))
}
