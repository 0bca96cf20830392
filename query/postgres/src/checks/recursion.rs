//! The rules of WITH RECURSIVE: a recursive query reads itself once, and each round only adds rows.
//! A query that breaks the rules would run without end, or give a wrong result.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Function, JoinOperator, ObjectName, ObjectNamePart, Query, Select, SetExpr,
    SetOperator, TableFactor, TableWithJoins,
};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    names,
    walk::{self, Flow, Look, Tree},
};

/// Checks the recursive queries of a tree. `is_aggregate` is true for the name of an aggregate.
///
/// # Errors
/// `InvalidRecursion`, and `FeatureNotSupported` for ORDER BY and LIMIT of a recursive query.
pub fn check(tree: &Query, is_aggregate: impl Fn(&str) -> bool) -> Result<()> {
    let mut queries = Queries { is_aggregate: &is_aggregate, error: None };
    let _ = walk::look(tree, &mut queries);
    queries.error.map_or(Ok(()), Err)
}

struct Queries<'a> {
    is_aggregate: &'a dyn Fn(&str) -> bool,
    error: Option<Error>,
}

impl Look for Queries<'_> {
    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        let with = query.with.as_ref().filter(|with| with.recursive);
        for cte in with.into_iter().flat_map(|with| &with.cte_tables) {
            if let Err(error) = check_one(cte, self.is_aggregate) {
                self.error = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

fn check_one(cte: &Cte, is_aggregate: &dyn Fn(&str) -> bool) -> Result<()> {
    let name = names::fold(&cte.alias.name);
    let mut term = Term { name: &name, is_aggregate, found: 0 };
    if !term.is_read_in(&cte.query) {
        return Ok(());
    }
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = cte.query.body.as_ref()
    else {
        return Err(invalid(format!(
            "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
        )));
    };
    if term.is_read_in(left) {
        return Err(term.misplaced("within its non-recursive term"));
    }
    for (there, what) in [
        (cte.query.order_by.is_some(), "ORDER BY"),
        (cte.query.limit_clause.is_some() || cte.query.fetch.is_some(), "LIMIT"),
    ] {
        if there {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!("{what} in a recursive query is not supported"),
            )
            .with_hint("put the clause on the query that reads the recursive query"));
        }
    }
    term.check(right)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidRecursion, message)
}

/// Checks the recursive term of a WITH RECURSIVE query with the name `name`.
struct Term<'a> {
    name: &'a str,
    is_aggregate: &'a dyn Fn(&str) -> bool,
    /// The number of reads of the recursive query in FROM clauses.
    found: usize,
}

impl Term<'_> {
    fn is_name(&self, relation: &ObjectName) -> bool {
        matches!(
            relation.0.as_slice(),
            [ObjectNamePart::Identifier(ident)] if names::fold(ident) == self.name
        )
    }

    fn is_read_in(&self, tree: &impl Tree) -> bool {
        walk::relations(tree, |relation| match self.is_name(relation) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
        .is_break()
    }

    fn misplaced(&self, place: &str) -> Error {
        invalid(format!("recursive reference to query \"{}\" must not appear {place}", self.name))
    }

    fn check(&mut self, body: &SetExpr) -> Result<()> {
        match body {
            SetExpr::Select(select) => self.check_select(select),
            SetExpr::Query(query) => self.check_query(query),
            SetExpr::SetOperation { op, left, right, .. } => {
                if *op != SetOperator::Union && self.is_read_in(right) {
                    return Err(self.misplaced(&format!("within {op}")));
                }
                self.check(left)?;
                self.check(right)
            }
            other if self.is_read_in(other) => Err(self.misplaced("within a subquery")),
            _ => Ok(()),
        }
    }

    fn check_query(&mut self, query: &Query) -> Result<()> {
        let with = query.with.as_ref();
        for cte in with.into_iter().flat_map(|with| &with.cte_tables) {
            if names::fold(&cte.alias.name) == self.name {
                // An inner query with the same name hides the recursive query.
                return Ok(());
            }
            self.check_query(&cte.query)?;
        }
        self.check(&query.body)
    }

    fn check_select(&mut self, select: &Select) -> Result<()> {
        let before = self.found;
        let mut direct = false;
        for tables in &select.from {
            direct |= self.check_tables(tables)?;
        }
        if direct && self.has_aggregate(select) {
            return Err(invalid(
                "aggregate functions are not allowed in a recursive query's recursive term",
            ));
        }
        let mut reads = 0_usize;
        let _ = walk::relations(select, |relation| {
            reads += usize::from(self.is_name(relation));
            ControlFlow::Continue(())
        });
        // The reads that FROM does not contain are in subqueries of expressions.
        if reads > self.found - before {
            return Err(self.misplaced("within a subquery"));
        }
        Ok(())
    }

    /// True if the joined tables include the recursive query.
    fn check_tables(&mut self, tables: &TableWithJoins) -> Result<bool> {
        let mut direct = self.check_table(&tables.relation)?;
        let mut so_far = self.is_read_in(&tables.relation);
        for join in &tables.joins {
            let right = self.is_read_in(&join.relation);
            let lost = match &join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => right,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => so_far,
                JoinOperator::FullOuter(_) => right || so_far,
                _ => false,
            };
            if lost {
                return Err(self.misplaced("within an outer join"));
            }
            direct |= self.check_table(&join.relation)?;
            so_far |= right;
        }
        Ok(direct)
    }

    fn check_table(&mut self, table: &TableFactor) -> Result<bool> {
        match table {
            TableFactor::Table { name, .. } if self.is_name(name) => {
                self.found += 1;
                if self.found > 1 {
                    return Err(self.misplaced("more than once"));
                }
                Ok(true)
            }
            TableFactor::Derived { subquery, .. } => self.check_query(subquery).map(|()| false),
            TableFactor::NestedJoin { table_with_joins, .. } => self.check_tables(table_with_joins),
            _ => Ok(false),
        }
    }

    /// True if the SELECT contains an aggregate outside of its subqueries.
    fn has_aggregate(&self, select: &Select) -> bool {
        let calls = |expr: &Expr| {
            let Expr::Function(Function { name, over: None, .. }) = expr else {
                return ControlFlow::Continue(());
            };
            match name.0.last() {
                Some(ObjectNamePart::Identifier(name))
                    if (self.is_aggregate)(&name.value.to_lowercase()) =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        };
        walk::own_expressions(&select.projection, calls).is_break()
            || walk::own_expressions(&select.having, calls).is_break()
    }
}
