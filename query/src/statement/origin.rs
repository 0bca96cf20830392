//! What RowDescription says of a result's columns besides their types: the table and column that one
//! shows as it is, and PostgreSQL's own types.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::{
    common::Column,
    datasource::source_as_provider,
    logical_expr::{Distinct, Expr, LogicalPlan, TableScan},
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

/// What a column of a plan shows.
enum Source<'a> {
    /// A column of a table.
    Table(&'a TableScan),
    /// What is computed over an input.
    Computed(&'a LogicalPlan, &'a Expr),
    /// A column of several inputs at once, of which this is the first.
    Mixed(&'a LogicalPlan),
}

/// Where a column of a plan comes from, through all that passes columns on, and its place there.
fn source(mut plan: &LogicalPlan, mut at: usize) -> Option<(Source<'_>, usize)> {
    loop {
        let (input, expression) = match plan {
            LogicalPlan::Projection(projection) => (&projection.input, projection.expr.get(at)?),
            // The columns of grouping sets are not those of its expressions.
            LogicalPlan::Aggregate(aggregate)
                if aggregate.group_expr.iter().any(|by| matches!(by, Expr::GroupingSet(_))) =>
            {
                return None;
            }
            LogicalPlan::Aggregate(aggregate) => {
                let mut columns = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
                (&aggregate.input, columns.nth(at)?)
            }
            LogicalPlan::Join(join) => {
                let left = join.left.schema().fields().len();
                (plan, at) = match at.checked_sub(left) {
                    None => (&join.left, at),
                    Some(at) => (&join.right, at),
                };
                continue;
            }
            LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => {
                plan = plan.inputs().first().copied()?;
                continue;
            }
            LogicalPlan::Union(union) => return Some((Source::Mixed(union.inputs.first()?), at)),
            LogicalPlan::RecursiveQuery(query) => {
                return Some((Source::Mixed(&query.static_term), at));
            }
            LogicalPlan::TableScan(scan) => return Some((Source::Table(scan), at)),
            _ => return None,
        };
        match unaliased(expression) {
            Expr::Column(column) => (plan, at) = (input, place(input, column, at)?),
            computed => return Some((Source::Computed(input, computed), at)),
        }
    }
}

fn unaliased(mut expression: &Expr) -> &Expr {
    while let Expr::Alias(alias) = expression {
        expression = &alias.expr;
    }
    expression
}

/// Which column of a plan that is; most often the one at the same place.
fn place(plan: &LogicalPlan, column: &Column, at: usize) -> Option<usize> {
    let schema = plan.schema();
    let here = (at < schema.fields().len()).then(|| schema.qualified_field(at));
    match here {
        Some((relation, field))
            if relation == column.relation.as_ref() && *field.name() == column.name =>
        {
            Some(at)
        }
        _ => schema.index_of_column(column).ok(),
    }
}

/// PostgreSQL's name for the type of a column of a plan, where ours is another.
fn known_type(plan: &LogicalPlan, at: usize) -> Option<String> {
    match source(plan, at)? {
        (Source::Table(scan), at) => {
            scan.projected_schema.fields().get(at)?.metadata().get(PG_TYPE_METADATA).cloned()
        }
        (Source::Mixed(first), at) => known_type(first, at),
        (Source::Computed(input, expression), _) => known_type_of(input, expression),
    }
}

fn known_type_of(input: &LogicalPlan, expression: &Expr) -> Option<String> {
    match unaliased(expression) {
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

/// Oid of the table and number of the column, from 1, that a column of a plan shows as it is.
fn origin(plan: &LogicalPlan, at: usize) -> Option<(i64, usize)> {
    let (Source::Table(scan), at) = source(plan, at)? else { return None };
    let provider = source_as_provider(&scan.source).ok()?;
    let name = scan.projected_schema.fields().get(at)?.name();
    if let Some(table) = provider.downcast_ref::<ChronicleTable>() {
        let definition = table.definition();
        let column = definition.columns.iter().position(|column| column.name == *name)?;
        return Some((i64::from(oid_of(definition.id)), column + 1));
    }
    let table = stratalog_pg_catalog::system_table_oid(provider.as_ref())?;
    Some((table, scan.source.schema().index_of(name).ok()? + 1))
}
