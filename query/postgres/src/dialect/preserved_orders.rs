//! Preserves the row order of subqueries if the result depends on it: the planner would drop the
//! ORDER BY.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, GroupByExpr, LimitClause, OrderByExpr, OrderByOptions, Query, Select,
    SetExpr, TableFactor, Value,
};

use crate::{
    names,
    walk::{self, Change},
};

/// A LIMIT larger than any result. A subquery with this LIMIT keeps its ORDER BY.
pub const ENDLESS: i64 = i64::MAX / 2;

/// Aggregates whose result depends on the order of the rows.
const COLLECTING: &[&str] = &["array_agg", "string_agg"];

/// Aggregates that a later rewrite turns into order-dependent aggregates.
const DOCUMENTS: &[&str] = &["jsonb_agg", "json_agg", "jsonb_object_agg", "json_object_agg"];

/// Makes the planner keep each ORDER BY that the result of a query depends on: in subqueries with
/// an OFFSET or DISTINCT, in subqueries whose rows the outer query returns in their order, and in
/// `array_agg(DISTINCT v)`. `is_aggregate` is true for the name of an aggregate.
pub fn keep(query: &mut Query, is_aggregate: impl Fn(&str) -> bool) {
    let _ = walk::change(query, &mut PreservedOrders { depth: 0, is_aggregate: &is_aggregate });
}

struct PreservedOrders<'a> {
    depth: usize,
    is_aggregate: &'a dyn Fn(&str) -> bool,
}

impl Change for PreservedOrders<'_> {
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.depth > 0 {
            let distinct = matches!(
                query.body.as_ref(),
                SetExpr::Select(select) if select.distinct.is_some()
            );
            let offset = matches!(
                query.limit_clause,
                Some(LimitClause::LimitOffset { offset: Some(_), .. })
            );
            if distinct || offset {
                make_endless(query);
            }
        }
        if query.order_by.is_none() {
            self.keep_source(query);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth = self.depth.saturating_sub(1);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        sort_distinct(expr);
        ControlFlow::Continue(())
    }
}

impl PreservedOrders<'_> {
    /// Keeps the ORDER BY of the subquery or WITH query that `query` reads, if the result of
    /// `query` depends on the row order.
    fn keep_source(&self, query: &mut Query) {
        let SetExpr::Select(select) = query.body.as_ref() else { return };
        if !self.shows_order(select) {
            return;
        }
        let SetExpr::Select(select) = query.body.as_mut() else { return };
        match select.from.first_mut().map(|from| &mut from.relation) {
            Some(TableFactor::Derived { lateral: false, subquery, .. }) => make_endless(subquery),
            Some(TableFactor::Table { name, args: None, .. }) => {
                let [part] = name.0.as_slice() else { return };
                let Some(named) = part.as_ident().map(names::fold) else { return };
                let tables = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
                tables
                    .filter(|table| names::fold(&table.alias.name) == named)
                    .for_each(|table| make_endless(&mut table.query));
            }
            _ => {}
        }
    }

    /// True if a select reads a single table, and its result depends on the row order of the table.
    fn shows_order(&self, select: &Select) -> bool {
        if !matches!(select.from.as_slice(), [from] if from.joins.is_empty()) {
            return false;
        }
        let (mut collects, mut aggregates) = (false, false);
        let _ = walk::expressions(&select.projection, |expr| {
            if let Some(name) = called_name(expr) {
                collects |= COLLECTING.contains(&name.as_str());
                aggregates |= (self.is_aggregate)(&name);
            }
            ControlFlow::Continue(())
        });
        let grouped = !matches!(
            &select.group_by,
            GroupByExpr::Expressions(groups, _) if groups.is_empty()
        );
        let passes =
            !(grouped || aggregates || select.distinct.is_some() || select.having.is_some());
        collects || passes
    }
}

/// The name of the function that an expression calls; `None` for other expressions.
fn called_name(expr: &Expr) -> Option<String> {
    let Expr::Function(call) = expr else { return None };
    call.name.0.last()?.as_ident().map(names::fold)
}

/// Adds the LIMIT [`ENDLESS`] to an ordered query without a LIMIT: the planner would drop the order
/// of a query without LIMIT.
fn make_endless(query: &mut Query) {
    if query.order_by.is_none() || query.fetch.is_some() {
        return;
    }
    let most = || Some(Expr::value(Value::Number(ENDLESS.to_string(), false)));
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = most(),
        clause @ None => {
            let (offset, limit_by) = (None, Vec::new());
            *clause = Some(LimitClause::LimitOffset { limit: most(), offset, limit_by });
        }
        Some(_) => {}
    }
}

/// Rewrites `array_agg(DISTINCT v)` to `array_agg(DISTINCT v ORDER BY v)`. Does the same for
/// aggregates that build a JSON document, before a later rewrite turns their elements into text:
/// text would sort in another order.
fn sort_distinct(expr: &mut Expr) {
    let Expr::Function(call) = expr else { return };
    let [part] = call.name.0.as_slice() else { return };
    let collects = part.as_ident().map(names::fold).is_some_and(|name| {
        COLLECTING.contains(&name.as_str()) || DOCUMENTS.contains(&name.as_str())
    });
    let FunctionArguments::List(list) = &mut call.args else { return };
    if !collects || list.duplicate_treatment != Some(DuplicateTreatment::Distinct) {
        return;
    }
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first() else {
        return;
    };
    // An ORDER BY of a constant sorts nothing, and a number in it would mean a position.
    if list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)))
        || is_constant(first)
    {
        return;
    }
    let options = OrderByOptions { asc: None, nulls_first: None };
    let by = OrderByExpr { expr: first.clone(), options, with_fill: None };
    list.clauses.push(FunctionArgumentClause::OrderBy(vec![by]));
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::Nested(inner)
        | Expr::UnaryOp { expr: inner, .. }
        | Expr::Cast { expr: inner, .. } => is_constant(inner),
        _ => false,
    }
}
