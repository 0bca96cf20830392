//! Rewrites RIGHT and FULL joins with USING or NATURAL, which merge a column of each side into one
//! column. In PostgreSQL the merged column has the value of the side that has a row; in the planner
//! it always has the left value. The rewrite therefore writes the join with ON, and replaces the
//! names of merged columns with expressions. It rewrites other joins only if the planner reports
//! the name of a merged column as ambiguous. The first query becomes the second query:
//!
//! ```text
//!   SELECT x FROM a FULL JOIN b USING (x)
//!   SELECT coalesce(a.x, b.x) AS x FROM a FULL JOIN b ON a.x = b.x
//! ```

use std::ops::ControlFlow;

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Cte, Ident, JoinConstraint, JoinOperator, OrderBy, Query, Select, SelectItem, SetExpr,
    Statement, TableAlias, TableFactor, TableWithJoins, With,
    helpers::attached_token::AttachedToken,
};
use stratalog_model::Result;

use crate::walk::{self, Change, Look};

mod columns;
mod join;
mod scope;

pub use columns::Columns;

/// Selects the joins to rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinSelection {
    /// RIGHT and FULL joins.
    Right,
    /// Joins of every kind.
    All,
}

/// Rewrites the joins that `which` selects, and the names of their merged columns.
///
/// # Errors
/// An error in the joined tables, or in the merged names.
pub async fn write_out(
    state: &SessionState,
    statement: &mut Statement,
    which: JoinSelection,
) -> Result<()> {
    let _ = walk::change(statement, &mut NestedAliases(which));
    // Rewrites the inner selects first, so that the planning of the outer select sees the correct
    // columns.
    loop {
        let mut finder = JoinFinder::of(which);
        let _ = walk::change(statement, &mut finder);
        let Some((with, factors)) = finder.found else { return Ok(()) };
        let columns = columns::of_factors(state, with, factors).await?;
        let mut writer = JoinFinder { columns: Some(columns), ..JoinFinder::of(which) };
        let _ = walk::change(statement, &mut writer);
        writer.outcome?;
    }
}

/// True if a statement has a join that `which` selects.
pub fn mentions(statement: &Statement, which: JoinSelection) -> bool {
    struct JoinSearch(JoinSelection);
    impl Look for JoinSearch {
        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            if select.from.iter().any(|item| merges(item, self.0)) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }
    walk::look(statement, &mut JoinSearch(which)).is_break()
}

/// True if a statement has a `*` over a join with merged columns. A `*` returns the merged columns
/// before the other columns.
pub fn shows_all(statement: &Statement) -> bool {
    struct WildcardSearch;
    impl Look for WildcardSearch {
        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            let has_star =
                select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
            match has_star && select.from.iter().any(|item| merges(item, JoinSelection::All)) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    walk::look(statement, &mut WildcardSearch).is_break()
}

/// The constraint of a join, and the side that gives the value of a merged column; `None` for kinds
/// of joins without merged columns.
pub(super) fn constraint(operator: &mut JoinOperator) -> Option<(&mut JoinConstraint, MergedSide)> {
    let found = match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => (constraint, MergedSide::Left),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
            (constraint, MergedSide::Right)
        }
        JoinOperator::FullOuter(constraint) => (constraint, MergedSide::Either),
        _ => return None,
    };
    Some(found)
}

/// The side of a join that gives the value of a merged column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MergedSide {
    Left,
    Right,
    Either,
}

/// True if an item of FROM contains a join that `which` selects.
fn merges(item: &TableWithJoins, which: JoinSelection) -> bool {
    let by_itself = item.joins.iter().any(|join| match &join.join_operator {
        JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => is_merging(constraint),
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => {
            which == JoinSelection::All && is_merging(constraint)
        }
        _ => false,
    });
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => merges(table_with_joins, which),
        _ => false,
    };
    by_itself || nested(&item.relation) || item.joins.iter().any(|join| nested(&join.relation))
}

fn is_merging(constraint: &JoinConstraint) -> bool {
    matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
}

