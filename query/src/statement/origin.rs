//! The table and column that a column of a result shows as it is, for RowDescription.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::{
    datasource::source_as_provider,
    logical_expr::{Expr, LogicalPlan},
};
use stratalog_model::types::ORIGIN_METADATA;
use stratalog_visor_core::catalog::oid_of;

use crate::table::ChronicleTable;

/// The schema of a result, whose fields tell where they come from.
pub fn tell(plan: &LogicalPlan, schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().enumerate().map(|(at, field)| match origin(plan, at) {
        Some((table, column)) => {
            let mut metadata = field.metadata().clone();
            metadata.insert(ORIGIN_METADATA.to_string(), format!("{table}.{column}"));
            Arc::new(Field::clone(field).with_metadata(metadata))
        }
        None => Arc::clone(field),
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Oid of the table and number of the column, from 1, that a column of a plan shows.
fn origin(plan: &LogicalPlan, at: usize) -> Option<(i64, usize)> {
    match plan {
        LogicalPlan::Projection(projection) => {
            of_expression(&projection.input, projection.expr.get(at)?)
        }
        LogicalPlan::Aggregate(aggregate) => {
            of_expression(&aggregate.input, aggregate.group_expr.get(at)?)
        }
        LogicalPlan::SubqueryAlias(alias) => origin(&alias.input, at),
        LogicalPlan::Filter(filter) => origin(&filter.input, at),
        LogicalPlan::Sort(sort) => origin(&sort.input, at),
        LogicalPlan::Limit(limit) => origin(&limit.input, at),
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match at.checked_sub(left) {
                None => origin(&join.left, at),
                Some(at) => origin(&join.right, at),
            }
        }
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            let name = scan.projected_schema.fields().get(at)?.name();
            if let Some(table) = provider.downcast_ref::<ChronicleTable>() {
                let definition = table.definition();
                let place = definition.columns.iter().position(|column| column.name == *name)?;
                return Some((i64::from(oid_of(definition.id)), place + 1));
            }
            let table = stratalog_pg_catalog::system_table_oid(provider.as_ref())?;
            Some((table, scan.source.schema().index_of(name).ok()? + 1))
        }
        _ => None,
    }
}

fn of_expression(input: &LogicalPlan, expression: &Expr) -> Option<(i64, usize)> {
    match expression {
        Expr::Alias(alias) => of_expression(input, &alias.expr),
        Expr::Column(column) => origin(input, input.schema().index_of_column(column).ok()?),
        _ => None,
    }
}
