//! Casts in GROUP BY. The planner names a cast after the inner expression, and therefore confuses
//! `v::text` with `v` or with `v::bigint`. Columns need distinct names:
//!
//! ```text
//!   SELECT v, v::text FROM t            SELECT v, $cast(v::text, 'text') FROM t
//!   GROUP BY v, v::text           ─►    GROUP BY v, $cast(v::text, 'text')
//! ```
//!
//! The function `$cast` only gives the cast another name (`rules::types::named_casts`). An
//! unnecessary call does not change a result.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    ObjectName, OrderBy, Select, SelectItem, Value, ValueWithSpan,
};

use crate::parse::call;
use crate::{
    names::{fold, name_of_item},
    rules::types::named_casts::FUNCTION,
    walk::{self, Tree},
};

/// Gives casts in a SELECT distinct names, if two groups of its GROUP BY would have the same name.
pub fn tell_apart(select: &mut Select, mut order_by: Option<&mut OrderBy>) {
    let names = taken_names(select);
    if names.is_empty() {
        return;
    }
    for item in &mut select.projection {
        let name = name_of_item(item);
        let changed = name_casts(item, &names);
        if let (true, SelectItem::UnnamedExpr(expr)) = (changed, &*item) {
            let alias = Ident::with_quote('"', name);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
    name_casts(&mut select.distinct, &names);
    name_casts(&mut select.group_by, &names);
    name_casts(&mut select.having, &names);
    name_casts(&mut select.named_window, &names);
    if let Some(order_by) = &mut order_by {
        name_casts(*order_by, &names);
    }
}

/// The inner names of the casts in groups that share the planner's name with another group.
fn taken_names(select: &Select) -> Vec<String> {
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return Vec::new() };
    let (mut written, mut in_sets) = (Vec::new(), false);
    for group in groups {
        match group {
            Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                in_sets = true;
                written.extend(sets.iter().flatten());
            }
            group => written.push(group),
        }
    }
    let mut all: Vec<&Expr> = Vec::new();
    for group in written {
        all.push(group);
        all.extend(item_of(group, &select.projection));
    }
    // The casts already have names from an earlier call of `tell_apart`.
    if all.iter().any(|group| holds(group, is_named)) {
        return Vec::new();
    }
    let mut names = Vec::new();
    for group in all.iter().filter(|group| holds(group, is_cast)) {
        let name = bare(group);
        let is_taken = || all.iter().any(|other| other != group && bare(other) == name);
        if in_sets || is_taken() {
            let _ = walk::own_expressions(*group, |expr| {
                if let Expr::Cast { expr: inner, .. } = expr {
                    names.push(bare(inner));
                }
                ControlFlow::Continue(())
            });
        }
    }
    names
}

/// The select-list expression that a group refers to by its position or by its alias.
fn item_of<'a>(group: &Expr, projection: &'a [SelectItem]) -> Option<&'a Expr> {
    let item = match group {
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => {
            projection.get(number.parse::<usize>().ok()?.checked_sub(1)?)
        }
        Expr::Identifier(name) => projection.iter().find(|item| {
            matches!(item, SelectItem::ExprWithAlias { alias, .. } if fold(alias) == fold(name))
        }),
        _ => None,
    };
    match item? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { .. })
}

fn holds(expr: &Expr, what: fn(&Expr) -> bool) -> bool {
    let found = walk::own_expressions(expr, |expr| match what(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The planner's name of an expression: the text of the expression without casts and qualifiers. A
/// column has the same name with and without qualifiers.
fn bare(expr: &Expr) -> String {
    let mut bare = expr.clone();
    let _ = walk::own_expressions_mut(&mut bare, |expr| {
        let inner = match expr {
            Expr::Cast { expr: inner, .. } | Expr::Nested(inner) => Some((**inner).clone()),
            Expr::Identifier(name) => Some(Expr::Identifier(Ident::new(fold(name)))),
            Expr::CompoundIdentifier(parts) => {
                parts.last().map(|name| Expr::Identifier(Ident::new(fold(name))))
            }
            Expr::Function(function) if is_ours(function) => first_argument(function).cloned(),
            _ => None,
        };
        if let Some(inner) = inner {
            *expr = inner;
        }
        ControlFlow::Continue(())
    });
    bare.to_string()
}

fn is_named(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if is_ours(function))
}

fn is_ours(function: &Function) -> bool {
    function
        .name
        .0
        .last()
        .and_then(|part| part.as_ident())
        .is_some_and(|name| name.value == FUNCTION)
}

fn first_argument(function: &Function) -> Option<&Expr> {
    match &function.args {
        FunctionArguments::List(list) => match list.args.first() {
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => Some(expr),
            _ => None,
        },
        _ => None,
    }
}

/// Replaces the casts whose inner expression has a name in `names` by calls of `$cast`. Returns
/// true if a cast changed.
fn name_casts(tree: &mut impl Tree, names: &[String]) -> bool {
    let mut changed = false;
    let _ = walk::own_expressions_mut(tree, |expr| {
        if let Expr::Cast { expr: inner, data_type, .. } = &*expr
            && names.contains(&bare(inner))
        {
            let type_name = Value::SingleQuotedString(data_type.to_string().to_lowercase());
            let named = call("cast_of", vec![expr.clone(), Expr::Value(type_name.into())]);
            if let Some(Expr::Function(mut function)) = named {
                function.name = ObjectName::from(vec![Ident::new(FUNCTION)]);
                *expr = Expr::Function(function);
                changed = true;
            }
        }
        ControlFlow::Continue(())
    });
    changed
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};

    use super::*;
    use crate::parse;

    fn told_apart(sql: &str) -> String {
        let tree = parse::statements(sql, 10_000).unwrap().remove(0).statement;
        let Statement::Query(mut query) = tree else { unreachable!("{sql}") };
        let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("{sql}") };
        tell_apart(select, query.order_by.as_mut());
        let once = query.to_string();
        let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("{sql}") };
        tell_apart(select, query.order_by.as_mut());
        assert_eq!(query.to_string(), once, "twice");
        once
    }

    #[test]
    fn casts_beside_their_columns_have_names() {
        for (sql, wanted) in [
            (
                "SELECT v, t.v::TEXT FROM t GROUP BY v, v::TEXT ORDER BY v::TEXT",
                "SELECT v, $cast(t.v::TEXT, 'text') AS \"v\" FROM t GROUP BY v, $cast(v::TEXT, 'text') \
                 ORDER BY $cast(v::TEXT, 'text')",
            ),
            (
                "SELECT v::TEXT AS a, v::BIGINT AS b FROM t GROUP BY 1, b",
                "SELECT $cast(v::TEXT, 'text') AS a, $cast(v::BIGINT, 'bigint') AS b FROM t GROUP BY 1, b",
            ),
            (
                "SELECT count(*) FROM t GROUP BY ROLLUP (v::TEXT)",
                "SELECT count(*) FROM t GROUP BY ROLLUP ($cast(v::TEXT, 'text'))",
            ),
        ] {
            assert_eq!(told_apart(sql), wanted);
        }
    }

    #[test]
    fn other_casts_stay() {
        for sql in [
            "SELECT v::TEXT, sum(w::BIGINT) FROM t GROUP BY v::TEXT, w",
            "SELECT v, sum(v::BIGINT) FROM t GROUP BY v",
            "SELECT count(*) FROM t GROUP BY ROLLUP (v + 1)",
        ] {
            assert_eq!(told_apart(sql), sql);
        }
    }
}
