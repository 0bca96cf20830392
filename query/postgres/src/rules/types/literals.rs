//! Gives integer constants the type `integer` if their value fits, like in PostgreSQL; in
//! DataFusion all integer constants are `bigint`.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, Subquery, cast,
        expr_rewriter::NamePreserver,
        planner::{ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawWindowExpr},
    },
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
    sql::sqlparser::ast::BinaryOperator,
};
use stratalog_functions::plan_walk::TreeWalk;

use super::common_types::outside_recursion;

/// Narrows constants in operators to integer during planning. The type of an outer expression, for
/// example `coalesce(v * 2, 1)` or `lead(v * 2, 1, -1)`, depends on the types of these constants.
/// Runs after all other expression planners.
#[derive(Debug)]
pub struct IntegerOperands;

impl ExprPlanner for IntegerOperands {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        _: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_arithmetic = matches!(
            expr.op,
            BinaryOperator::Plus
                | BinaryOperator::Minus
                | BinaryOperator::Multiply
                | BinaryOperator::Divide
                | BinaryOperator::Modulo
                | BinaryOperator::BitwiseAnd
                | BinaryOperator::BitwiseOr
                | BinaryOperator::BitwiseXor
                | BinaryOperator::PGBitwiseXor
                | BinaryOperator::PGBitwiseShiftLeft
                | BinaryOperator::PGBitwiseShiftRight
        );
        Ok(PlannerResult::Original(match is_arithmetic {
            true => RawBinaryExpr {
                left: narrow(expr.left).data,
                right: narrow(expr.right).data,
                op: expr.op,
            },
            false => expr,
        }))
    }

    // Like in PostgreSQL, the sum of integers is a bigint, and the sum of bigints a numeric.
    fn plan_aggregate(
        &self,
        mut expr: RawAggregateExpr,
    ) -> Result<PlannerResult<RawAggregateExpr>> {
        if expr.func.name() == "sum" {
            expr.args =
                expr.args.into_iter().map(|argument| narrow_choice(argument).data).collect();
        }
        Ok(PlannerResult::Original(expr))
    }

    fn plan_window(&self, mut expr: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        if expr.func_def.name() == "sum" {
            expr.args =
                expr.args.into_iter().map(|argument| narrow_choice(argument).data).collect();
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Narrows a constant to integer, also a CASE that returns only constants in the range of integer.
fn narrow_choice(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::Alias(mut alias) => {
            let inner = narrow_choice(*alias.expr);
            alias.expr = Box::new(inner.data);
            Transformed::new(Expr::Alias(alias), inner.transformed, TreeNodeRecursion::Continue)
        }
        Expr::Case(mut case) if is_integer_choice(&case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then);
            for result in results.chain(case.else_expr.iter_mut()) {
                **result = narrow_choice(std::mem::take(result.as_mut())).data;
            }
            Transformed::yes(Expr::Case(case))
        }
        Expr::Case(_) => Transformed::no(expr),
        Expr::ScalarSubquery(subquery) => narrow_subquery(subquery),
        other => narrow(other),
    }
}

/// Narrows the column of a subquery that returns a constant to integer.
fn narrow_subquery(subquery: Subquery) -> Transformed<Expr> {
    if matches!(subquery.subquery.as_ref(), LogicalPlan::Projection(_))
        && let Ok(narrowed) = narrow_columns(LogicalPlan::clone(&subquery.subquery))
        && narrowed.transformed
    {
        return Transformed::yes(Expr::ScalarSubquery(subquery.with_plan(Arc::new(narrowed.data))));
    }
    Transformed::no(Expr::ScalarSubquery(subquery))
}

/// Narrows the constants among the columns of a node to integer. The columns keep their names.
///
/// # Errors
/// Errors from the schema of the changed node.
pub(super) fn narrow_columns(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    let narrowed = node.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(narrow_choice(expr).update_data(|expr| name.restore(expr)))
    })?;
    // The types of the nodes below may have changed too.
    narrowed.map_data(LogicalPlan::recompute_schema)
}

