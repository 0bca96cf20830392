//! Walks over the syntax trees of statements.
//!
//! The compiler instantiates a visitor for each of the hundreds of types in a tree, and again in
//! each crate that visits a tree. To reduce the code, this module has only two visitors, a reading
//! visitor and a changing visitor, and visits all trees itself ([`Tree`]). The visitors call
//! implementations of [`Look`] and [`Change`].
//!
//! A walk also breaks when the statement must stop (CL-10), because a tree can have a million
//! nodes, and a statement is walked dozens of times. A broken walk leaves a tree half read or half
//! changed. The session then drops the tree, even if the caller ignores the break.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Delete, Distinct, Expr, Function, FunctionArguments, GroupByExpr, NamedWindowDefinition,
    ObjectName, OrderBy, OrderByExpr, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    TableWithJoins, Values, Visit, VisitMut, Visitor, VisitorMut,
};

use crate::governor::Pace;

/// The result of a step of a walk: whether the walk continues or breaks.
pub type Flow = ControlFlow<()>;

const ON: Flow = ControlFlow::Continue(());

/// Receives the nodes of a tree that a walk reads. Every method may end the walk.
pub trait Look {
    /// Called for each query, before its children.
    fn pre_visit_query(&mut self, _: &Query) -> Flow {
        ON
    }

    /// Called for each query, after its children.
    fn post_visit_query(&mut self, _: &Query) -> Flow {
        ON
    }

    /// Called for each SELECT, before its children.
    fn pre_visit_select(&mut self, _: &Select) -> Flow {
        ON
    }

    /// Called for each item of a FROM clause, before its children.
    fn pre_visit_table_factor(&mut self, _: &TableFactor) -> Flow {
        ON
    }

    /// Called for each name of a table.
    fn pre_visit_relation(&mut self, _: &ObjectName) -> Flow {
        ON
    }

    /// Called for each expression, before its children.
    fn pre_visit_expr(&mut self, _: &Expr) -> Flow {
        ON
    }

    /// Called for each expression, after its children.
    fn post_visit_expr(&mut self, _: &Expr) -> Flow {
        ON
    }
}

/// Receives the nodes of a tree that a walk changes. Every method may end the walk.
pub trait Change {
    /// Called for each query, before its children.
    fn pre_visit_query(&mut self, _: &mut Query) -> Flow {
        ON
    }

    /// Called for each query, after its children.
    fn post_visit_query(&mut self, _: &mut Query) -> Flow {
        ON
    }

    /// Called for each SELECT, before its children.
    fn pre_visit_select(&mut self, _: &mut Select) -> Flow {
        ON
    }

    /// Called for each SELECT, after its children.
    fn post_visit_select(&mut self, _: &mut Select) -> Flow {
        ON
    }

    /// Called for each item of a FROM clause, before its children.
    fn pre_visit_table_factor(&mut self, _: &mut TableFactor) -> Flow {
        ON
    }

    /// Called for each item of a FROM clause, after its children.
    fn post_visit_table_factor(&mut self, _: &mut TableFactor) -> Flow {
        ON
    }

    /// Called for each expression, before its children.
    fn pre_visit_expr(&mut self, _: &mut Expr) -> Flow {
        ON
    }

    /// Called for each expression, after its children.
    fn post_visit_expr(&mut self, _: &mut Expr) -> Flow {
        ON
    }
}

/// A syntax tree, or a list of trees, over which a walk is possible.
pub trait Tree {
    /// Passes the nodes of the tree to `by`. Breaks when `by` breaks, or when the statement must
    /// stop.
    fn read(&self, by: &mut dyn Look, pace: &mut Pace) -> Flow;

    /// Passes the nodes of the tree to `by` for changes. Breaks when `by` breaks, or when the
    /// statement must stop.
    fn rewrite(&mut self, by: &mut dyn Change, pace: &mut Pace) -> Flow;
}

/// Implements [`Tree`] for concrete types. Without generic parameters, other crates instantiate no
/// visitor.
macro_rules! trees {
    ($($tree:ty),* $(,)?) => { $(
        impl Tree for $tree {
            fn read(&self, by: &mut dyn Look, pace: &mut Pace) -> Flow {
                self.visit(&mut ReadingVisitor { by, pace })
            }

            fn rewrite(&mut self, by: &mut dyn Change, pace: &mut Pace) -> Flow {
                VisitMut::visit(self, &mut ChangingVisitor { by, pace })
            }
        }
    )* };
}

trees!(
    Statement,
    Delete,
    Query,
    Select,
    SelectItem,
    SetExpr,
    Distinct,
    GroupByExpr,
    Expr,
    Function,
    FunctionArguments,
    NamedWindowDefinition,
    OrderBy,
    OrderByExpr,
    TableFactor,
    TableWithJoins,
    Values,
);

impl<T: Tree> Tree for Vec<T> {
    fn read(&self, by: &mut dyn Look, pace: &mut Pace) -> Flow {
        self.iter().try_for_each(|tree| tree.read(by, pace))
    }

    fn rewrite(&mut self, by: &mut dyn Change, pace: &mut Pace) -> Flow {
        self.iter_mut().try_for_each(|tree| tree.rewrite(by, pace))
    }
}

impl<T: Tree> Tree for Option<T> {
    fn read(&self, by: &mut dyn Look, pace: &mut Pace) -> Flow {
        self.iter().try_for_each(|tree| tree.read(by, pace))
    }

