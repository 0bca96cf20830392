//! Functions under the names that PostgreSQL calls them by.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, OrderByExpr,
    OrderByOptions,
};

use super::{build, called, replace, without_system_schema};

/// Words that are functions without parentheses.
const WORDS: &[&str] =
    &["current_catalog", "current_role", "current_schema", "current_user", "session_user", "user"];

/// Names that PostgreSQL has more of.
const ALIASES: &[(&str, &str)] = &[
    ("transaction_timestamp", "now"),
    ("statement_timestamp", "now"),
    ("pg_get_partition_constraintdef", "pg_get_partkeydef"),
];

/// Rewrites one expression; its parts are visited later.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::Identifier(name)
            if name.quote_style.is_none()
                && WORDS.contains(&name.value.to_ascii_lowercase().as_str()) =>
        {
            let function = name.value.to_ascii_lowercase();
            *expr = build::call(&function, Vec::new());
        }
        Expr::AtTimeZone { .. } => replace(expr, |old| match old {
            Expr::AtTimeZone { timestamp, time_zone } => {
                build::call("timezone", vec![*time_zone, *timestamp])
            }
            other => other,
        }),
        Expr::Function(function) => {
            without_system_schema(&mut function.name);
            let name = match function.name.0.as_slice() {
                [only] => only.as_ident().map(|name| name.value.to_ascii_lowercase()),
                _ => None,
            };
            let alias = ALIASES
                .iter()
                .find(|(known, _)| name.as_deref() == Some(*known))
                .map(|(_, to)| *to);
            if let Some(alias) = alias {
                function.name = ObjectName::from(vec![Ident::new(alias)]);
            }
            at_time(expr);
        }
        _ => {}
    }
}

/// `first(value, time)` and `last(value, time)`.
fn at_time(expr: &mut Expr) {
    // Rows without a time come last, so they are neither the first nor the last.
    let (name, nulls_first) = match called(expr).as_deref() {
        Some("first") => ("first_value", false),
        Some("last") => ("last_value", true),
        _ => return,
    };
    let Expr::Function(function) = expr else { return };
    if function.over.is_some() {
        return;
    }
    let FunctionArguments::List(list) = &mut function.args else { return };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(_)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(_)),
    ] = list.args.as_slice()
    else {
        return;
    };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(time))) = list.args.pop() else { return };
    function.name = ObjectName::from(vec![Ident::new(name)]);
    list.clauses.push(datafusion::sql::sqlparser::ast::FunctionArgumentClause::OrderBy(vec![
        OrderByExpr {
            expr: time,
            options: OrderByOptions { asc: Some(true), nulls_first: Some(nulls_first) },
            with_fill: None,
        },
    ]));
}
