//! Splits batches whose rows are long, so that the values computed from a batch fit in memory.
//!
//! A batch has thousands of rows, and an expression computes the values of all rows at once. The
//! nodes of this module split a batch until the values fit in memory. Example: with a megabyte in
//! each row, a statement needs megabytes and not gigabytes (CL-10).
//!
//! ```text
//!   batch ─► evaluate ─► fits ─► out
//!              ▲   └─► OutOfMemory ─► two halves ─┐
//!              └───────────────────────────────────┘
//! ```

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::DataType,
};
use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    error::DataFusionError,
    physical_expr::{PhysicalExpr, ScalarFunctionExpr, expressions::Literal},
    physical_plan::{
        ExecutionPlan,
        aggregates::AggregateExec,
        filter::{FilterExec, FilterExecBuilder},
        joins::{CrossJoinExec, HashJoinExec},
        projection::ProjectionExec,
        replace_children_if_necessary,
        unnest::UnnestExec,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
    scalar::ScalarValue,
};
use stratalog_functions::governor::{SPLIT_BYTES, value_bytes};
use stratalog_model::{Error, ErrorKind};

mod expression;
mod held_input;
mod input;
mod projection;

use expression::SlicedExpr;
use held_input::{ChargeRule, HeldInput};
use input::{BatchLimit, SlicedInput};
use projection::SlicedProjection;

/// Approximate bytes for each value of a window function, which is computed first in a list and
/// then in an array.
const WINDOW_VALUE_BYTES: usize = 16;

/// Maximum number of rows that the unnesting of one batch produces, unless a single list has more
/// elements.
const UNNESTED_ROWS_MAX: usize = 1 << 16;

/// Minimum length of a long constant, in bytes. Shorter constants are ignored.
const LONG_BYTES_MIN: usize = 1 << 10;

/// Adds nodes that split batches to the plan, wherever rows can be long.
///
/// # Errors
/// Errors of rebuilding a node.
pub fn slice(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let long = projection
                .expr()
                .iter()
                .any(|column| can_be_long(&column.expr) || constant_list_bytes(&column.expr) > 0);
            return Ok(match long {
                true => Transformed::yes(Arc::new(SlicedProjection::new(node)) as _),
                false => Transformed::no(node),
            });
        }
        if let Some(filter) = node.downcast_ref::<FilterExec>()
            && can_be_long(filter.predicate())
        {
            let predicate = SlicedExpr::of(filter.predicate());
            let sliced = FilterExecBuilder::from(filter).with_predicate(predicate).build()?;
            return Ok(Transformed::yes(Arc::new(sliced)));
        }
        if let Some(window) = node.downcast_ref::<WindowAggExec>() {
            let count = ChargeRule::WholeWindow(window.window_expr().len() * WINDOW_VALUE_BYTES);
            return hold(node, count, false);
        }
        if node.downcast_ref::<BoundedWindowAggExec>().is_some() {
            return hold(node, ChargeRule::Window, false);
        }
        if node.downcast_ref::<HashJoinExec>().is_some()
            || node.downcast_ref::<CrossJoinExec>().is_some()
        {
            return hold(node, ChargeRule::Copy, true);
        }
        if let Some(unnest) = node.downcast_ref::<UnnestExec>() {
            let columns = unnest.list_column_indices().iter();
            let columns: Vec<usize> = columns.map(|list| list.index_in_input_schema).collect();
            if columns.is_empty() {
                return Ok(Transformed::no(node));
            }
            let limit = BatchLimit::Elements { columns, elements_max: UNNESTED_ROWS_MAX };
            let input = SlicedInput::new(Arc::clone(unnest.input()), limit);
            return replace_children_if_necessary(node, vec![Arc::new(input)])
                .map(Transformed::yes);
        }
        let node = match node.downcast_ref::<AggregateExec>() {
            Some(aggregate) => arguments(aggregate)?.unwrap_or(node),
            None => node,
        };
        match rows_max(constants_of(&node)?) {
            usize::MAX => Ok(Transformed::no(node)),
            rows_max => {
                let children = node.children().into_iter().map(|child| {
                    Arc::new(SlicedInput::new(Arc::clone(child), BatchLimit::Rows(rows_max)))
                        as Arc<dyn ExecutionPlan>
                });
                let children = children.collect();
                replace_children_if_necessary(node, children).map(Transformed::yes)
            }
        }
    })
    .map(|plan| plan.data)
}

