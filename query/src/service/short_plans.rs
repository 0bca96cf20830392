//! Recognizes short plans, which run on the thread of their reader. A short plan reads so few rows
//! that the transfer to another thread and back would take longer than the plan.
//!
//! ```text
//!   short plan ─► polled by its reader, at most TURNS times ─► usually done
//!                                └─► not done: continues on the threads of plans (CL-10)
//! ```
//! The number of rows is an estimate. If the estimate is wrong, the limit on polls and tokio's
//! budget within each poll limit the harm. The computation for a row must take about as long as the
//! read of the row, because no operator checks for a stop within a batch.

use std::sync::Arc;

use datafusion::{
    common::{Result, tree_node::TreeNode, tree_node::TreeNodeRecursion},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{
            BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr,
            IsNullExpr, Literal, NegativeExpr, NotExpr,
        },
    },
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties,
        aggregates::AggregateExec,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        filter::FilterExec,
        limit::{GlobalLimitExec, LocalLimitExec},
        projection::ProjectionExec,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
    },
};

use stratalog_functions::literal::compares;

use crate::{
    first_rows::FirstRowsExec,
    table::{few_rows, finds_few_newest},
};

/// The number of times that the reader polls a short plan before the plan moves to other threads.
pub const TURNS: u32 = 4;

/// Functions that need little time for each value.
const LIGHT_FUNCTIONS: [&str; 18] = [
    "time_bucket",
    "date_bin",
    "date_trunc",
    "abs",
    "round",
    "floor",
    "ceil",
    "add_checked",
    "subtract_checked",
    "multiply_checked",
    "divide_checked",
    "modulo_checked",
    "date_plus_days",
    "date_minus_days",
    "numeric_to_double",
    "float_key",
    "as_written",
    "coalesce",
];

/// True if a plan is a single chain of cheap nodes over a leaf with few rows.
pub fn is_short(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut node = plan;
    loop {
        if node.output_partitioning().partition_count() != 1 {
            return false;
        }
        let children = node.children();
        match children.as_slice() {
            [] => return few_rows(node) || finds_few_newest(node),
            [child] if is_light(node) => node = child,
            _ => return false,
        }
    }
}

fn is_light(node: &Arc<dyn ExecutionPlan>) -> bool {
    let known = node.downcast_ref::<AggregateExec>().is_some()
        || node.downcast_ref::<CoalescePartitionsExec>().is_some()
        || node.downcast_ref::<CooperativeExec>().is_some()
        || node.downcast_ref::<FilterExec>().is_some()
        || node.downcast_ref::<FirstRowsExec>().is_some()
        || node.downcast_ref::<GlobalLimitExec>().is_some()
        || node.downcast_ref::<LocalLimitExec>().is_some()
        || node.downcast_ref::<ProjectionExec>().is_some()
        || node.downcast_ref::<SortExec>().is_some()
        || node.downcast_ref::<SortPreservingMergeExec>().is_some();
    let mut light = known;
    let each = &mut |expr: &Arc<dyn PhysicalExpr>| {
        light &= computes_little(expr)?;
        Ok(TreeNodeRecursion::Continue)
    };
    node.apply_expressions(each).is_ok() && light
}

/// True if an expression and its subexpressions need little time for each row.
fn computes_little(expr: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    let mut little = true;
    expr.apply(|expr| {
        little &= is_little(expr);
        Ok(if little { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(little)
}

fn is_little(expr: &Arc<dyn PhysicalExpr>) -> bool {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let op = *binary.op();
        return compares(op)
            || matches!(op, Operator::And | Operator::Or)
            || op.is_numerical_operators();
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return LIGHT_FUNCTIONS.contains(&call.fun().name());
    }
    expr.downcast_ref::<Column>().is_some()
        || expr.downcast_ref::<Literal>().is_some()
        || expr.downcast_ref::<CastExpr>().is_some()
        || expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some()
        || expr.downcast_ref::<InListExpr>().is_some()
        || expr.downcast_ref::<IsNotNullExpr>().is_some()
        || expr.downcast_ref::<IsNullExpr>().is_some()
        || expr.downcast_ref::<NegativeExpr>().is_some()
        || expr.downcast_ref::<NotExpr>().is_some()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::{
        physical_expr::expressions::{binary, cast, col, like, lit},
        physical_plan::empty::EmptyExec,
    };

    use super::*;

    /// An expensive computation for a row must not occupy a reader's thread, even for few rows.
    #[test]
    fn plans_that_compute_much_are_not_short() {
        let text = |name: &str| Field::new(name, DataType::Utf8, true);
        let schema = Arc::new(Schema::new(vec![text("a"), Field::new("n", DataType::Int64, true)]));
        let (a, n) = (col("a", &schema).unwrap(), col("n", &schema).unwrap());
        let compared = |op, right| binary(Arc::clone(&n), op, right, &schema).unwrap();
        let matched = like(false, false, Arc::clone(&a), lit("%x%"), &schema).unwrap();
        let regex = binary(Arc::clone(&a), Operator::RegexMatch, lit("x+"), &schema).unwrap();
        let above = compared(Operator::Gt, lit(3_i64));
        let both = binary(Arc::clone(&above), Operator::And, Arc::clone(&matched), &schema);
        let widened = cast(Arc::clone(&n), &schema, DataType::Float64).unwrap();
        let summed = binary(widened, Operator::Lt, lit(1.5), &schema).unwrap();
        for (predicate, short) in [
            (above, true),
            (summed, true),
            (matched, false),
            (regex, false),
            (both.unwrap(), false),
        ] {
            let leaf = Arc::new(EmptyExec::new(Arc::clone(&schema)));
            let shown = predicate.to_string();
            let filter = FilterExec::try_new(predicate, leaf).unwrap();
            assert_eq!(is_short(&(Arc::new(filter) as _)), short, "{shown}");
        }
        let partitions = EmptyExec::new(schema).with_partitions(2);
        assert!(!is_short(&(Arc::new(partitions) as _)));
    }
}
