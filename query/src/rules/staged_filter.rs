//! Conditions that can fail see only the rows that the others let through.
//!
//! ```text
//!   FilterExec: d <> 0 AND n / d > 1          FilterExec: n / d > 1
//!                                       ─►      FilterExec: d <> 0
//! ```
//! A conjunction evaluates both sides for a whole batch when many rows pass the first, and
//! then a row that the first was to keep away fails the statement. The same goes for OR
//! within a condition: `i = 0 OR n / i > 1` becomes a CASE, which looks at the rows left.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::{
    common::{
        Result,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
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

use super::{each_node::EachNode, opaque_casts::Opaque};

/// Splits filters whose conditions can fail.
pub const STAGED_FILTER: EachNode =
    EachNode::new("staged_filter", |node| match node.downcast_ref::<FilterExec>() {
        Some(filter) => staged(filter),
        None => Ok(None),
    });

/// The conditions that cannot fail in a filter of their own, and above it one for each that
/// can, in the order in which they are written; `None` for a filter with nothing to split.
fn staged(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
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
            // Keeps the projection and the limit.
            FilterExecBuilder::from(filter).with_predicate(predicate).with_input(input)
        };
        input = Arc::new(builder.build()?);
    }
    Ok(below.then_some(input))
}

/// A condition in which parts that can fail are looked at only where the other operands of
/// their AND or OR leave it open. NULL may become false, which a filter does not tell apart.
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

/// AND or OR, if the expression is one.
fn logical_operator(expression: &Arc<dyn PhysicalExpr>) -> Option<Operator> {
    let operator = *expression.downcast_ref::<BinaryExpr>()?.op();
    matches!(operator, Operator::And | Operator::Or).then_some(operator)
}

/// The operands of a chain of one operator, in the order in which they are written.
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

/// Whether some value makes the expression fail, as far as its operators tell: functions
/// may, comparisons do not.
fn can_fail(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    let mut found = false;
    expression.apply(|part| {
        found = if part.downcast_ref::<ScalarFunctionExpr>().is_some() {
            true
        } else if let Some(cast) = part
            .downcast_ref::<CastExpr>()
            .or_else(|| part.downcast_ref::<Opaque>().and_then(Opaque::cast))
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

/// Whether every value of `from` has one in `to`.
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
