//! Corrects three defects of DataFusion's rule that moves filters down.
//!
//! A condition on an aggregation without groups stays above the aggregation. DataFusion would move a
//! condition without columns, for example the `false` that `n = 0 AND n = 2` simplifies to, below
//! the aggregation. But an aggregation without groups returns a row even without input rows.
//!
//! DataFusion takes `a = x AND a = y` for false if the literals x and y differ in any way. But 0.0 is
//! equal to -0.0, and `current_user`, with the metadata of the type `name`, is equal to the same text
//! without metadata. The second equality thus becomes `a IS NOT DISTINCT FROM y`.
//!
//! DataFusion orders the bounds of a range by their bits, in which -0.0 is less than 0.0: a bound of
//! -0.0 becomes 0.0.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    common::{Column, Result, ScalarValue, tree_node::Transformed},
    logical_expr::{
        BinaryExpr, EmptyRelation, Expr, Filter, LogicalPlan, Operator, binary_expr, lit,
        utils::{conjunction, split_conjunction, split_conjunction_owned},
    },
    optimizer::{
        ApplyOrder, OptimizerConfig, OptimizerRule, push_down_filter::PushDownFilter,
        simplify_expressions::simplify_predicates,
    },
};

/// DataFusion's rule that moves filters down, without the defects of this module.
#[derive(Debug)]
pub struct CorrectedPushDown(pub PushDownFilter);

impl OptimizerRule for CorrectedPushDown {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        node: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let Transformed { data: node, transformed, .. } = without_false_contradictions(node)?;
        let mut moved = match node {
            LogicalPlan::Filter(filter) if is_of_all(&filter.input) => keep_above_aggregate(filter),
            other => self.0.rewrite(other, config),
        }?;
        moved.transformed |= transformed;
        Ok(moved)
    }
}

/// Rewrites a filter with several equalities on one column, which DataFusion takes for a
/// contradiction. The rewritten filter includes the filters directly below, because DataFusion merges
/// adjacent filters without this correction. Nodes of other kinds are unchanged.
fn without_false_contradictions(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = &node else { return Ok(Transformed::no(node)) };
    let mut conditions = split_conjunction(&filter.predicate);
    let mut input = &filter.input;
    while let LogicalPlan::Filter(inner) = input.as_ref() {
        conditions.extend(split_conjunction(&inner.predicate));
        input = &inner.input;
    }
    let signed = conditions.iter().any(|condition| has_negative_zero(condition));
    if !signed && !has_two_forms(&conditions) {
        return Ok(Transformed::no(node));
    }
    let input = Arc::clone(input);
    let mut first: HashMap<Column, Expr> = HashMap::new();
    let mut corrected = Vec::with_capacity(conditions.len());
    for condition in conditions {
        let condition = without_negative_zero(condition.clone());
        let Some((column, literal)) = equality(&condition) else {
            corrected.push(condition);
            continue;
        };
        let (column, literal) = (column.clone(), literal.clone());
        match first.get(&column) {
            Some(known) if *known == literal => {}
            // In a form that DataFusion does not compare with the first equality.
            Some(_) => corrected.push(binary_expr(
                Expr::Column(column),
                Operator::IsNotDistinctFrom,
                literal,
            )),
            None => {
                first.insert(column.clone(), literal.clone());
                corrected.push(Expr::Column(column).eq(literal));
            }
        }
    }
    let predicate = conjunction(corrected).unwrap_or_else(|| lit(true));
    Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, input)?)))
}

/// The column and the literal of an equality of both, with the column on either side. NULL is no
/// such literal: `a = NULL` is never true.
fn equality(condition: &Expr) -> Option<(&Column, &Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return None;
    };
    let (column, literal) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), literal @ Expr::Literal(..)) => (column, literal),
        (literal @ Expr::Literal(..), Expr::Column(column)) => (column, literal),
        _ => return None,
    };
    literal.as_literal().is_some_and(|value| !value.is_null()).then_some((column, literal))
}

/// True if two equalities on one column differ in any way.
fn has_two_forms(conditions: &[&Expr]) -> bool {
    let mut first: HashMap<&Column, &Expr> = HashMap::new();
    conditions.iter().any(|condition| {
        let Some((column, _)) = equality(condition) else { return false };
        *first.entry(column).or_insert(condition) != *condition
    })
}

fn is_negative_zero(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float64(Some(value)) => *value == 0.0 && value.is_sign_negative(),
        ScalarValue::Float32(Some(value)) => *value == 0.0 && value.is_sign_negative(),
        _ => false,
    }
}

fn has_negative_zero(condition: &Expr) -> bool {
    let Expr::BinaryExpr(binary) = condition else { return false };
    [&binary.left, &binary.right]
        .into_iter()
        .any(|operand| operand.as_literal().is_some_and(is_negative_zero))
}

/// A comparison with 0 in place of -0: the bounds of a range are compared by their order in memory,
/// in which -0 is less than 0.
fn without_negative_zero(condition: Expr) -> Expr {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return condition };
    let is_comparison = op.supports_propagation();
    let unsigned = |operand: Box<Expr>| match *operand {
        Expr::Literal(ScalarValue::Float64(Some(0.0)), _) if is_comparison => lit(0.0_f64),
        Expr::Literal(ScalarValue::Float32(Some(0.0)), _) if is_comparison => lit(0.0_f32),
        other => other,
    };
    binary_expr(unsigned(left), op, unsigned(right))
}

/// Whether a plan is an aggregation without groups, which returns a row even without input rows.
/// Filters may stand above the aggregation.
fn is_of_all(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => is_of_all(&filter.input),
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.group_expr.iter().all(|group| matches!(group, Expr::GroupingSet(_)))
        }
        _ => false,
    }
}

fn keep_above_aggregate(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let mut conditions = split_conjunction_owned(filter.predicate);
    let mut merged = false;
    let mut input = filter.input;
    while let LogicalPlan::Filter(inner) = input.as_ref() {
        conditions.splice(0..0, split_conjunction_owned(inner.predicate.clone()));
        merged = true;
        input = Arc::clone(&inner.input);
    }
    let written = conditions.len();
    conditions = simplify_predicates(conditions)?;
    conditions.retain(|condition| !is_constant(condition, &[Some(true)]));
    if conditions.iter().any(|condition| is_constant(condition, &[Some(false), None])) {
        let schema = Arc::clone(input.schema());
        let none = EmptyRelation { produce_one_row: false, schema };
        return Ok(Transformed::yes(LogicalPlan::EmptyRelation(none)));
    }
    let changed = merged || conditions.len() != written;
    Ok(match conjunction(conditions) {
        Some(predicate) => {
            let filter = LogicalPlan::Filter(Filter::try_new(predicate, input)?);
            Transformed::new_transformed(filter, changed)
        }
        None => Transformed::yes(Arc::unwrap_or_clone(input)),
    })
}

fn is_constant(condition: &Expr, values: &[Option<bool>]) -> bool {
    matches!(condition, Expr::Literal(ScalarValue::Boolean(value), _) if values.contains(value))
}
