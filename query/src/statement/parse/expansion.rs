//! Expressions whose plan grows with each level of nesting.
//!
//! DataFusion writes some operands twice: `coalesce(a, b)` becomes `CASE WHEN a IS NOT NULL THEN a
//! ELSE b END`. It also asks an operand for its type more than once, and checks a subquery in an
//! expression once for each level around it and once by itself. Such levels within each other
//! multiply, so a short text could need more memory or time than the machine has.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Function, Visit};
use stratalog_model::{Error, ErrorKind, Result};

use crate::statement::{
    names,
    walk::{self, Flow, Look},
};

/// The logarithm to base 2 of the copies of one operand, at most.
const DOUBLINGS_MAX: f32 = 13.0;

/// Lists up to this length become comparisons, each with a copy of the operand.
const SHORT_LIST: usize = 3;

/// Refuses a tree with an operand that planning would copy too often.
///
/// # Errors
/// `StatementTooComplex`.
pub(super) fn check(tree: &impl Visit) -> Result<()> {
    let mut doublings = Doublings { here: 0.0 };
    match walk::look(tree, &mut doublings) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::new(
            ErrorKind::StatementTooComplex,
            "the statement nests calls too deeply: planning would copy their arguments too often",
        )
        .with_detail(format!(
            "the copies multiply from level to level, up to {} of one argument: coalesce, \
             BETWEEN and subqueries in expressions double them, a short IN list makes one for each item, LIKE makes three, two \
             calls of other functions double them",
            1_u32 << DOUBLINGS_MAX as u32
        ))
        .with_hint("compute the inner expression in a subquery in FROM, under a name")),
    }
}

struct Doublings {
    /// The copies of the expression that the walk has reached, as a logarithm.
    here: f32,
}

impl Look for Doublings {
    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        self.here += doublings(expr);
        match self.here > DOUBLINGS_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> Flow {
        self.here -= doublings(expr);
        ControlFlow::Continue(())
    }
}

/// How often planning doubles the operands of `expr`, as measured.
fn doublings(expr: &Expr) -> f32 {
    match expr {
        Expr::Function(Function { name, .. }) => {
            match name.0.last().and_then(|part| part.as_ident()) {
                Some(ident) if names::fold(ident) == "coalesce" => 1.0,
                _ => 0.5,
            }
        }
        Expr::Substring { .. }
        | Expr::Trim { .. }
        | Expr::Position { .. }
        | Expr::Overlay { .. } => 0.5,
        Expr::Between { .. }
        | Expr::Subquery(_)
        | Expr::InSubquery { .. }
        | Expr::Exists { .. } => 1.0,
        Expr::InList { list, .. } if list.len() <= SHORT_LIST => 1.6,
        Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } => 1.6,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests;
