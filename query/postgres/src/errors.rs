//! Maps DataFusion's planning and execution errors to this project's errors.

use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::{
    common::{SchemaError, TableReference},
    error::DataFusionError,
};
use stratalog_model::{Error, ErrorKind};

mod message;
mod names;
pub mod place;
mod plan;
mod signature;
pub mod syntax;
pub mod times;
mod unary;
mod unicode_escapes;

pub use plan::{no_function, no_operator};

/// Converts a DataFusion error to the error that the client receives.
pub fn from_datafusion(error: DataFusionError) -> Error {
    match error {
        DataFusionError::Context(_, inner) => from_datafusion(*inner),
        DataFusionError::Diagnostic(note, inner) => {
            unary::no_sign(&note.message).unwrap_or_else(|| from_datafusion(*inner))
        }
        DataFusionError::Shared(shared) => match Arc::try_unwrap(shared) {
            Ok(inner) => from_datafusion(inner),
            Err(shared) => from_shared(&shared),
        },
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(first) => from_datafusion(first),
            None => Error::internal("an empty collection of errors"),
        },
        DataFusionError::External(source) => from_boxed(source),
        DataFusionError::ArrowError(error, _) => from_arrow(*error),
        DataFusionError::IoError(error) => from_io(error),
        DataFusionError::SQL(error, _) => syntax::syntax_error("", &error.to_string()),
        DataFusionError::SchemaError(error, _) => from_schema(&error),
        DataFusionError::NotImplemented(text) => not_implemented(&text),
        DataFusionError::Plan(text) => message::from_plan(&text),
        DataFusionError::Execution(text) => message::from_execution(&text),
        DataFusionError::Configuration(text) => {
            Error::new(ErrorKind::InvalidParameterValue, message::without_decoration(&text))
        }
        DataFusionError::ResourcesExhausted(text) => message::from_resources(&text),
        DataFusionError::ExecutionJoin(error) if error.is_cancelled() => {
            Error::new(ErrorKind::QueryCanceled, "canceling statement: its task was cancelled")
        }
        other => from_internal(&other.to_string()).with_source(other),
    }
}

/// Wraps an error of this project in a DataFusion error.
pub fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn from_shared(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::Context(_, inner) => from_shared(inner),
        DataFusionError::Diagnostic(note, inner) => {
            unary::no_sign(&note.message).unwrap_or_else(|| from_shared(inner))
        }
        DataFusionError::Shared(inner) => from_shared(inner),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => from_shared(first),
            None => Error::internal("an empty collection of errors"),
        },
        DataFusionError::External(source) => match source.downcast_ref::<Error>() {
            Some(ours) => ours.duplicate(),
            None => match source.downcast_ref::<DataFusionError>() {
                Some(inner) => from_shared(inner),
                None => match source.downcast_ref::<ArrowError>() {
                    Some(ArrowError::ExternalError(inner)) => match inner.downcast_ref::<Error>() {
                        Some(ours) => ours.duplicate(),
                        None => Error::internal(inner.to_string()),
                    },
                    Some(arrow) => message::from_arrow_text(&arrow.to_string()),
                    None => message::from_unknown(&source.to_string()),
                },
            },
        },
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::ExternalError(source) => match source.downcast_ref::<Error>() {
                Some(ours) => ours.duplicate(),
                None => match source.downcast_ref::<DataFusionError>() {
                    Some(inner) => from_shared(inner),
                    None => message::from_unknown(&source.to_string()),
                },
            },
            other => message::from_arrow_text(&other.to_string()),
        },
        DataFusionError::SchemaError(error, _) => from_schema(error),
        DataFusionError::NotImplemented(text) => not_implemented(text),
        DataFusionError::Plan(text) => message::from_plan(text),
        DataFusionError::Execution(text) => message::from_execution(text),
        DataFusionError::ResourcesExhausted(text) => message::from_resources(text),
        other => from_internal(&other.to_string()),
    }
}

