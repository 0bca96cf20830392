//! Determines which columns of a result have a type that only PostgreSQL has, for example `oid`,
//! `name` or `varchar`. The database represents these types by its own types.

use arrow::datatypes::{DataType, Field};
use datafusion::{
    logical_expr::{Expr, ExprSchemable, LogicalPlan},
    scalar::ScalarValue,
};
use stratalog_model::{ColumnType, types::PG_TYPE_METADATA};
use stratalog_pg_catalog::stands_for;

use super::source::{ColumnSource, source, unaliased};
use crate::rules::types::cases;

/// What is known about the type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginType {
    /// NULL or a quoted constant, which takes the type of another value.
    Unknown,
    /// A type that only PostgreSQL has, with this name.
    Named(String),
    /// A type of this database.
    Plain,
}

/// True if a field can represent values of PostgreSQL's type with the given name.
pub fn fits(name: &str, field: &Field) -> bool {
    let plain = Field::new("", field.data_type().clone(), true);
    let found = ColumnType::from_arrow_field(field);
    let wanted = stands_for(name);
    found.as_ref() == Some(&wanted)
        || ColumnType::from_arrow_field(&plain).is_some_and(|found| found == wanted)
        || matches!(field.data_type(), DataType::Null)
}

/// The type of the column at the index `at` of a plan.
pub fn of_column(plan: &LogicalPlan, at: usize) -> OriginType {
    match source(plan, at) {
        Some((ColumnSource::Table(scan), at)) => scan
            .projected_schema
            .fields()
            .get(at)
            .map_or(OriginType::Plain, |field| type_of_field(field)),
        Some((ColumnSource::Mixed(inputs), at)) => inputs
            .into_iter()
            .map(|input| of_column(input, at))
            .fold(OriginType::Unknown, common_origin),
        Some((ColumnSource::Element(input), at)) => element_of(of_column(input, at)),
        Some((ColumnSource::Computed(input, expression), _)) => of_expression(input, expression),
        Some((ColumnSource::Rows(_), _)) | None => {
            plan.schema().fields().get(at).map_or(OriginType::Plain, |field| type_of_field(field))
        }
    }
}

fn type_of_field(field: &Field) -> OriginType {
    match field.metadata().get(PG_TYPE_METADATA) {
        Some(name) => OriginType::Named(name.clone()),
        None => OriginType::Plain,
    }
}

/// The common type of two alternatives, for example of two branches of a CASE.
fn common_origin(left: OriginType, right: OriginType) -> OriginType {
    match (left, right) {
        (OriginType::Unknown, other) | (other, OriginType::Unknown) => other,
        (left, right) if left == right => left,
        // Like PostgreSQL, prefers oid to other number types.
        (OriginType::Named(name), OriginType::Plain)
        | (OriginType::Plain, OriginType::Named(name))
            if name == "oid" =>
        {
            OriginType::Named(name)
        }
        _ => OriginType::Plain,
    }
}

fn common_origin_of<'a>(
    input: &LogicalPlan,
    values: impl IntoIterator<Item = &'a Expr>,
) -> OriginType {
    values
        .into_iter()
        .map(|value| of_expression(input, value))
        .fold(OriginType::Unknown, common_origin)
}

fn element_of(known: OriginType) -> OriginType {
    match known {
        OriginType::Named(name) if name == "oidvector" => OriginType::Named("oid".to_string()),
        OriginType::Named(name) => match name.strip_suffix("[]") {
            Some(element) => OriginType::Named(element.to_string()),
            None => OriginType::Plain,
        },
        other => other,
    }
}

fn array_of(known: OriginType) -> OriginType {
    match known {
        OriginType::Named(name) if !name.ends_with("[]") => OriginType::Named(format!("{name}[]")),
        _ => OriginType::Plain,
    }
}

fn of_expression(input: &LogicalPlan, expression: &Expr) -> OriginType {
    match unaliased(expression) {
        Expr::Column(column) => match input.schema().index_of_column(column) {
            Ok(at) => of_column(input, at),
            Err(_) => OriginType::Plain,
        },
        Expr::OuterReferenceColumn(field, _) => type_of_field(field),
        Expr::Literal(value, metadata) => {
            let known =
                metadata.as_ref().and_then(|metadata| metadata.inner().get(PG_TYPE_METADATA));
            match known {
                Some(name) => OriginType::Named(name.clone()),
                None if value.is_null() || is_text(value) => OriginType::Unknown,
                None => OriginType::Plain,
            }
        }
        Expr::Cast(cast) => match type_of_field(&cast.field) {
            OriginType::Plain if cast.field.name().is_empty() => {
                // The planner added this cast to give values a common type.
                match of_expression(input, &cast.expr) {
                    OriginType::Named(name) if !fits(&name, &cast.field) => OriginType::Plain,
                    known => known,
                }
            }
            known => known,
        },
        Expr::Case(case) => {
            let branches = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
            common_origin_of(input, branches.chain(case.else_expr.as_deref()))
        }
        Expr::ScalarSubquery(subquery) => of_column(&subquery.subquery, 0),
        Expr::ScalarFunction(function) => match function.func.name() {
            "coalesce" | "greatest" | "least" => common_origin_of(input, &function.args),
            "nullif" => common_origin_of(input, function.args.first()),
            "array_element" => element_of(common_origin_of(input, function.args.first())),
            "make_array" => array_of(common_origin_of(input, &function.args)),
            _ if let Some(parts) = cases::parts(function) => {
                let branches = parts.choices.iter().map(|[_, then]| then);
                common_origin_of(input, branches.chain([parts.otherwise]))
            }
            _ => expression
                .to_field(input.schema())
                .map_or(OriginType::Plain, |(_, field)| type_of_field(&field)),
        },
        Expr::AggregateFunction(aggregate) => of_aggregate(
            aggregate.func.name(),
            common_origin_of(input, aggregate.params.args.first()),
        ),
        Expr::WindowFunction(window) => match window.fun.name() {
            "lag" | "lead" => common_origin_of(input, window.params.args.first()),
            name => of_aggregate(name, common_origin_of(input, window.params.args.first())),
        },
        _ => OriginType::Plain,
    }
}

/// The result type of an aggregate, given the type of its argument.
fn of_aggregate(name: &str, value: OriginType) -> OriginType {
    match (name, value) {
        ("array_agg", value) => array_of(value),
        ("first_value" | "last_value" | "nth_value" | "any_value" | "mode", value) => value,
        ("min" | "max", OriginType::Named(name)) if matches!(name.as_str(), "oid" | "inet") => {
            OriginType::Named(name)
        }
        _ => OriginType::Plain,
    }
}

fn is_text(value: &ScalarValue) -> bool {
    matches!(value, ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::LargeUtf8(_))
}