fn is_integer_choice(case: &Case) -> bool {
    let mut results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    results.all(|result| match result.as_ref() {
        Expr::Case(inner) => is_integer_choice(inner),
        Expr::Literal(value, _) if value.is_null() => true,
        other => narrow(other.clone()).transformed,
    })
}

/// Narrows the constant operands of `||` to integer, and converts uuids to text. Runs before the
/// planners that turn `||` into calls of array functions.
#[derive(Debug)]
pub struct JoinedOperands;

impl ExprPlanner for JoinedOperands {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op != BinaryOperator::StringConcat {
            return Ok(PlannerResult::Original(expr));
        }
        let left = expr.left.get_type(schema).unwrap_or(DataType::Null);
        let right = expr.right.get_type(schema).unwrap_or(DataType::Null);
        let beside_text = |given: &DataType, other: &DataType| {
            let is_uuid = |data_type: &DataType| matches!(data_type, DataType::FixedSizeBinary(_));
            is_uuid(given) && !is_uuid(other) && !other.is_list()
        };
        let operand = |expr: Expr, is_uuid: bool| match is_uuid {
            true => cast(expr, DataType::Utf8View),
            false => narrow(expr).data,
        };
        Ok(PlannerResult::Original(RawBinaryExpr {
            left: operand(expr.left, beside_text(&left, &right)),
            right: operand(expr.right, beside_text(&right, &left)),
            op: expr.op,
        }))
    }
}

/// Narrows constants in arithmetic and in select lists to integer. In other places the type of a
/// constant has no effect, or the outer function determines the type.
#[derive(Debug)]
pub struct IntegerLiterals;

impl AnalyzerRule for IntegerLiterals {
    fn name(&self) -> &str {
        "integer_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        outside_recursion(plan, |node| {
            // The planner has already determined the types of VALUES and of recursive queries.
            if matches!(node, LogicalPlan::Values(_) | LogicalPlan::RecursiveQuery(_)) {
                return Ok(Transformed::no(node));
            }
            let names = NamePreserver::new(&node);
            let columns = matches!(node, LogicalPlan::Projection(_));
            let changed = node.map_expressions(|expr| {
                let name = names.save(&expr);
                let narrowed = expr.change_up(arithmetic)?.transform_data(|expr| {
                    Ok(if columns { narrow_choice(expr) } else { Transformed::no(expr) })
                })?;
                Ok(narrowed.update_data(|expr| name.restore(expr)))
            })?;
            // The types of the nodes below may have changed too.
            changed.map_data(LogicalPlan::recompute_schema)
        })
    }
}

fn arithmetic(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op:
                op @ (Operator::Plus
                | Operator::Minus
                | Operator::Multiply
                | Operator::Divide
                | Operator::Modulo
                | Operator::BitwiseAnd
                | Operator::BitwiseOr
                | Operator::BitwiseXor
                | Operator::BitwiseShiftLeft
                | Operator::BitwiseShiftRight),
            right,
        }) => {
            let (left, right) = (narrow(*left), narrow(*right));
            let changed = left.transformed || right.transformed;
            let narrowed = BinaryExpr::new(Box::new(left.data), op, Box::new(right.data));
            let narrowed = Expr::BinaryExpr(narrowed);
            Ok(if changed { Transformed::yes(narrowed) } else { Transformed::no(narrowed) })
        }
        Expr::ScalarFunction(call) if call.name() == "pg_typeof" => {
            Expr::ScalarFunction(call).map_children(|argument| Ok(narrow(argument)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn narrow(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), None) => match i32::try_from(value) {
            Ok(value) => Transformed::yes(Expr::Literal(ScalarValue::Int32(Some(value)), None)),
            Err(_) => Transformed::no(Expr::Literal(ScalarValue::Int64(Some(value)), None)),
        },
        Expr::Negative(inner) => {
            narrow(*inner).update_data(|inner| Expr::Negative(Box::new(inner)))
        }
        other => Transformed::no(other),
    }
}
