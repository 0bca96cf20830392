//! PostgreSQL's own types of the columns of a result: `oid`, `name`, `varchar` … Types of ours
//! stand for these types.

use arrow::datatypes::{DataType, Field};
use datafusion::{
    logical_expr::{Expr, ExprSchemable, LogicalPlan},
    scalar::ScalarValue,
};
use stratalog_model::{ColumnType, types::PG_TYPE_METADATA};
use stratalog_pg_catalog::stands_for;

use super::source::{Source, source, unaliased};
use crate::rules::cases;

/// The known facts about a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// NULL, or a quoted constant: takes the type of the other value.
    Unknown,
    /// PostgreSQL's own type with the given name.
    Named(String),
    /// A type of ours.
    Plain,
}

/// True if the values of a field can have PostgreSQL's type with the given name.
pub fn fits(name: &str, field: &Field) -> bool {
    let plain = Field::new("", field.data_type().clone(), true);
    let found = ColumnType::from_arrow_field(field);
    let wanted = stands_for(name);
    found.as_ref() == Some(&wanted)
        || ColumnType::from_arrow_field(&plain).is_some_and(|found| found == wanted)
        || matches!(field.data_type(), DataType::Null)
}

/// The known facts about the type of a column of a plan.
pub fn of_column(plan: &LogicalPlan, at: usize) -> Known {
    match source(plan, at) {
        Some((Source::Table(scan), at)) => {
            scan.projected_schema.fields().get(at).map_or(Known::Plain, |field| named(field))
        }
        Some((Source::Mixed(inputs), at)) => {
            inputs.into_iter().map(|input| of_column(input, at)).fold(Known::Unknown, both)
        }
        Some((Source::Element(input), at)) => element_of(of_column(input, at)),
        Some((Source::Computed(input, expression), _)) => of_expression(input, expression),
        None => plan.schema().fields().get(at).map_or(Known::Plain, |field| named(field)),
    }
}

fn named(field: &Field) -> Known {
    match field.metadata().get(PG_TYPE_METADATA) {
        Some(name) => Known::Named(name.clone()),
        None => Known::Plain,
    }
}

/// The common type of two alternative values, for example of the branches of a CASE.
fn both(left: Known, right: Known) -> Known {
    match (left, right) {
        (Known::Unknown, other) | (other, Known::Unknown) => other,
        (left, right) if left == right => left,
        // Among numbers, PostgreSQL prefers an oid.
        (Known::Named(name), Known::Plain) | (Known::Plain, Known::Named(name))
            if name == "oid" =>
        {
            Known::Named(name)
        }
        _ => Known::Plain,
    }
}

fn all<'a>(input: &LogicalPlan, values: impl IntoIterator<Item = &'a Expr>) -> Known {
    values.into_iter().map(|value| of_expression(input, value)).fold(Known::Unknown, both)
}

fn element_of(known: Known) -> Known {
    match known {
        Known::Named(name) if name == "oidvector" => Known::Named("oid".to_string()),
        Known::Named(name) => match name.strip_suffix("[]") {
            Some(element) => Known::Named(element.to_string()),
            None => Known::Plain,
        },
        other => other,
    }
}

fn array_of(known: Known) -> Known {
    match known {
        Known::Named(name) if !name.ends_with("[]") => Known::Named(format!("{name}[]")),
        _ => Known::Plain,
    }
}

fn of_expression(input: &LogicalPlan, expression: &Expr) -> Known {
    match unaliased(expression) {
        Expr::Column(column) => match input.schema().index_of_column(column) {
            Ok(at) => of_column(input, at),
            Err(_) => Known::Plain,
        },
        Expr::OuterReferenceColumn(field, _) => named(field),
        Expr::Literal(value, metadata) => {
            let known =
                metadata.as_ref().and_then(|metadata| metadata.inner().get(PG_TYPE_METADATA));
            match known {
                Some(name) => Known::Named(name.clone()),
                None if value.is_null() || is_text(value) => Known::Unknown,
                None => Known::Plain,
            }
        }
        Expr::Cast(cast) => match named(&cast.field) {
            Known::Plain if cast.field.name().is_empty() => {
                // A cast that the planner added to unify types.
                match of_expression(input, &cast.expr) {
                    Known::Named(name) if !fits(&name, &cast.field) => Known::Plain,
                    known => known,
                }
            }
            known => known,
        },
        Expr::Case(case) => {
            let branches = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
            all(input, branches.chain(case.else_expr.as_deref()))
        }
        Expr::ScalarSubquery(subquery) => of_column(&subquery.subquery, 0),
        Expr::ScalarFunction(function) => match function.func.name() {
            "coalesce" | "greatest" | "least" => all(input, &function.args),
            "nullif" => all(input, function.args.first()),
            "array_element" => element_of(all(input, function.args.first())),
            "make_array" => array_of(all(input, &function.args)),
            _ if let Some(parts) = cases::parts(function) => {
                let branches = parts.choices.iter().map(|[_, then]| then);
                all(input, branches.chain([parts.otherwise]))
            }
            _ => {
                expression.to_field(input.schema()).map_or(Known::Plain, |(_, field)| named(&field))
            }
        },
        Expr::AggregateFunction(aggregate) => {
            of_aggregate(aggregate.func.name(), all(input, aggregate.params.args.first()))
        }
        Expr::WindowFunction(window) => match window.fun.name() {
            "lag" | "lead" => all(input, window.params.args.first()),
            name => of_aggregate(name, all(input, window.params.args.first())),
        },
        _ => Known::Plain,
    }
}

/// The type of an aggregate over values of a type.
fn of_aggregate(name: &str, value: Known) -> Known {
    match (name, value) {
        ("array_agg", value) => array_of(value),
        ("first_value" | "last_value" | "nth_value" | "any_value" | "mode", value) => value,
        ("min" | "max", Known::Named(name)) if matches!(name.as_str(), "oid" | "inet") => {
            Known::Named(name)
        }
        _ => Known::Plain,
    }
}

fn is_text(value: &ScalarValue) -> bool {
    matches!(value, ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::LargeUtf8(_))
}
