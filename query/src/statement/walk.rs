//! Walks over syntax trees. A visitor is compiled anew for each type that a tree may hold,
//! and there are hundreds: so there are two here, one that looks and one that changes, which
//! call those that have something to say.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};

/// Whether a walk goes on.
pub type Flow = ControlFlow<()>;

const ON: Flow = ControlFlow::Continue(());

/// Looks at a tree.
pub trait Look {
    /// At a query, before what is inside.
    fn pre_visit_query(&mut self, _: &Query) -> Flow {
        ON
    }

    /// At a query, after what is inside.
    fn post_visit_query(&mut self, _: &Query) -> Flow {
        ON
    }

    /// At a SELECT, before what is inside.
    fn pre_visit_select(&mut self, _: &Select) -> Flow {
        ON
    }

    /// At an item of FROM, before what is inside.
    fn pre_visit_table_factor(&mut self, _: &TableFactor) -> Flow {
        ON
    }

    /// At the name of a table.
    fn pre_visit_relation(&mut self, _: &ObjectName) -> Flow {
        ON
    }

    /// At an expression, before what is inside.
    fn pre_visit_expr(&mut self, _: &Expr) -> Flow {
        ON
    }

    /// At an expression, after what is inside.
    fn post_visit_expr(&mut self, _: &Expr) -> Flow {
        ON
    }
}

/// Changes a tree.
pub trait Change {
    /// A query, before what is inside.
    fn pre_visit_query(&mut self, _: &mut Query) -> Flow {
        ON
    }

    /// A query, after what is inside.
    fn post_visit_query(&mut self, _: &mut Query) -> Flow {
        ON
    }

    /// A SELECT, before what is inside.
    fn pre_visit_select(&mut self, _: &mut Select) -> Flow {
        ON
    }

    /// A SELECT, after what is inside.
    fn post_visit_select(&mut self, _: &mut Select) -> Flow {
        ON
    }

    /// An item of FROM, before what is inside.
    fn pre_visit_table_factor(&mut self, _: &mut TableFactor) -> Flow {
        ON
    }

    /// An item of FROM, after what is inside.
    fn post_visit_table_factor(&mut self, _: &mut TableFactor) -> Flow {
        ON
    }

    /// An expression, before what is inside.
    fn pre_visit_expr(&mut self, _: &mut Expr) -> Flow {
        ON
    }

    /// An expression, after what is inside.
    fn post_visit_expr(&mut self, _: &mut Expr) -> Flow {
        ON
    }
}

/// Walks over `tree`; breaks when `by` does.
pub fn look(tree: &impl Visit, by: &mut dyn Look) -> Flow {
    tree.visit(&mut Looking(by))
}

/// Walks over `tree`; breaks when `by` does.
pub fn change(tree: &mut impl VisitMut, by: &mut dyn Change) -> Flow {
    tree.visit(&mut Changing(by))
}

/// Walks over the expressions of `tree`, each before what is inside.
pub fn expressions(tree: &impl Visit, mut each: impl FnMut(&Expr) -> Flow) -> Flow {
    look(tree, &mut Expressions { each: &mut each, depth: None })
}

/// Walks over the expressions of `tree`, each after what is inside.
pub fn expressions_mut(tree: &mut impl VisitMut, mut each: impl FnMut(&mut Expr) -> Flow) -> Flow {
    change(tree, &mut ExpressionsMut { each: &mut each, depth: None })
}

/// As [`expressions`], but those within subqueries.
pub fn own_expressions(tree: &impl Visit, mut each: impl FnMut(&Expr) -> Flow) -> Flow {
    look(tree, &mut Expressions { each: &mut each, depth: Some(0) })
}

/// As [`expressions_mut`], but those within subqueries.
pub fn own_expressions_mut(
    tree: &mut impl VisitMut,
    mut each: impl FnMut(&mut Expr) -> Flow,
) -> Flow {
    change(tree, &mut ExpressionsMut { each: &mut each, depth: Some(0) })
}

/// Walks over the names of tables in `tree`.
pub fn relations(tree: &impl Visit, mut each: impl FnMut(&ObjectName) -> Flow) -> Flow {
    look(tree, &mut Relations(&mut each))
}

struct Looking<'a>(&'a mut dyn Look);

impl Visitor for Looking<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &Query) -> Flow {
        self.0.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        self.0.pre_visit_select(select)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        self.0.pre_visit_table_factor(factor)
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> Flow {
        self.0.pre_visit_relation(relation)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        self.0.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> Flow {
        self.0.post_visit_expr(expr)
    }
}

struct Changing<'a>(&'a mut dyn Change);

impl VisitorMut for Changing<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> Flow {
        self.0.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        self.0.pre_visit_select(select)
    }

    fn post_visit_select(&mut self, select: &mut Select) -> Flow {
        self.0.post_visit_select(select)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        self.0.pre_visit_table_factor(factor)
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        self.0.post_visit_table_factor(factor)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        self.0.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        self.0.post_visit_expr(expr)
    }
}

struct Expressions<'a> {
    each: &'a mut dyn FnMut(&Expr) -> Flow,
    /// Queries around, where it matters.
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
    /// Queries around, where it matters.
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
