//! EXISTS and IN conditions in the arguments of functions. The planner names every such condition
//! `EXISTS` or `IN`; two aggregates of such conditions would have the same name:
//!
//! ```text
//!   SELECT every(EXISTS (a)), every(EXISTS (b))  ─►  SELECT every(EXISTS (a)), every((EXISTS (b) AND 1 = 1))
//! ```
//!
//! The planner drops the constant part of the condition later.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, OrderBy, Select, SelectItem, Value,
};

use crate::{
    names::name_of_item,
    walk::{self, Tree},
};

/// Gives distinct names to the EXISTS and IN conditions of a SELECT. The first condition keeps the
/// planner's name, and equal conditions share one name.
pub fn tell_apart(select: &mut Select, order_by: Option<&mut OrderBy>) {
    let mut conditions = SubqueryConditions::default();
    for item in &select.projection {
        conditions.collect(item);
    }
    conditions.collect(&select.having);
    if conditions.texts.len() < 2 || conditions.are_apart {
        return;
    }
    for item in &mut select.projection {
        let name = name_of_item(item);
        let changed = conditions.number(item);
        if let (true, SelectItem::UnnamedExpr(expr)) = (changed, &*item) {
            let alias = Ident::with_quote('"', name);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
    conditions.number(&mut select.having);
    if let Some(order_by) = order_by {
        conditions.number(order_by);
    }
}

/// The texts of the different EXISTS and IN conditions of a SELECT, in the order of the statement.
#[derive(Default)]
struct SubqueryConditions {
    texts: Vec<String>,
    /// True if an earlier call has already made the names distinct.
    are_apart: bool,
}

impl SubqueryConditions {
    fn collect(&mut self, tree: &impl Tree) {
        let _ = walk::own_expressions(tree, |expr| {
            if let Expr::Function(call) = expr {
                let _ = walk::own_expressions(&call.args, |expr| {
                    self.are_apart |= is_numbered(expr);
                    if is_condition(expr) {
                        let text = expr.to_string();
                        if !self.texts.contains(&text) {
                            self.texts.push(text);
                        }
                    }
                    ControlFlow::Continue(())
                });
            }
            ControlFlow::Continue(())
        });
    }

    /// Adds `AND number = number` to each condition in `tree`, except to equals of the first
    /// condition. Returns true if a condition changed.
    fn number(&self, tree: &mut impl Tree) -> bool {
        let mut changed = false;
        let _ = walk::own_expressions_mut(tree, |expr| {
            let text = is_condition(expr).then(|| expr.to_string());
            let at = text.and_then(|text| self.texts.iter().position(|known| *known == text));
            if let Some(number) = at.filter(|number| *number > 0) {
                *expr = numbered(std::mem::replace(expr, constant(0)), number);
                changed = true;
            }
            ControlFlow::Continue(())
        });
        changed
    }
}

fn is_condition(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists { .. } | Expr::InSubquery { .. })
}

/// Builds `(condition AND number = number)`.
fn numbered(condition: Expr, number: usize) -> Expr {
    let truth = binary(constant(number), BinaryOperator::Eq, constant(number));
    Expr::Nested(Box::new(binary(condition, BinaryOperator::And, truth)))
}

fn is_numbered(expr: &Expr) -> bool {
    let Expr::BinaryOp { left, op: BinaryOperator::And, right } = expr else { return false };
    is_condition(left)
        && matches!(right.as_ref(), Expr::BinaryOp { left, op: BinaryOperator::Eq, right }
            if left == right && matches!(left.as_ref(), Expr::Value(_)))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn constant(number: usize) -> Expr {
    Expr::Value(Value::Number(number.to_string(), false).into())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};

    use super::*;
    use crate::parse;

    #[test]
    fn conditions_have_distinct_names() {
        for (sql, wanted) in [
            (
                "SELECT every(EXISTS (SELECT 1)), every(EXISTS (SELECT 2)) FROM t",
                "SELECT every(EXISTS (SELECT 1)), every((EXISTS (SELECT 2) AND 1 = 1)) AS \"every\" FROM t",
            ),
            (
                "SELECT count(a IN (SELECT 1)) FROM t HAVING every(EXISTS (SELECT 2)) ORDER BY every(EXISTS (SELECT 2))",
                "SELECT count(a IN (SELECT 1)) FROM t HAVING every((EXISTS (SELECT 2) AND 1 = 1)) \
                 ORDER BY every((EXISTS (SELECT 2) AND 1 = 1))",
            ),
            (
                "SELECT every(EXISTS (SELECT 1)), count(EXISTS (SELECT 1)) FROM t",
                "SELECT every(EXISTS (SELECT 1)), count(EXISTS (SELECT 1)) FROM t",
            ),
        ] {
            let tree = parse::statements(sql, 10_000).unwrap().remove(0).statement;
            let Statement::Query(mut query) = tree else { unreachable!("{sql}") };
            for pass in 0..2 {
                let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("{sql}") };
                tell_apart(select, query.order_by.as_mut());
                assert_eq!(query.to_string(), wanted, "pass {pass}");
            }
        }
    }
}
