//! Types that PostgreSQL gives to what has none beside an operator: a parameter, or a literal
//! in quotes. DataFusion gives it the type of the other side, which is wrong where the sides
//! of an operator differ: `$1 * interval '1 day'`, `time + $1`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit};
use datafusion::{
    common::{DFSchema, Result, ScalarValue},
    logical_expr::{
        Expr, ExprSchemable, cast,
        expr::Placeholder,
        planner::{ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawWindowExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Types parameters beside operators before others plan them.
#[derive(Debug)]
pub struct OpenParameters;

impl ExprPlanner for OpenParameters {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let (open, other, on_left) = match (is_open(&expr.left), is_open(&expr.right)) {
            (true, false) => (&mut expr.left, &expr.right, true),
            (false, true) => (&mut expr.right, &expr.left, false),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let Ok(beside) = other.get_type(schema) else { return Ok(PlannerResult::Original(expr)) };
        let wanted = match (&expr.op, &beside) {
            (BinaryOperator::Plus, DataType::Timestamp(_, _)) => INTERVAL,
            (BinaryOperator::Multiply, DataType::Interval(_)) => DataType::Float64,
            (BinaryOperator::Divide, DataType::Interval(_)) if !on_left => DataType::Float64,
            (_, DataType::Int64) if is_integer(other) => DataType::Int32,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        match open {
            Expr::Placeholder(placeholder) => {
                let field = Arc::new(Field::new("", wanted, true));
                let id = std::mem::take(&mut placeholder.id);
                *placeholder = Placeholder::new_with_field(id, Some(field));
            }
            literal if wanted == DataType::Float64 => {
                *literal = cast(std::mem::take(literal), wanted);
            }
            _ => {}
        }
        Ok(PlannerResult::Original(expr))
    }

    fn plan_aggregate(
        &self,
        mut expr: RawAggregateExpr,
    ) -> Result<PlannerResult<RawAggregateExpr>> {
        expr.args = expr.args.into_iter().map(with_casts_named).collect();
        Ok(PlannerResult::Original(expr))
    }

    fn plan_window(&self, mut expr: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        expr.args = expr.args.into_iter().map(with_casts_named).collect();
        expr.partition_by = expr.partition_by.into_iter().map(with_casts_named).collect();
        for order in &mut expr.order_by {
            order.expr = with_casts_named(std::mem::take(&mut order.expr));
        }
        Ok(PlannerResult::Original(expr))
    }
}

fn is_open(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Placeholder(Placeholder { field: None, .. })
            | Expr::Literal(
                ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::LargeUtf8(_),
                None
            )
    )
}

/// Whether it is a constant that PostgreSQL calls an integer.
fn is_integer(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Int64(Some(value)), None) if i32::try_from(*value).is_ok())
}

/// The planner names `sum(v)` and `sum(v::bigint)` alike, and takes only one of them. A cast
/// that has a name is part of the name.
fn with_casts_named(expr: Expr) -> Expr {
    use datafusion::common::tree_node::TreeNode;
    let casts =
        expr.exists(|part| Ok(matches!(part, Expr::Cast(_) | Expr::TryCast(_)))).unwrap_or(false);
    if !casts || matches!(expr, Expr::Alias(_)) {
        return expr;
    }
    let name = expr.to_string();
    expr.alias(name)
}
