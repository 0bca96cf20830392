//! Walks over syntax trees. The compiler instantiates a visitor for each of the hundreds of types
//! in a tree, and again in each crate that visits a tree. The module therefore has only two
//! visitors, a reading visitor and a changing visitor, and visits all trees itself ([`Tree`]). The
//! visitors call implementations of [`Look`] and [`Change`].
//!
//! A walk also breaks when the statement must stop (CL-10): a tree can have a million nodes, and a
//! statement is walked dozens of times. The guard of the session then
//! drops the half-read or half-changed tree, whatever the caller makes of the break.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Delete, Distinct, Expr, Function, FunctionArguments, GroupByExpr, NamedWindowDefinition,
    ObjectName, OrderBy, OrderByExpr, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    TableWithJoins, Values, Visit, VisitMut, Visitor, VisitorMut,
};

use crate::governor::Pace;

/// Tells the walk to continue or to break.
pub type Flow = ControlFlow<()>;

const ON: Flow = ControlFlow::Continue(());

/// Reads a tree.
pub trait Look {
    /// Called for a query, before the children.
    fn pre_visit_query(&mut self, _: &Query) -> Flow {
        ON
    }

    /// Called for a query, after the children.
    fn post_visit_query(&mut self, _: &Query) -> Flow {
        ON
    }

    /// Called for a SELECT, before the children.
    fn pre_visit_select(&mut self, _: &Select) -> Flow {
        ON
    }

    /// Called for an item of FROM, before the children.
    fn pre_visit_table_factor(&mut self, _: &TableFactor) -> Flow {
        ON
    }

    /// Called for the name of a table.
    fn pre_visit_relation(&mut self, _: &ObjectName) -> Flow {
        ON
    }

    /// Called for an expression, before the children.
    fn pre_visit_expr(&mut self, _: &Expr) -> Flow {
        ON
    }

    /// Called for an expression, after the children.
    fn post_visit_expr(&mut self, _: &Expr) -> Flow {
        ON
    }
}

/// Changes a tree.
pub trait Change {
    /// Called for a query, before the children.
    fn pre_visit_query(&mut self, _: &mut Query) -> Flow {
        ON
    }

    /// Called for a query, after the children.
    fn post_visit_query(&mut self, _: &mut Query) -> Flow {
        ON
    }

    /// Called for a SELECT, before the children.
    fn pre_visit_select(&mut self, _: &mut Select) -> Flow {
        ON
    }

    /// Called for a SELECT, after the children.
    fn post_visit_select(&mut self, _: &mut Select) -> Flow {
        ON
    }

    /// Called for an item of FROM, before the children.
    fn pre_visit_table_factor(&mut self, _: &mut TableFactor) -> Flow {
        ON
    }

    /// Called for an item of FROM, after the children.
    fn post_visit_table_factor(&mut self, _: &mut TableFactor) -> Flow {
        ON
    }

    /// Called for an expression, before the children.
    fn pre_visit_expr(&mut self, _: &mut Expr) -> Flow {
        ON
    }

    /// Called for an expression, after the children.
    fn post_visit_expr(&mut self, _: &mut Expr) -> Flow {
        ON
    }
}

/// A syntax tree, or several trees.
pub trait Tree {
    /// Reads the tree; breaks when `by` breaks.
    fn read(&self, by: &mut dyn Look, pace: &mut Pace) -> Flow;

    /// Changes the tree; breaks when `by` breaks.
    fn rewrite(&mut self, by: &mut dyn Change, pace: &mut Pace) -> Flow;
}

/// Implements [`Tree`] without generic parameters: other crates instantiate no visitor.
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

/// Reads `tree`; breaks when `by` breaks.
pub fn look(tree: &impl Tree, by: &mut dyn Look) -> Flow {
    tree.read(by, &mut Pace::default())
}

/// Changes `tree`; breaks when `by` breaks.
pub fn change(tree: &mut impl Tree, by: &mut dyn Change) -> Flow {
    tree.rewrite(by, &mut Pace::default())
}

/// Walks over the expressions of `tree`, each before the children.
pub fn expressions(tree: &impl Tree, mut each: impl FnMut(&Expr) -> Flow) -> Flow {
    look(tree, &mut Expressions { each: &mut each, depth: None })
}

/// Walks over the expressions of `tree`, each after the children.
pub fn expressions_mut(tree: &mut impl Tree, mut each: impl FnMut(&mut Expr) -> Flow) -> Flow {
    change(tree, &mut ExpressionsMut { each: &mut each, depth: None })
}

/// Like [`expressions`], but without the expressions within subqueries.
pub fn own_expressions(tree: &impl Tree, mut each: impl FnMut(&Expr) -> Flow) -> Flow {
    look(tree, &mut Expressions { each: &mut each, depth: Some(0) })
}

/// Like [`expressions_mut`], but without the expressions within subqueries.
pub fn own_expressions_mut(tree: &mut impl Tree, mut each: impl FnMut(&mut Expr) -> Flow) -> Flow {
    change(tree, &mut ExpressionsMut { each: &mut each, depth: Some(0) })
}

/// Walks over the names of tables in `tree`.
pub fn relations(tree: &impl Tree, mut each: impl FnMut(&ObjectName) -> Flow) -> Flow {
    look(tree, &mut Relations(&mut each))
}

/// Breaks when the statement must stop.
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
    /// The number of enclosing queries; `None` to visit subqueries, too.
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
    /// The number of enclosing queries; `None` to visit subqueries, too.
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
