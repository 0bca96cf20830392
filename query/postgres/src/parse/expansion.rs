//! Limits expressions whose plan grows exponentially with each level of nesting.
//!
//! DataFusion writes some operands twice: `coalesce(a, b)` becomes `CASE WHEN a IS NOT NULL THEN a
//! ELSE b END`. DataFusion also asks some operands for their types more than once. The copies
//! multiply from level to level: a short text could need more memory or time than the machine has.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Function};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    names,
    walk::{self, Flow, Look, Tree},
};

/// Maximum number of copies of one operand in a plan, as a logarithm to base 2.
const DOUBLINGS_MAX: f32 = 13.0;

/// Maximum length of an IN list that the planner turns into comparisons, each with a copy of the
/// operand.
const SHORT_LIST: usize = 3;

/// Refuses a tree in which planning would copy an operand too often.
///
/// # Errors
/// `StatementTooComplex`.
pub(super) fn check(tree: &impl Tree) -> Result<()> {
    let mut doublings = Doublings { here: 0.0 };
    match walk::look(tree, &mut doublings) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::new(
            ErrorKind::StatementTooComplex,
            "the statement nests expressions too deeply: planning would copy their operands too often",
        )
        .with_detail(format!(
            "the copies multiply from level to level, up to {} of one operand: coalesce, BETWEEN and the cast of a comparison double the copies, a short IN list makes one copy for each item",
            1_u32 << DOUBLINGS_MAX as u32
        ))
        .with_hint("compute the inner expression in a subquery in FROM, under a name")),
    }
}

struct Doublings {
    /// The number of copies of the visited expression, as a logarithm to base 2.
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

/// How often planning doubles the operands of `expr`: the logarithm to base 2 of the measured
/// number of copies.
fn doublings(expr: &Expr) -> f32 {
    match expr {
        Expr::Function(Function { name, .. }) => {
            match name.0.last().and_then(|part| part.as_ident()) {
                Some(ident) if names::fold(ident) == "coalesce" => 1.0,
                _ => 0.0,
            }
        }
        // The comparison of a row copies all columns except the last.
        Expr::Between { expr, .. } if is_row(expr) => 2.0,
        Expr::Between { .. } => 1.0,
        Expr::BinaryOp { left, .. } if is_row(left) => 1.0,
        Expr::InList { expr, list, .. } if is_row(expr) => (list.len() as f32).log2().max(1.6),
        Expr::InList { list, .. } if list.len() <= SHORT_LIST => 1.6,
        Expr::Cast { expr, .. } if is_comparison(expr) => 1.0,
        _ => 0.0,
    }
}

fn is_row(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_row(inner),
        Expr::Tuple(_) => true,
        Expr::Function(Function { name, .. }) => name.to_string().eq_ignore_ascii_case("row"),
        _ => false,
    }
}

/// True if `expr` is a comparison. The physical plan asks the cast of a comparison for its type and
/// for its nullability; each question visits the operands.
fn is_comparison(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_comparison(inner),
        Expr::BinaryOp { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