/// Rewrites a join with an alias, `(a FULL JOIN b USING (x)) AS j`, as a subquery, `(SELECT * FROM
/// a FULL JOIN b USING (x)) AS j`.
struct NestedAliases(JoinSelection);

impl Change for NestedAliases {
    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::NestedJoin { table_with_joins, alias: alias @ Some(_) } = factor
            && merges(table_with_joins, self.0)
            && let Some(mut subquery) = columns::select_all()
            && let SetExpr::Select(select) = subquery.body.as_mut()
        {
            select.from = vec![table_with_joins.as_ref().clone()];
            let (alias, subquery) = (alias.take(), Box::new(subquery));
            *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        }
        ControlFlow::Continue(())
    }
}

/// The WITH queries of a query, and the number of WITH queries that the walk has visited.
struct WithScope {
    with: Option<With>,
    visited: usize,
}

/// Finds the first select to rewrite, and stores its tables in `found`. If `columns` already has
/// the columns of these tables, rewrites the select instead.
struct JoinFinder {
    which: JoinSelection,
    frames: Vec<WithScope>,
    found: Option<(Option<With>, Vec<TableFactor>)>,
    columns: Option<Vec<Option<Columns>>>,
    outcome: Result<()>,
}

impl JoinFinder {
    fn of(which: JoinSelection) -> Self {
        Self { which, frames: Vec::new(), found: None, columns: None, outcome: Ok(()) }
    }
}

impl Change for JoinFinder {
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.frames.push(WithScope { with: query.with.clone(), visited: 0 });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        // ORDER BY can name the tables of a single select, but not the tables of a UNION.
        let alone = matches!(query.body.as_ref(), SetExpr::Select(_));
        if let Some(select) = first_select(&mut query.body, self.which) {
            let order_by = if alone { query.order_by.as_mut() } else { None };
            if let Some(columns) = self.columns.take() {
                self.outcome = rewrite(select, order_by, columns);
                return ControlFlow::Break(());
            }
            let factors = columns::factors(select);
            self.found = Some((self.visible(), factors));
            return ControlFlow::Break(());
        }
        self.frames.pop();
        if let Some(outer) = self.frames.last_mut() {
            outer.visited += 1;
        }
        ControlFlow::Continue(())
    }
}

impl JoinFinder {
    /// The WITH queries that the visited query can name.
    fn visible(&self) -> Option<With> {
        let mut ctes: Vec<Cte> = Vec::new();
        let mut recursive = false;
        for frame in &self.frames {
            let Some(with) = &frame.with else { continue };
            recursive |= with.recursive;
            let count = if with.recursive { with.cte_tables.len() } else { frame.visited };
            for cte in with.cte_tables.iter().take(count) {
                ctes.retain(|outer| outer.alias.name != cte.alias.name);
                ctes.push(cte.clone());
            }
        }
        let with_token = AttachedToken::empty();
        (!ctes.is_empty()).then_some(With { with_token, recursive, cte_tables: ctes })
    }
}

/// The first select in a query body that has a join to rewrite.
fn first_select(body: &mut SetExpr, which: JoinSelection) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => {
            select.from.iter().any(|item| merges(item, which)).then_some(&mut **select)
        }
        SetExpr::SetOperation { left, right, .. } => {
            first_select(left, which).or_else(|| first_select(right, which))
        }
        _ => None,
    }
}

fn rewrite(
    select: &mut Select,
    order_by: Option<&mut OrderBy>,
    columns: Vec<Option<Columns>>,
) -> Result<()> {
    let mut columns = columns.into_iter();
    let items = select
        .from
        .iter_mut()
        .map(|item| join::merge(item, &mut columns))
        .collect::<Result<Vec<_>>>()?;
    scope::replace(select, order_by, items)
}

/// An alias for the unnamed subquery with the number `at` in FROM.
fn unnamed(at: usize) -> TableAlias {
    let name = Ident::with_quote('"', format!("$joined{at}"));
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}
