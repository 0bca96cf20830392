//! Answers queries over tables that are always empty without a plan.
//!
//! Clients send many queries about features that Stratalog does not have, such as
//! publications, inherited tables and foreign servers. A SELECT that joins an always empty table
//! never returns rows. It becomes `SELECT NULL … WHERE false` with the same column names.

use std::{collections::HashSet, ops::ControlFlow, sync::LazyLock};

use datafusion::execution::SessionStateDefaults;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, JoinOperator, ObjectName, Query, Select, SelectItem, SetExpr, SetOperator,
    SetQuantifier, TableFactor, TableWithJoins, Value,
};
use stratalog_functions::walk::{self, Change, Look};

use super::{
    build,
    expression::{called, replace},
};
use crate::{fill::is_always_empty, spec::system_table};

mod types;

/// Rewrites a SELECT, or the branches of a UNION, that read an always empty table. Returns true if
/// the whole query now returns no rows.
pub(super) fn fold(query: &mut Query) -> bool {
    if query.with.is_some() {
        return false;
    }
    match query.body.as_mut() {
        SetExpr::Select(select) => {
            let emptied = fold_select(select);
            if emptied {
                query.order_by = None;
                query.limit_clause = None;
                query.fetch = None;
            }
            emptied
        }
        body => {
            fold_branches(body);
            false
        }
    }
}

/// Rewrites the branches of a UNION ALL that read always empty tables, and removes the last branch
/// if it returns no rows.
pub(super) fn without_branches(body: &mut SetExpr) {
    fold_branches(body);
    if let SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left,
        right,
    } = body
        && has_no_rows(right)
    {
        let kept = left.as_ref().clone();
        *body = kept;
    }
}

/// True if the body is a SELECT that [`fold_select`] has rewritten to return no rows.
fn has_no_rows(body: &SetExpr) -> bool {
    matches!(body, SetExpr::Select(select)
        if select.from.is_empty() && select.selection == Some(build::no()))
}

fn fold_branches(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let emptied = fold_select(select);
            for item in select.projection.iter_mut().filter(|_| emptied) {
                types::as_union_column(item);
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            fold_branches(left);
            fold_branches(right);
        }
        _ => {}
    }
}

/// If a scalar subquery aggregates over an always empty table, the value of the subquery: counts
/// become 0, and other aggregates become NULL. `None` for any other query.
pub(super) fn aggregated(query: &Query) -> Option<Expr> {
    struct AggregatesOfNoRows;
    impl Change for AggregatesOfNoRows {
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Some(name) = called(expr)
                && AGGREGATES.contains(&name)
            {
                let data_type = types::of(expr, &[]);
                let value = match name.as_str() {
                    "count" => Expr::Value(Value::Number("0".to_string(), false).into()),
                    _ => build::null(),
                };
                replace(expr, |_| build::cast(value, data_type));
            }
            ControlFlow::Continue(())
        }
    }
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    let aggregates = !is_grouped(select)
        && select.having.is_none()
        && select.projection.iter().any(is_aggregate);
    if query.with.is_some() || !aggregates || !select.from.iter().any(joins_empty) {
        return None;
    }
    let mut value = item.clone();
    let _ = walk::change(&mut value, &mut AggregatesOfNoRows);
    Some(Expr::Nested(Box::new(value)))
}

fn is_grouped(select: &Select) -> bool {
    match &select.group_by {
        GroupByExpr::Expressions(by, _) => !by.is_empty(),
        GroupByExpr::All(_) => true,
    }
}

/// The schema and the name of the system table that a name refers to; `None` for any other table.
pub(super) fn system_name(name: &ObjectName) -> Option<(&'static str, &'static str)> {
    let mut parts = name.0.iter().rev().map(|part| part.as_ident());
    let table = parts.next()??.value.to_ascii_lowercase();
    let schema = match parts.next() {
        Some(schema) => schema?.value.to_ascii_lowercase(),
        None => "pg_catalog".to_string(),
    };
    system_table(&schema, &table).map(|table| (table.schema, table.name))
}

fn table_name(factor: &TableFactor) -> Option<&ObjectName> {
    match factor {
        TableFactor::Table { name, args: None, .. } => Some(name),
        _ => None,
    }
}

/// The columns of system tables that are NULL in every row.
const ALWAYS_NULL: &[&str] = &[
    "attfdwoptions",
    "attmissingval",
    "attoptions",
    "conexclop",
    "conffeqop",
    "confkey",
    "conpfeqop",
    "conppeqop",
    "evttags",
    "extcondition",
    "extconfig",
    "proacl",
    "proconfig",
    "spcacl",
    "spcoptions",
    "typacl",
];

fn is_empty(factor: &TableFactor) -> bool {
    if let TableFactor::Derived { subquery, .. } = factor {
        return match subquery.body.as_ref() {
            SetExpr::Select(select) => never_has_rows(select),
            _ => false,
        };
    }
    let empty_table = table_name(factor)
        .and_then(system_name)
        .is_some_and(|(schema, name)| is_always_empty(schema, name));
    empty_table || unnest_argument(factor).is_some_and(is_always_null)
}

/// True if an expression is NULL in every row: a column in [`ALWAYS_NULL`], or the options of a
/// TOAST table, because no table has a TOAST table. (psql and pg_dump use the alias `tc` for TOAST
/// tables.)
fn is_always_null(expr: &Expr) -> bool {
    if let Expr::CompoundIdentifier(parts) = expr
        && let [table, column] = parts.as_slice()
        && (table.value.as_str(), column.value.as_str()) == ("tc", "reloptions")
    {
        return true;
    }
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    name.is_some_and(|name| ALWAYS_NULL.contains(&name.value.as_str()))
}

