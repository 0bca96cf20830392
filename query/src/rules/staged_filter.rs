//! Conditions that can fail see only the rows that the others let through.
//!
//! ```text
//!   FilterExec: d <> 0 AND n / d > 1          FilterExec: n / d > 1
//!                                       ─►      FilterExec: d <> 0
//! ```
//! A conjunction evaluates both sides for a whole batch when many rows pass the first, and
//! then a row that the first was to keep away fails the statement.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr, conjunction,
        expressions::{BinaryExpr, CastExpr},
        split_conjunction,
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        filter::{FilterExec, FilterExecBuilder},
    },
};

/// Splits filters whose conditions can fail.
#[derive(Debug)]
pub struct StagedFilter;

impl PhysicalOptimizerRule for StagedFilter {
    fn name(&self) -> &str {
        "staged_filter"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match node.downcast_ref::<FilterExec>() {
            Some(filter) => Ok(match staged(filter)? {
                Some(filters) => Transformed::yes(filters),
                None => Transformed::no(node),
            }),
            None => Ok(Transformed::no(node)),
        })
        .map(|plan| plan.data)
    }
}

/// The conditions that cannot fail in a filter of their own, and above it one for each that
/// can, in the order in which they are written; `None` for a filter with nothing to split.
fn staged(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema = filter.input().schema();
    let (mut fallible, mut safe) = (Vec::new(), Vec::new());
    for condition in split_conjunction(filter.predicate()) {
        let stage = if can_fail(condition, &schema)? { &mut fallible } else { &mut safe };
        stage.push(Arc::clone(condition));
    }
    let first = if safe.is_empty() { None } else { Some(conjunction(safe)) };
    let mut stages = first.into_iter().chain(fallible).peekable();
    let mut input = Arc::clone(filter.input());
    let mut below = 0;
    while let Some(predicate) = stages.next() {
        let builder = if stages.peek().is_some() {
            below += 1;
            FilterExecBuilder::new(predicate, input)
                .with_default_selectivity(filter.default_selectivity())
                .with_batch_size(filter.batch_size())
        } else {
            // Keeps the projection and the limit.
            FilterExecBuilder::from(filter).with_predicate(predicate).with_input(input)
        };
        input = Arc::new(builder.build()?);
    }
    Ok((below > 0).then_some(input))
}

/// Whether some value makes the expression fail, as far as its operators tell: functions
/// may, comparisons do not.
fn can_fail(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    let mut found = false;
    expression.apply(|part| {
        found = if part.downcast_ref::<ScalarFunctionExpr>().is_some() {
            true
        } else if let Some(cast) = part.downcast_ref::<CastExpr>() {
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