/// Maps an error that DataFusion calls "internal". Some of these errors are faults of the
/// statement.
fn from_internal(text: &str) -> Error {
    let text = message::without_decoration(text);
    if text.contains("failed to match any signature") {
        return message::from_plan(&text);
    }
    if let Some((_, types)) = text.split_once("Failed to coerce types ")
        && let Some((left, rest)) = types.split_once(" and ")
        && let Some((right, _)) = rest.split_once(" in ")
    {
        let (left, right) = (names::sql_type(left), names::sql_type(right));
        let message = format!("operator does not exist: {left} >= {right}");
        return Error::new(ErrorKind::UndefinedFunction, message)
            .with_hint("add a cast to one of the operands");
    }
    match text.split_once("Cannot run range queries on datatype: ") {
        Some((_, of)) => Error::new(
            ErrorKind::FeatureNotSupported,
            format!(
                "RANGE with an offset is not supported for {}",
                names::sql_type(of.trim_end_matches('.'))
            ),
        )
        .with_hint("use ROWS or GROUPS"),
        None => Error::internal(text),
    }
}

fn not_implemented(text: &str) -> Error {
    if text.contains("does not support logical expression") {
        return message::unplannable(text);
    }
    let text = message::without_decoration(text);
    if let Some(join) = text.strip_prefix("Unsupported JOIN operator ") {
        return unsupported_join(join);
    }
    if let Some(known) = plan::planner_error(&text).or_else(|| unary::unknown_operator(&text)) {
        return known;
    }
    let unsupported =
        |what: &str| Error::new(ErrorKind::FeatureNotSupported, format!("{what} is not supported"));
    if let Some(node) = text.strip_prefix("Unsupported ast node ") {
        return unsupported(&clause_of(node));
    }
    if let Some(sql_type) = text.strip_prefix("Unsupported SQL type ") {
        let sql_type = sql_type.trim_start_matches("(precision/scale not supported) ");
        return unsupported_type(&sql_type.to_lowercase());
    }
    if text.chars().all(|c| c.is_ascii_uppercase() || c == ' ') {
        return unsupported(&text);
    }
    if message::shows_syntax_tree(&text) {
        return unsupported("this form of the statement");
    }
    Error::new(ErrorKind::FeatureNotSupported, text)
}

/// The name of a syntax-tree node in upper case: `PIVOT` for the debug text `Pivot { … }`.
fn clause_of(node: &str) -> String {
    let node = node.strip_prefix("in sqltorel: ").unwrap_or(node);
    let name = node.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let mut words = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.push(c.to_ascii_uppercase());
    }
    words
}

/// The error for a type that the server does not support.
pub fn unsupported_type(name: &str) -> Error {
    Error::new(ErrorKind::FeatureNotSupported, format!("type {name} is not supported")).with_hint(
        "types are boolean, smallint, integer, bigint, real, double precision, numeric(p,s), text, bytea, timestamp, timestamptz, date, time, interval, uuid, jsonb, and arrays of these types",
    )
}

/// The error for a scalar subquery with several rows.
pub fn too_many_rows() -> Error {
    Error::new(
        ErrorKind::CardinalityViolation,
        "more than one row returned by a subquery used as an expression",
    )
}

/// The error for an unsupported kind of join. `join` is the planner's text, which contains the kind
/// as debug output of the syntax tree.
fn unsupported_join(join: &str) -> Error {
    let error =
        |what: &str| Error::new(ErrorKind::FeatureNotSupported, format!("{what} is not supported"));
    match join.starts_with("AsOf") {
        true => error("ASOF JOIN").with_hint(
            "LEFT JOIN LATERAL (SELECT … WHERE b.time <= a.time ORDER BY b.time DESC LIMIT 1) b \
             ON true is an as-of join",
        ),
        false => error("this kind of join")
            .with_hint("use INNER, LEFT, RIGHT, FULL or CROSS JOIN, or EXISTS"),
    }
}

