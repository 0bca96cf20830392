//! What RowDescription says of a result's columns besides their types: the table and column that one
//! shows as it is, and PostgreSQL's own types.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::{
    datasource::source_as_provider,
    logical_expr::{Distinct, Expr, LogicalPlan},
};
use stratalog_model::types::{ORIGIN_METADATA, PG_TYPE_METADATA};
use stratalog_visor_core::catalog::oid_of;

use crate::table::ChronicleTable;

/// The schema of a result, whose fields tell where they come from, and which of PostgreSQL's own
/// types the elements of an aggregated array have.
pub fn tell(plan: &LogicalPlan, schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().enumerate().map(|(at, field)| {
        let mut metadata = field.metadata().clone();
        if let Some((table, column)) = origin(plan, at) {
            metadata.insert(ORIGIN_METADATA.to_string(), format!("{table}.{column}"));
        }
        if matches!(field.data_type(), DataType::List(_))
            && let Some(known) = known_type(plan, at)
        {
            metadata.entry(PG_TYPE_METADATA.to_string()).or_insert(known);
        }
        match metadata == *field.metadata() {
            true => Arc::clone(field),
            false => Arc::new(Field::clone(field).with_metadata(metadata)),
        }
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// PostgreSQL's name for the type of a column of a plan, where ours is another.
fn known_type(plan: &LogicalPlan, at: usize) -> Option<String> {
    match plan {
        LogicalPlan::Projection(projection) => {
            known_type_of(&projection.input, projection.expr.get(at)?)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let groups = aggregate.group_expr.len();
            let expression = match at.checked_sub(groups) {
                None => aggregate.group_expr.get(at)?,
                Some(at) => aggregate.aggr_expr.get(at)?,
            };
            known_type_of(&aggregate.input, expression)
        }
        LogicalPlan::SubqueryAlias(alias) => known_type(&alias.input, at),
        LogicalPlan::Filter(filter) => known_type(&filter.input, at),
        LogicalPlan::Sort(sort) => known_type(&sort.input, at),
        LogicalPlan::Limit(limit) => known_type(&limit.input, at),
        LogicalPlan::Distinct(Distinct::All(input)) => known_type(input, at),
        LogicalPlan::RecursiveQuery(query) => known_type(&query.static_term, at),
        LogicalPlan::Union(union) => known_type(union.inputs.first()?, at),
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match at.checked_sub(left) {
                None => known_type(&join.left, at),
                Some(at) => known_type(&join.right, at),
            }
        }
        LogicalPlan::TableScan(scan) => {
            scan.projected_schema.fields().get(at)?.metadata().get(PG_TYPE_METADATA).cloned()
        }
        _ => None,
    }
}

fn known_type_of(input: &LogicalPlan, expression: &Expr) -> Option<String> {
    match expression {
        Expr::Alias(alias) => known_type_of(input, &alias.expr),
        Expr::Column(column) => known_type(input, input.schema().index_of_column(column).ok()?),
        Expr::ScalarSubquery(subquery) => known_type(&subquery.subquery, 0),
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, then)| then);
            values.chain(&case.else_expr).find_map(|value| known_type_of(input, value))
        }
        Expr::AggregateFunction(aggregate) if aggregate.func.name() == "array_agg" => {
            let element = known_type_of(input, aggregate.params.args.first()?)?;
            matches!(element.as_str(), "oid" | "name" | "char").then(|| format!("{element}[]"))
        }
        _ => None,
    }
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
