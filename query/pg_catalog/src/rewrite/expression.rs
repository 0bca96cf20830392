//! Tests and changes of single expressions, for all rules.

use std::{collections::HashSet, sync::LazyLock};

use datafusion::sql::sqlparser::ast::{Expr, FunctionArguments};

use super::build;
use crate::spec::SYSTEM_TABLES;

/// Replaces an expression in place by the result of `change`.
pub(super) fn replace(expr: &mut Expr, change: impl FnOnce(Expr) -> Expr) {
    let old = std::mem::replace(expr, build::null());
    *expr = change(old);
}

/// The columns of system tables with a function as their value. PostgreSQL stores the function's
/// oid; here the value is the name, and `-` for no function.
static FUNCTION_COLUMNS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let columns = SYSTEM_TABLES.iter().flat_map(|table| &table.columns);
    columns.filter(|column| column.pg_type == Some("regproc")).map(|column| column.name).collect()
});

/// The columns of system tables whose type is `name`.
static NAME_COLUMNS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let columns = SYSTEM_TABLES.iter().flat_map(|table| &table.columns);
    columns.filter(|column| column.pg_type == Some("name")).map(|column| column.name).collect()
});

/// True for a column of a system table with a function as its value.
pub(super) fn is_function_column(expr: &Expr) -> bool {
    is_one_of(expr, &FUNCTION_COLUMNS)
}

/// True for a column of a system table of type `name`.
pub(super) fn is_name_column(expr: &Expr) -> bool {
    is_one_of(expr, &NAME_COLUMNS)
}

fn is_one_of(expr: &Expr, columns: &HashSet<&'static str>) -> bool {
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    name.is_some_and(|name| columns.contains(name.value.as_str()))
}

/// Replaces the name of a function by its oid.
pub(super) fn oid_of(column: &mut Expr) {
    replace(column, |column| build::call("to_regproc", vec![column]));
}

/// The name of the function, in lower case, if the expression is a call such as `f(x)`; otherwise
/// `None`.
pub(super) fn called(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Function(function) if !matches!(function.args, FunctionArguments::Subquery(_)) => {
            function.name.0.last()?.as_ident().map(|name| name.value.to_ascii_lowercase())
        }
        _ => None,
    }
}
