//! Rewrites `count(t.*)`, which counts the rows of a table. The count excludes the rows of NULLs
//! that an outer join adds for missing partners; DataFusion would count these rows too.

use std::{collections::HashSet, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinOperator, ObjectName, Query,
    Select, SetExpr, TableFactor, TableWithJoins,
};
use stratalog_model::{Error, Result};

use super::{NameResolver, fold, parts};
use crate::walk::{self, Change, Flow, Look, Tree};

/// Rewrites `count(t.*)` as a count of a column that is never NULL.
///
/// # Errors
/// `FeatureNotSupported` if the nullable side of an outer join is not a table.
pub fn count_rows(query: &mut Query, resolver: &dyn NameResolver) -> Result<()> {
    let mut mentions = false;
    let _ = walk::expressions(&*query, |expr| {
        mentions = counts(expr).is_some();
        if mentions { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if !mentions {
        return Ok(());
    }
    let mut ctes = Ctes::default();
    let _ = walk::look(&*query, &mut ctes);
    let mut counter = Counter { resolver, ctes: ctes.0, error: None };
    let _ = walk::change(query, &mut counter);
    counter.error.map_or(Ok(()), Err)
}

/// The names of WITH queries.
#[derive(Default)]
struct Ctes(HashSet<String>);

impl Look for Ctes {
    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(ctes.map(|cte| fold(&cte.alias.name)));
        ControlFlow::Continue(())
    }
}

/// The table name in `count(t.*)`; `None` for other expressions.
fn counts(expr: &Expr) -> Option<&ObjectName> {
    let Expr::Function(call) = expr else { return None };
    let called = call.name.0.last().and_then(|part| part.as_ident()).map(fold)?;
    let FunctionArguments::List(list) = &call.args else { return None };
    if list.duplicate_treatment.is_some() {
        return None;
    }
    match (called.as_str(), list.args.as_slice()) {
        ("count", [FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name))]) => Some(name),
        _ => None,
    }
}

/// A table in FROM.
struct Entry {
    name: String,
    /// True if an outer join may add rows with NULL in every column of the table.
    nullable: bool,
    /// A column of the table that is never NULL in stored rows; `None` if no such column is known.
    present: Option<String>,
}

struct Counter<'a> {
    resolver: &'a dyn NameResolver,
    ctes: HashSet<String>,
    error: Option<Error>,
}

impl Change for Counter<'_> {
    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        let SetExpr::Select(select) = query.body.as_ref() else {
            return ControlFlow::Continue(());
        };
        let entries = self.entries(&select.from);
        self.write(&mut query.order_by, &entries)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        let entries = self.entries(&select.from);
        self.write(&mut select.projection, &entries)?;
        self.write(&mut select.having, &entries)
    }
}

impl Counter<'_> {
    fn entries(&self, from: &[TableWithJoins]) -> Vec<Entry> {
        let mut found = Vec::new();
        for item in from {
            self.item(item, &mut found);
        }
        found
    }

    fn item(&self, item: &TableWithJoins, found: &mut Vec<Entry>) {
        let first = found.len();
        self.factor(&item.relation, found);
        for join in &item.joins {
            let right = found.len();
            self.factor(&join.relation, found);
            let (of_left, of_right) = match &join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
                JoinOperator::FullOuter(_) => (true, true),
                _ => (false, false),
            };
            for (at, entry) in found.iter_mut().enumerate().skip(first) {
                entry.nullable |= if at < right { of_left } else { of_right };
            }
        }
    }

    fn factor(&self, factor: &TableFactor, found: &mut Vec<Entry>) {
        let (alias, table) = match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                return self.item(table_with_joins, found);
            }
            TableFactor::Table { name, alias, args: None, .. } => (alias, parts(name).ok()),
            TableFactor::Table { name, alias, .. } => {
                let name = parts(name).ok().and_then(|parts| parts.last().cloned());
                let name = alias.as_ref().map(|alias| fold(&alias.name)).or(name);
                found.extend(name.map(|name| Entry { name, nullable: false, present: None }));
                return;
            }
            TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => (alias, None),
            _ => return,
        };
        let name = match alias {
            Some(alias) => Some(fold(&alias.name)),
            None => table.as_ref().and_then(|parts| parts.last().cloned()),
        };
        let is_cte = |parts: &[String]| matches!(parts, [name] if self.ctes.contains(name));
        let table = table.filter(|parts| !is_cte(parts));
        let present = table.and_then(|parts| self.resolver.tick_column(&parts));
        found.extend(name.map(|name| Entry { name, nullable: false, present }));
    }

    fn write(&mut self, tree: &mut impl Tree, entries: &[Entry]) -> Flow {
        walk::own_expressions_mut(tree, |expr| {
            let Some(name) = counts(expr) else { return ControlFlow::Continue(()) };
            let Some(named) = parts(name).ok().and_then(|parts| parts.last().cloned()) else {
                return ControlFlow::Continue(());
            };
            let Some(entry) = entries.iter().find(|entry| entry.name == named) else {
                return ControlFlow::Continue(());
            };
            let argument = match (entry.nullable, &entry.present) {
                (false, _) => FunctionArgExpr::Wildcard,
                (true, Some(column)) => FunctionArgExpr::Expr(Expr::CompoundIdentifier(vec![
                    Ident::with_quote('"', &entry.name),
                    Ident::with_quote('"', column),
                ])),
                (true, None) => {
                    let message = format!("count({named}.*) of the outer side of a join");
                    self.error = Some(Error::not_yet(message).with_hint("count a NOT NULL column"));
                    return ControlFlow::Break(());
                }
            };
            if let Expr::Function(call) = expr
                && let FunctionArguments::List(list) = &mut call.args
            {
                list.args = vec![FunctionArg::Unnamed(argument)];
            }
            ControlFlow::Continue(())
        })
    }
}
