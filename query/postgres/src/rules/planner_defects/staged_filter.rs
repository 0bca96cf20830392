//! Evaluates conditions that can fail only for rows that pass the other conditions.
//!
//! ```text
//!   FilterExec: d <> 0 AND n / d > 1          FilterExec: n / d > 1
//!                                       ─►      FilterExec: d <> 0
//! ```
//! If many rows pass the left side of an AND, DataFusion evaluates both sides for a whole batch. A
//! row that the left side rejects could then fail the statement. The same holds for an OR inside of
//! a condition: `i = 0 OR n / i > 1` becomes a CASE, which evaluates the division only for the
//! remaining rows.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr, conjunction,
        expressions::{BinaryExpr, CastExpr, case, lit},
        split_conjunction,
    },
    physical_plan::{
        ExecutionPlan,
        filter::{FilterExec, FilterExecBuilder},
    },
};
use stratalog_functions::plan_walk::TreeWalk;

use super::opaque_casts::OpaqueCast;
use crate::rules::each_node::EachNode;

/// Rule: splits filters whose conditions can fail.
pub const STAGED_FILTER: EachNode =
    EachNode::new("staged_filter", |node| match node.downcast_ref::<FilterExec>() {
        Some(filter) => stage_filter(filter),
        None => Ok(None),
    });

/// One filter for all conditions that cannot fail, and above it one filter for each condition that
/// can fail, in the order of the statement. `None` if the filter needs no split.
fn stage_filter(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema = filter.input().schema();
    let (mut fallible, mut safe) = (Vec::new(), Vec::new());
    let mut below = false;
    for condition in split_conjunction(filter.predicate()) {
        if can_fail(condition, &schema)? {
            let guarded = guarded(condition, &schema)?;
            below |= !Arc::ptr_eq(&guarded, condition);
            fallible.push(guarded);
        } else {
            safe.push(Arc::clone(condition));
        }
    }
    let first = if safe.is_empty() { None } else { Some(conjunction(safe)) };
    let mut stages = first.into_iter().chain(fallible).peekable();
    let mut input = Arc::clone(filter.input());
    while let Some(predicate) = stages.next() {
        let builder = if stages.peek().is_some() {
            below = true;
            FilterExecBuilder::new(predicate, input)
                .with_default_selectivity(filter.default_selectivity())
                .with_batch_size(filter.batch_size())
        } else {
            // The new filter keeps the projection and the limit of the old filter.
            FilterExecBuilder::from(filter).with_predicate(predicate).with_input(input)
        };
        input = Arc::new(builder.build()?);
    }
    Ok(below.then_some(input))
}

/// Rewrites a condition so that operands of AND or OR that can fail are evaluated only if the other
/// operands do not decide the result. NULL may become false, because a filter treats both alike.
fn guarded(condition: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let Some(operator) = logical_operator(condition) else { return Ok(Arc::clone(condition)) };
    let mut operands = Vec::new();
    flatten(condition, operator, &mut operands);
    let (mut safe, mut fallible) = (Vec::new(), Vec::new());
    for operand in operands {
        if can_fail(operand, schema)? {
            fallible.push(guarded(operand, schema)?);
        } else {
            safe.push(Arc::clone(operand));
        }
    }
    let mut operands = safe.into_iter().chain(fallible).rev();
    let Some(mut rest) = operands.next() else { return Ok(Arc::clone(condition)) };
    for operand in operands {
        rest = match operator {
            Operator::Or => case(None, vec![(operand, lit(true))], Some(rest))?,
            _ => case(None, vec![(operand, rest)], Some(lit(false)))?,
        };
    }
    Ok(rest)
}

/// The operator AND or OR of an expression; `None` for other expressions.
fn logical_operator(expression: &Arc<dyn PhysicalExpr>) -> Option<Operator> {
    let operator = *expression.downcast_ref::<BinaryExpr>()?.op();
    matches!(operator, Operator::And | Operator::Or).then_some(operator)
}

/// Collects the operands of a chain of one operator, in the order of the statement.
fn flatten<'a>(
    expression: &'a Arc<dyn PhysicalExpr>,
    operator: Operator,
    operands: &mut Vec<&'a Arc<dyn PhysicalExpr>>,
) {
    match expression.downcast_ref::<BinaryExpr>() {
        Some(binary) if *binary.op() == operator => {
            flatten(binary.left(), operator, operands);
            flatten(binary.right(), operator, operands);
        }
        _ => operands.push(expression),
    }
}

/// Whether the expression can fail for some value. The test considers only the operators: functions
/// can fail, comparisons cannot.
fn can_fail(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    let mut found = false;
    expression.each(|part| {
        found = if part.downcast_ref::<ScalarFunctionExpr>().is_some() {
            true
        } else if let Some(cast) = part
            .downcast_ref::<CastExpr>()
            .or_else(|| part.downcast_ref::<OpaqueCast>().and_then(OpaqueCast::cast))
        {
            !widens(&cast.expr().data_type(schema)?, cast.cast_type())
        } else if let Some(binary) = part.downcast_ref::<BinaryExpr>() {
            let arithmetic = matches!(
                binary.op(),
                Operator::Plus
                    | Operator::Minus
                    | Operator::Multiply
                    | Operator::Divide
                    | Operator::Modulo
            );
            arithmetic && !binary.left().data_type(schema)?.is_floating()
        } else {
            false
        };
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a cast from `from` to `to` cannot fail, because `to` can hold every value.
fn widens(from: &DataType, to: &DataType) -> bool {
    let text = |data_type: &DataType| {
        matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    };
    from == to
        || text(to)
        || from.is_null()
        || to.is_floating() && from.is_numeric()
        || from.is_integer() && to.is_integer() && from.primitive_width() <= to.primitive_width()
}
