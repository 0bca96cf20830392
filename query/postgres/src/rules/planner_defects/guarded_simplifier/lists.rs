//! Prevents wrong merges of IN lists over the same expression.
//!
//! The simplifier merges two lists on both sides of AND or OR. The merge is correct if each value
//! is a constant and the result is not NULL. The merge is also correct if NULL has the same effect
//! as false: in the condition of a filter, for lists without negation. The rule wraps any other
//! list in `as_written`, if the expression contains another list with which the simplifier could
//! merge it.
//!
//! Before merging, the simplifier computes constants, removes casts and turns comparisons into
//! lists. The rule therefore assumes that two lists test the same expression if the tested
//! expressions share a column. A chain of comparisons counts as the list that the simplifier makes
//! of the chain.

use std::collections::HashSet;

use datafusion::{
    common::{
        Column, DFSchema, Result,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, expr::InList},
};

use super::Guard;

/// The operators between a list and the root of the expression.
#[derive(Debug, Clone, Copy)]
struct ListContext {
    /// True if the list is part of a filter's condition, and only AND, OR and NOT surround the
    /// list.
    filters: bool,
    /// True if only AND surrounds the list.
    is_conjunct: bool,
    negated: bool,
}

/// A list, or a chain of `column = constant OR …` that the simplifier turns into a list.
#[derive(Debug)]
struct Member {
    of: Expr,
    columns: HashSet<Column>,
    place: ListContext,
    has_constants: bool,
}

impl Member {
    /// Whether the simplifier may merge the two lists.
    fn may_merge_with(&self, other: &Member) -> bool {
        self.of == other.of || !self.columns.is_disjoint(&other.columns)
    }
}

/// The expression `expr`, in which `as_written` protects the lists that must not be merged.
pub(super) fn kept_apart(
    expr: Expr,
    schema: &DFSchema,
    is_filter: bool,
    guard: &Guard,
) -> Result<Transformed<Expr>> {
    let place = ListContext { filters: is_filter, is_conjunct: is_filter, negated: false };
    let mut members: Vec<Member> = Vec::new();
    collect(&expr, place, guard, &mut members)?;
    let unsafe_to_merge: Vec<bool> =
        members.iter().map(|member| must_stay(member, &members, schema)).collect();
    if !unsafe_to_merge.contains(&true) {
        return Ok(Transformed::no(expr));
    }
    let mut next = unsafe_to_merge.into_iter();
    rewrite(expr, guard, &mut next)
}

fn must_stay(member: &Member, members: &[Member], schema: &DFSchema) -> bool {
    let of_same = || members.iter().filter(|other| member.may_merge_with(other));
    if of_same().count() < 2 {
        return false;
    }
    if !member.has_constants || member.of.is_volatile() {
        return true;
    }
    let ListContext { filters, is_conjunct, negated } = member.place;
    let several_negated = of_same().filter(|other| other.place.negated).count() > 1;
    member.of.nullable(schema).unwrap_or(true)
        && (!filters || negated && !is_conjunct && several_negated)
}

/// The expression that a list tests. The flag is true if all values of the list are constants.
/// `None` for other expressions.
fn list_of(expr: &Expr) -> Option<(&Expr, bool)> {
    match expr {
        Expr::InList(InList { expr, list, .. }) => {
            Some((expr.as_ref(), list.iter().all(is_constant)))
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => alternatives(expr, false),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => alternatives(expr, false),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a value is a literal, or a cast that the simplifier turns into a literal. A cast to a
/// float does not count, because its result may be 0.0 or -0.0.
fn is_constant(value: &Expr) -> bool {
    match value {
        Expr::Literal(..) => true,
        Expr::Cast(Cast { expr, field }) => {
            !field.data_type().is_floating() && matches!(expr.as_ref(), Expr::Literal(..))
        }
        _ => false,
    }
}

/// Whether an expression has the same value in all rows.
fn may_become_literal(expr: &Expr) -> bool {
    let differs = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_)
        ))
    });
    matches!(differs, Ok(false)) && !expr.is_volatile()
}

/// Like [`list_of`], for comparisons with `=` joined by OR, or with `negated` for comparisons with
/// `<>` joined by AND.
fn alternatives(expr: &Expr, negated: bool) -> Option<(&Expr, bool)> {
    let (joins, compares) = match negated {
        false => (Operator::Or, Operator::Eq),
        true => (Operator::And, Operator::NotEq),
    };
    match expr {
        Expr::InList(list) if list.negated == negated => list_of(expr),
        Expr::Not(inner) => alternatives(inner, !negated),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == joins => {
            let (left, right) = (alternatives(left, negated)?, alternatives(right, negated)?);
            let is_of_one = left.0 == right.0 || left.0.column_refs() == right.0.column_refs();
            is_of_one.then_some((left.0, left.1 && right.1))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == compares => {
            match (may_become_literal(left), may_become_literal(right)) {
                (false, true) => Some((left.as_ref(), is_constant(right))),
                (true, false) => Some((right.as_ref(), is_constant(left))),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The context of the operands of an expression.
fn place_within(expr: &Expr, place: ListContext) -> ListContext {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) if !place.negated => place,
        Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }) => {
            ListContext { is_conjunct: false, ..place }
        }
        Expr::Not(_) => ListContext { is_conjunct: false, negated: !place.negated, ..place },
        _ => ListContext { filters: false, is_conjunct: false, negated: false },
    }
}

fn collect(
    expr: &Expr,
    place: ListContext,
    guard: &Guard,
    members: &mut Vec<Member>,
) -> Result<()> {
    if guard.is_kept(expr) {
        return Ok(());
    }
    if let Some((of, has_constants)) = list_of(expr) {
        let negated = place.negated != matches!(expr, Expr::InList(list) if list.negated);
        let place = ListContext { negated, ..place };
        let columns = of.column_refs().into_iter().cloned().collect();
        members.push(Member { of: of.clone(), columns, place, has_constants });
        return Ok(());
    }
    let within = place_within(expr, place);
    expr.apply_children(|part| {
        collect(part, within, guard, members)?;
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Wraps lists in `as_written`. Visits the lists in the same order as [`collect`]; `stays` says for
/// each list whether it stays unchanged.
fn rewrite(
    expr: Expr,
    guard: &Guard,
    stays: &mut impl Iterator<Item = bool>,
) -> Result<Transformed<Expr>> {
    if guard.is_kept(&expr) {
        return Ok(Transformed::no(expr));
    }
    if list_of(&expr).is_some() {
        return Ok(match stays.next() {
            Some(true) => Transformed::yes(guard.behind_barrier(expr)),
            _ => Transformed::no(expr),
        });
    }
    expr.map_children(|part| rewrite(part, guard, stays))
}