/// Adds a node that charges the memory of batches to the statement: below each input, or only below
/// the first input.
fn hold(
    node: Arc<dyn ExecutionPlan>,
    count: ChargeRule,
    first_only: bool,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let children = node.children().into_iter().enumerate().map(|(at, child)| match at {
        1.. if first_only => Arc::clone(child),
        _ => Arc::new(HeldInput::new(Arc::clone(child), count)) as Arc<dyn ExecutionPlan>,
    });
    let children = children.collect();
    replace_children_if_necessary(node, children).map(Transformed::yes)
}

/// Changes an aggregate so that long arguments are computed for parts of a batch; `None` if no
/// argument can be long.
fn arguments(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let mut changed = false;
    let mut calls = Vec::with_capacity(aggregate.aggr_expr().len());
    for call in aggregate.aggr_expr() {
        let arguments = call.expressions();
        let computed = arguments
            .iter()
            .any(|argument| argument.downcast_ref::<Literal>().is_none() && can_be_long(argument));
        let order = call.order_bys().iter().map(|key| Arc::clone(&key.expr)).collect();
        let sliced = computed.then(|| {
            let arguments =
                arguments.iter().map(|argument| match argument.downcast_ref::<Literal>() {
                    Some(_) => Arc::clone(argument),
                    None => SlicedExpr::of(argument),
                });
            call.with_new_expressions(arguments.collect(), order)
        });
        calls.push(match sliced.flatten() {
            Some(sliced) => {
                changed = true;
                Arc::new(sliced)
            }
            None => Arc::clone(call),
        });
    }
    Ok(changed.then(|| Arc::new(aggregate.with_new_aggr_exprs(calls)) as _))
}

/// Maximum number of rows of a batch in which each row contains a copy of constants of `row_bytes`.
fn rows_max(row_bytes: usize) -> usize {
    match row_bytes {
        0 => usize::MAX,
        bytes => (SPLIT_BYTES / bytes).max(1),
    }
}

/// The bytes of the long constants in the expressions of a node, without its children.
fn constants_of(node: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut bytes = 0_usize;
    node.apply_expressions(&mut |expr| {
        bytes = bytes.saturating_add(constants(expr)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bytes)
}

/// The bytes of the long constants in an expression.
fn constants(expr: &Arc<dyn PhysicalExpr>) -> Result<usize> {
    let mut bytes = 0_usize;
    expr.apply(|expr| {
        let text = expr.downcast_ref::<Literal>().and_then(|literal| literal.value().try_as_str());
        let length = text.flatten().map_or(0, str::len);
        if length >= LONG_BYTES_MIN {
            bytes = bytes.saturating_add(length);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bytes)
}

/// The bytes of an expression that is a constant list or row, which the evaluation copies into each
/// row; 0 below [`LONG_BYTES_MIN`].
fn constant_list_bytes(expr: &Arc<dyn PhysicalExpr>) -> usize {
    let list = expr.downcast_ref::<Literal>().map_or(0, |literal| nested_bytes(literal.value()));
    if list >= LONG_BYTES_MIN { list } else { 0 }
}

/// The bytes of a list or a row; 0 for other values.
fn nested_bytes(value: &ScalarValue) -> usize {
    match value {
        ScalarValue::List(list) => value_bytes(&(Arc::clone(list) as ArrayRef)),
        ScalarValue::LargeList(list) => value_bytes(&(Arc::clone(list) as ArrayRef)),
        ScalarValue::FixedSizeList(list) => value_bytes(&(Arc::clone(list) as ArrayRef)),
        ScalarValue::Struct(row) => value_bytes(&(Arc::clone(row) as ArrayRef)),
        _ => 0,
    }
}

/// Whether an expression can produce values of any length.
fn can_be_long(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let makes = |expr: &Arc<dyn PhysicalExpr>| {
        let call = expr.downcast_ref::<ScalarFunctionExpr>();
        call.is_some_and(|call| has_any_length(call.return_type()))
    };
    expr.exists(|expr| Ok(makes(expr))).unwrap_or(false)
        || constants(expr).is_ok_and(|bytes| bytes > 0)
}

fn has_any_length(data_type: &DataType) -> bool {
    data_type.is_string() || data_type.is_binary() || data_type.is_list()
}

/// Whether the error is a lack of memory: a smaller batch may succeed.
fn is_out_of_memory(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::External(source) => source
            .downcast_ref::<Error>()
            .is_some_and(|error| error.kind() == ErrorKind::OutOfMemory),
        _ => false,
    }
}

/// The first and the second half of a batch.
fn halves(batch: &RecordBatch) -> [RecordBatch; 2] {
    let half = batch.num_rows() / 2;
    [batch.slice(0, half), batch.slice(half, batch.num_rows() - half)]
}

#[cfg(test)]
mod tests;
