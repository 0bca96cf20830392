//! `first(value, time)` and `last(value, time)`, like TimescaleDB's functions.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident,
    ObjectName, OrderByExpr, OrderByOptions,
};

use crate::names::fold;

/// Rewrites `last(v, t)` to `first_value(v ORDER BY t DESC NULLS LAST)`: the value of the row with
/// the greatest `t`. `first(v, t)` becomes the same call in ascending order, for the least `t`. A
/// FILTER stays.
pub fn respell(expr: &mut Expr) {
    let Expr::Function(function) = &mut *expr else { return };
    let Some(name) = function.name.0.last().and_then(|part| part.as_ident()).map(fold) else {
        return;
    };
    let ascending = match name.as_str() {
        "first" => true,
        "last" => false,
        _ => return,
    };
    let FunctionArguments::List(list) = &mut function.args else { return };
    if function.over.is_some() || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return;
    }
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(_)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(by)),
    ] = list.args.as_slice()
    else {
        return;
    };
    let by = OrderByExpr {
        expr: by.clone(),
        options: OrderByOptions { asc: Some(ascending), nulls_first: Some(false) },
        with_fill: None,
    };
    list.args.truncate(1);
    list.clauses.push(FunctionArgumentClause::OrderBy(vec![by]));
    function.name = ObjectName::from(vec![Ident::new("first_value")]);
}
