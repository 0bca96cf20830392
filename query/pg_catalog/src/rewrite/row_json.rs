//! Rewrites json functions to jsonb functions, and converts rows of subqueries to json.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query,
    Select, SelectItem, SetExpr, TableFactor,
};
use stratalog_functions::walk::{self, Change};

use super::{
    build,
    expression::{called, replace},
};

/// The json functions, each with the jsonb function that makes the same document.
const FUNCTIONS: [(&str, &str); 4] = [
    ("array_to_json", "to_jsonb"),
    ("json_build_array", "jsonb_build_array"),
    ("json_build_object", "jsonb_build_object"),
    ("to_json", "to_jsonb"),
];

/// Rewrites `json_build_object(…)` to `jsonb_build_object(…)::json`.
pub(super) fn rewrite(expr: &mut Expr) {
    let Some(name) = called(expr) else { return };
    let Some((_, other)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else { return };
    if let Expr::Function(function) = expr {
        function.name = ObjectName::from(vec![Ident::new(*other)]);
    }
    replace(expr, |call| build::cast(call, DataType::JSON));
}

/// Rewrites `row_to_json(t)`, where `t` is the alias of a subquery in FROM, to an object of the
/// subquery's columns.
pub(super) fn of_rows(select: &mut Select) {
    let factors = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    let rows: Vec<(Ident, Vec<Ident>)> = factors.filter_map(columns_of).collect();
    if !rows.is_empty() {
        for item in &mut select.projection {
            let _ = walk::change(item, &mut RowReferences { rows: &rows, depth: 0 });
        }
    }
}

/// The alias of a subquery in FROM, and the names of its columns. `None` if a column has no name.
fn columns_of(factor: &TableFactor) -> Option<(Ident, Vec<Ident>)> {
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor else { return None };
    if !alias.columns.is_empty() {
        let names = alias.columns.iter().map(|column| column.name.clone());
        return Some((alias.name.clone(), names.collect()));
    }
    let SetExpr::Select(select) = subquery.body.as_ref() else { return None };
    let names = select.projection.iter().map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
        _ => None,
    });
    Some((alias.name.clone(), names.collect::<Option<_>>()?))
}

struct RowReferences<'a> {
    rows: &'a [(Ident, Vec<Ident>)],
    depth: usize,
}

impl Change for RowReferences<'_> {
    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let data_type = match called(expr).as_deref() {
            Some("row_to_json" | "to_json") => DataType::JSON,
            Some("to_jsonb") => DataType::JSONB,
            _ => return ControlFlow::Continue(()),
        };
        let Expr::Function(function) = &*expr else { return ControlFlow::Continue(()) };
        let FunctionArguments::List(list) = &function.args else {
            return ControlFlow::Continue(());
        };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(row))), ..] =
            list.args.as_slice()
        else {
            return ControlFlow::Continue(());
        };
        if let Some((row, names)) = self.rows.iter().find(|(known, _)| known.value == row.value) {
            let members = names.iter().flat_map(|name| {
                let value = Expr::CompoundIdentifier(vec![row.clone(), name.clone()]);
                [build::string(&name.value), value]
            });
            *expr = build::cast(build::call("jsonb_build_object", members.collect()), data_type);
        }
        ControlFlow::Continue(())
    }
}