/// True if a SELECT never has rows.
fn never_has_rows(select: &Select) -> bool {
    let may_aggregate = !is_grouped(select)
        && (select.having.is_some() || select.projection.iter().any(is_aggregate));
    let of_nothing = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            matches!(expr, Expr::Function(function) if unnests_null(function))
        }
        _ => false,
    });
    !may_aggregate
        && (of_nothing || select.from.iter().any(joins_empty) || reads_other_constraints(select))
}

/// True if a SELECT reads only constraints of kinds that do not exist; only primary keys exist.
fn reads_other_constraints(select: &Select) -> bool {
    let factors = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    let mut tables = factors.filter_map(table_name).filter_map(system_name);
    let reads = tables.any(|table| table == ("pg_catalog", "pg_constraint"));
    reads && select.selection.as_ref().is_some_and(wants_another_kind)
}

fn wants_another_kind(condition: &Expr) -> bool {
    match condition {
        Expr::Nested(inner) => wants_another_kind(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            wants_another_kind(left) || wants_another_kind(right)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            let column = match left.as_ref() {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(parts) => parts.last(),
                _ => None,
            };
            let kind = match right.as_ref() {
                Expr::Cast { expr, .. } => build::string_of(expr),
                other => build::string_of(other),
            };
            column.is_some_and(|name| name.value == "contype")
                && kind.is_some_and(|kind| kind != "p")
        }
        _ => false,
    }
}

/// Functions that return one row per element of their argument.
const ELEMENTS: [&str; 3] = ["aclexplode", "pg_options_to_table", "unnest"];

/// True if a call returns no rows, because it returns the elements of a value that is always NULL.
fn unnests_null(function: &Function) -> bool {
    let named = function.name.0.last().and_then(|part| part.as_ident());
    let FunctionArguments::List(list) = &function.args else { return false };
    match (named, list.args.as_slice()) {
        (Some(name), [FunctionArg::Unnamed(FunctionArgExpr::Expr(only))]) => {
            ELEMENTS.contains(&name.value.to_ascii_lowercase().as_str()) && is_always_null(only)
        }
        _ => false,
    }
}

/// The single argument of `unnest`, or of a similar function, in a FROM clause; `None` for other
/// calls.
fn unnest_argument(factor: &TableFactor) -> Option<&Expr> {
    let (name, args) = match factor {
        TableFactor::Table { name, args: Some(args), .. } => (name, args.args.as_slice()),
        TableFactor::Function { name, args, .. } => (name, args.as_slice()),
        TableFactor::UNNEST { array_exprs, .. } => return array_exprs.first(),
        _ => return None,
    };
    let name = name.0.last()?.as_ident()?.value.to_ascii_lowercase();
    let is_unnest = ELEMENTS.contains(&name.as_str());
    match args {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(only))] if is_unnest => Some(only),
        _ => None,
    }
}

fn joins_empty(from: &TableWithJoins) -> bool {
    let mut empty = is_empty(&from.relation);
    for join in &from.joins {
        let other = is_empty(&join.relation);
        empty = match join.join_operator {
            JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_) => {
                empty || other
            }
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => empty,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => other,
            JoinOperator::FullOuter(_) => empty && other,
            _ => return false,
        };
    }
    empty
}

static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let known = SessionStateDefaults::default_aggregate_functions();
    let known = known.iter().flat_map(|function| {
        std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str))
    });
    let own = ["every", "first", "json_agg", "jsonb_agg", "last", "mode", "percentile_disc"];
    known.chain(own).map(str::to_string).collect()
});

/// True if the item of a select list contains an aggregate function.
pub(super) fn is_aggregate(item: &SelectItem) -> bool {
    struct Aggregates {
        depth: usize,
    }
    impl Look for Aggregates {
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let over = matches!(expr, Expr::Function(Function { over: Some(_), .. }));
            match called(expr) {
                Some(name) if self.depth == 0 && !over && AGGREGATES.contains(&name) => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk::look(item, &mut Aggregates { depth: 0 }).is_break()
}

/// Rewrites a SELECT if the SELECT never returns rows; returns true after a rewrite.
fn fold_select(select: &mut Select) -> bool {
    if !never_has_rows(select) || select.into.is_some() {
        return false;
    }
    if !is_grouped(select)
        && (select.having.is_some() || select.projection.iter().any(is_aggregate))
    {
        return false;
    }
    let tables: Vec<(&str, &str)> = select
        .from
        .iter()
        .flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        })
        .filter_map(table_name)
        .filter_map(system_name)
        .collect();
    let mut names: Vec<String> = Vec::new();
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
            _ => return false,
        };
        let mut alias = alias.unwrap_or_else(|| Ident::with_quote('"', result_name(expr)));
        while names.contains(&alias.value) {
            // The names of the columns must differ, so a repeated name gets spaces. No client reads
            // the second of two equally named columns by its name.
            alias.value.push(' ');
            alias.quote_style = Some('"');
        }
        names.push(alias.value.clone());
        projection.push(SelectItem::ExprWithAlias {
            expr: build::cast(build::null(), types::of(expr, &tables)),
            alias,
        });
    }
    select.projection = projection;
    select.from.clear();
    select.selection = Some(build::no());
    select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    select.having = None;
    if let Some(Distinct::On(_)) = select.distinct {
        select.distinct = None;
    }
    true
}

/// The name that PostgreSQL gives to a result column without an alias.
fn result_name(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => folded(name),
        Expr::CompoundIdentifier(parts) => {
            parts.last().map_or_else(|| "?column?".to_string(), folded)
        }
        Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident());
            last.map_or_else(|| "?column?".to_string(), folded)
        }
        Expr::Case { .. } => "case".to_string(),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => result_name(expr),
        _ => "?column?".to_string(),
    }
}

fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}