    fn rewrite(&mut self, by: &mut dyn Change, pace: &mut Pace) -> Flow {
        self.iter_mut().try_for_each(|tree| tree.rewrite(by, pace))
    }
}

impl<T: Tree> Tree for Box<T> {
    fn read(&self, by: &mut dyn Look, pace: &mut Pace) -> Flow {
        self.as_ref().read(by, pace)
    }

    fn rewrite(&mut self, by: &mut dyn Change, pace: &mut Pace) -> Flow {
        self.as_mut().rewrite(by, pace)
    }
}

/// Passes the nodes of `tree` to `by`. Breaks when `by` breaks, or when the statement must stop.
pub fn look(tree: &impl Tree, by: &mut dyn Look) -> Flow {
    tree.read(by, &mut Pace::default())
}

/// Passes the nodes of `tree` to `by` for changes. Breaks when `by` breaks, or when the statement
/// must stop.
pub fn change(tree: &mut impl Tree, by: &mut dyn Change) -> Flow {
    tree.rewrite(by, &mut Pace::default())
}

/// Calls `each` for every expression of `tree`, including subqueries. An expression comes before
/// its children.
pub fn expressions(tree: &impl Tree, mut each: impl FnMut(&Expr) -> Flow) -> Flow {
    look(tree, &mut Expressions { each: &mut each, depth: None })
}

/// Calls `each` for every expression of `tree`, including subqueries. An expression comes after its
/// children.
pub fn expressions_mut(tree: &mut impl Tree, mut each: impl FnMut(&mut Expr) -> Flow) -> Flow {
    change(tree, &mut ExpressionsMut { each: &mut each, depth: None })
}

/// Like [`expressions`], but without expressions inside subqueries.
pub fn own_expressions(tree: &impl Tree, mut each: impl FnMut(&Expr) -> Flow) -> Flow {
    look(tree, &mut Expressions { each: &mut each, depth: Some(0) })
}

/// Like [`expressions_mut`], but without expressions inside subqueries.
pub fn own_expressions_mut(tree: &mut impl Tree, mut each: impl FnMut(&mut Expr) -> Flow) -> Flow {
    change(tree, &mut ExpressionsMut { each: &mut each, depth: Some(0) })
}

/// Calls `each` for every name of a table in `tree`.
pub fn relations(tree: &impl Tree, mut each: impl FnMut(&ObjectName) -> Flow) -> Flow {
    look(tree, &mut Relations(&mut each))
}

/// Counts a step of a walk; breaks the walk when the statement must stop.
fn on(pace: &mut Pace) -> Flow {
    match pace.step() {
        Ok(()) => ON,
        Err(_) => ControlFlow::Break(()),
    }
}

struct ReadingVisitor<'a> {
    by: &'a mut dyn Look,
    pace: &'a mut Pace,
}

impl Visitor for ReadingVisitor<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        self.by.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &Query) -> Flow {
        self.by.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        self.by.pre_visit_select(select)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        self.by.pre_visit_table_factor(factor)
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> Flow {
        self.by.pre_visit_relation(relation)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        on(self.pace)?;
        self.by.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> Flow {
        self.by.post_visit_expr(expr)
    }
}

struct ChangingVisitor<'a> {
    by: &'a mut dyn Change,
    pace: &'a mut Pace,
}

impl VisitorMut for ChangingVisitor<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        self.by.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> Flow {
        self.by.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        self.by.pre_visit_select(select)
    }

    fn post_visit_select(&mut self, select: &mut Select) -> Flow {
        self.by.post_visit_select(select)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        self.by.pre_visit_table_factor(factor)
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        self.by.post_visit_table_factor(factor)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        on(self.pace)?;
        self.by.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        self.by.post_visit_expr(expr)
    }
}

struct Expressions<'a> {
    each: &'a mut dyn FnMut(&Expr) -> Flow,
    /// The number of enclosing queries of the current node; `None` if the walk also visits
    /// subqueries.
    depth: Option<usize>,
}

impl Look for Expressions<'_> {
    fn pre_visit_query(&mut self, _: &Query) -> Flow {
        self.depth = self.depth.map(|depth| depth + 1);
        ON
    }

    fn post_visit_query(&mut self, _: &Query) -> Flow {
        self.depth = self.depth.map(|depth| depth - 1);
        ON
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        if self.depth.is_some_and(|depth| depth > 0) { ON } else { (self.each)(expr) }
    }
}

struct ExpressionsMut<'a> {
    each: &'a mut dyn FnMut(&mut Expr) -> Flow,
    /// The number of enclosing queries of the current node; `None` if the walk also visits
    /// subqueries.
    depth: Option<usize>,
}

impl Change for ExpressionsMut<'_> {
    fn pre_visit_query(&mut self, _: &mut Query) -> Flow {
        self.depth = self.depth.map(|depth| depth + 1);
        ON
    }

    fn post_visit_query(&mut self, _: &mut Query) -> Flow {
        self.depth = self.depth.map(|depth| depth - 1);
        ON
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        if self.depth.is_some_and(|depth| depth > 0) { ON } else { (self.each)(expr) }
    }
}

struct Relations<'a>(&'a mut dyn FnMut(&ObjectName) -> Flow);

impl Look for Relations<'_> {
    fn pre_visit_relation(&mut self, relation: &ObjectName) -> Flow {
        (self.0)(relation)
    }
}