fn from_boxed(source: Box<dyn std::error::Error + Send + Sync>) -> Error {
    let source = match source.downcast::<Error>() {
        Ok(ours) => return *ours,
        Err(source) => source,
    };
    let source = match source.downcast::<DataFusionError>() {
        Ok(inner) => return from_datafusion(*inner),
        Err(source) => source,
    };
    let source = match source.downcast::<ArrowError>() {
        Ok(inner) => return from_arrow(*inner),
        Err(source) => source,
    };
    match source.downcast::<std::io::Error>() {
        Ok(inner) => from_io(*inner),
        Err(source) => message::from_unknown(&source.to_string()).with_source(source),
    }
}

/// Converts an error of an Arrow kernel to the error that the client receives.
pub fn from_arrow(error: ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(source) => from_boxed(source),
        ArrowError::DivideByZero => Error::new(ErrorKind::DivisionByZero, "division by zero"),
        ArrowError::MemoryError(text) => Error::new(ErrorKind::OutOfMemory, text),
        ArrowError::IoError(_, error) => from_io(error),
        other => message::from_arrow_text(&other.to_string()),
    }
}

fn from_io(error: std::io::Error) -> Error {
    // The error for too many spilled bytes arrives as an I/O error of the kind `Other`.
    if error.kind() == std::io::ErrorKind::Other {
        let text = error.to_string();
        if message::is_spill_limit(&text) {
            return message::from_resources(&text);
        }
    }
    Error::io("spilling intermediate results", error)
}

fn from_schema(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let name = match &field.relation {
                Some(relation) => format!("{}.{}", relation.table(), field.name),
                None => format!("\"{}\"", field.name),
            };
            if let Some(relation) = &field.relation
                && !valid_fields.is_empty()
                && !valid_fields
                    .iter()
                    .any(|valid| same_relation(valid.relation.as_ref(), relation))
            {
                return Error::new(
                    ErrorKind::UndefinedTable,
                    format!("missing FROM-clause entry for table \"{}\"", relation.table()),
                );
            }
            // Duplicate column names of a subquery have distinct suffixes after \u{1}. If several
            // columns have the wanted name in front of the suffix, the name is ambiguous.
            let repeated = |valid: &str| {
                valid.split_once('\u{1}').is_some_and(|(shown, _)| shown == field.name)
            };
            if valid_fields.iter().filter(|valid| repeated(&valid.name)).count() > 1 {
                return Error::new(
                    ErrorKind::AmbiguousColumn,
                    format!("column reference \"{}\" is ambiguous", field.name),
                );
            }
            let error =
                Error::new(ErrorKind::UndefinedColumn, format!("column {name} does not exist"));
            match message::closest(
                &field.name,
                valid_fields.iter().map(|valid| valid.name.as_str()),
            ) {
                Some(candidate) => {
                    error.with_hint(format!("Perhaps you meant the column \"{candidate}\"."))
                }
                None => error,
            }
        }
        SchemaError::AmbiguousReference { field } => Error::new(
            ErrorKind::AmbiguousColumn,
            format!("column reference \"{}\" is ambiguous", field.name),
        ),
        // Columns of one table always have distinct internal names. Two equal qualified columns
        // therefore mean that FROM contains the table twice.
        SchemaError::DuplicateQualifiedField { qualifier, .. } => Error::new(
            ErrorKind::DuplicateAlias,
            format!("table name \"{}\" specified more than once", qualifier.table()),
        ),
        SchemaError::DuplicateUnqualifiedField { name } => Error::new(
            ErrorKind::DuplicateColumn,
            format!("column name \"{name}\" is used more than once"),
        ),
    }
}

fn same_relation(left: Option<&TableReference>, right: &TableReference) -> bool {
    left.is_some_and(|left| left.table() == right.table())
}

#[cfg(test)]
mod tests;
