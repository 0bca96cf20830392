//! SQL functions that need the session or the catalog of tables.

use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, BooleanArray, Int32Array, Int64Array, ListBuilder, StringViewBuilder,
    TimestampMicrosecondArray,
};
use datafusion::{common::Result, execution::FunctionRegistry, logical_expr::Volatility};
use stratalog_functions::function::{Arguments, Function, Parameter, Returns, Run, text_rows};
use stratalog_model::ColumnType;

use crate::CatalogContext;

mod identifiers;
mod log;
mod object;
mod privilege;
mod registry_type;
mod session;
mod size;
mod tools;

/// Registers the functions of the session that `context` describes.
///
/// # Errors
/// Fails if the registry accepts no functions.
pub fn register_functions(
    registry: &mut dyn FunctionRegistry,
    context: &Arc<CatalogContext>,
) -> Result<()> {
    let functions: Vec<Function> = session::functions(context)
        .into_iter()
        .chain(object::functions(context))
        .chain(size::functions(context))
        .chain(registry_type::functions(context))
        .chain(tools::functions(context))
        .chain(log::functions(context))
        .collect();
    crate::procedure::register_names(functions.iter().map(|function| function.name).collect());
    for mut function in functions {
        if let Some((column_type, pg_type)) = known_type(function.name) {
            function.returns = Returns::Known(column_type, pg_type);
        }
        registry.register_udf(Arc::new(function.into_udf()))?;
    }
    Ok(())
}

/// For a function whose result has a PostgreSQL type that no column can have: the column type that
/// represents the result, and the name of the PostgreSQL type. `None` for any other function.
pub(crate) fn known_type(function: &str) -> Option<(ColumnType, &'static str)> {
    match function {
        "current_database"
        | "current_catalog"
        | "current_schema"
        | "current_user"
        | "current_role"
        | "session_user"
        | "user"
        | "pg_get_userbyid"
        | "pg_client_encoding"
        | "getdatabaseencoding"
        | "pg_encoding_to_char" => Some((ColumnType::Text, "name")),
        "current_schemas" => Some((ColumnType::Array(Box::new(ColumnType::Text)), "name[]")),
        "regclass_name" => Some((ColumnType::Text, "regclass")),
        "regtype_name" => Some((ColumnType::Text, "regtype")),
        "regnamespace_name" => Some((ColumnType::Text, "regnamespace")),
        "regrole_name" => Some((ColumnType::Text, "regrole")),
        "regproc_name" => Some((ColumnType::Text, "regproc")),
        "regclass_oid" | "regtype_oid" | "regnamespace_oid" | "regrole_oid" | "regproc_oid" => {
            Some((ColumnType::BigInt, "oid"))
        }
        "pg_relation_filenode" => Some((ColumnType::BigInt, "oid")),
        "catalog_version" => Some((ColumnType::BigInt, "xid")),
        "inet_client_addr" | "inet_server_addr" => Some((ColumnType::Text, "inet")),
        "acldefault" => Some((ColumnType::Array(Box::new(ColumnType::Text)), "aclitem[]")),
        "pg_my_temp_schema" => Some((ColumnType::BigInt, "oid")),
        _ => None,
    }
}

/// A Rust function that computes the results of an SQL function for all rows of a batch.
type Compute = fn(&CatalogContext, &Arguments<'_>) -> Result<ArrayRef>;

/// Declares SQL functions that use a context.
struct Declare<'a> {
    context: &'a Arc<CatalogContext>,
}

impl Declare<'_> {
    /// Declares a stable function: its result may differ between two statements, but not within one
    /// statement.
    fn stable(
        &self,
        name: &'static str,
        parameters: &'static [&'static [Parameter]],
        returns: ColumnType,
        description: &'static str,
        compute: Compute,
    ) -> Function {
        let context = Arc::clone(self.context);
        let run: Run = Arc::new(move |arguments| compute(&context, arguments));
        Function {
            name,
            aliases: &[],
            parameters,
            returns: Returns::Type(returns),
            volatility: Volatility::Stable,
            description,
            run,
        }
    }
}

/// An array with the same text in every row.
fn same_text(arguments: &Arguments<'_>, text: &str) -> Result<ArrayRef> {
    text_rows(arguments.rows, |_| Ok(Some(text.to_string())))
}

fn same_integer(arguments: &Arguments<'_>, value: i32) -> Result<ArrayRef> {
    Ok(Arc::new(Int32Array::from(vec![value; arguments.rows])))
}

fn same_bigint(arguments: &Arguments<'_>, value: i64) -> Result<ArrayRef> {
    Ok(Arc::new(Int64Array::from(vec![value; arguments.rows])))
}

fn same_boolean(arguments: &Arguments<'_>, value: bool) -> Result<ArrayRef> {
    Ok(Arc::new(BooleanArray::from(vec![value; arguments.rows])))
}

fn same_time(arguments: &Arguments<'_>, micros: i64) -> Result<ArrayRef> {
    let times = TimestampMicrosecondArray::from(vec![micros; arguments.rows]);
    Ok(Arc::new(times.with_timezone("UTC")))
}

fn same_texts(arguments: &Arguments<'_>, texts: &[String]) -> Result<ArrayRef> {
    let mut builder = ListBuilder::new(StringViewBuilder::new());
    for _ in 0..arguments.rows {
        for text in texts {
            builder.values().append_value(text);
        }
        builder.append(true);
    }
    Ok(Arc::new(builder.finish()))
}

fn no_text(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    text_rows(arguments.rows, |_| Ok(None))
}

/// The value of argument `at` in a row, as an oid; `None` for NULL.
fn oid_at(arguments: &Arguments<'_>, at: usize, row: usize) -> Result<Option<i64>> {
    let numbers = arguments.integers(at)?;
    Ok((!numbers.is_null(row)).then(|| numbers.value(row)))
}

/// Computes a text from the oid in argument 0; `None` becomes NULL.
fn text_of_oid(
    arguments: &Arguments<'_>,
    text: impl Fn(i64) -> Option<String>,
) -> Result<ArrayRef> {
    text_rows(arguments.rows, |row| Ok(oid_at(arguments, 0, row)?.and_then(&text)))
}

/// Computes a boolean from the oid in argument 0; `None` becomes NULL.
fn test_of_oid(arguments: &Arguments<'_>, test: impl Fn(i64) -> Option<bool>) -> Result<ArrayRef> {
    truths(arguments, |row| Ok(oid_at(arguments, 0, row)?.and_then(&test)))
}

/// Computes a boolean for each row; `None` becomes NULL.
fn truths(
    arguments: &Arguments<'_>,
    truth: impl Fn(usize) -> Result<Option<bool>>,
) -> Result<ArrayRef> {
    let results = (0..arguments.rows).map(truth).collect::<Result<Vec<Option<bool>>>>()?;
    Ok(Arc::new(BooleanArray::from(results)))
}
