//! Determines the types of untyped operands like in PostgreSQL: parameters, and quoted literals.
//! DataFusion assumes the type of the other operand, which is wrong for operators with different
//! operand types: `$1 * interval '1 day'`, `time + $1`.

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
use stratalog_functions::literal;
use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_text::TextStyle;

use super::common_types::{ValueType, common_type, in_type};
use crate::errors::to_datafusion;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Planner extension: gives types to untyped operands. Runs before other expression planners.
#[derive(Debug)]
pub struct OpenParameters;

impl ExprPlanner for OpenParameters {
    fn plan_array_literal(
        &self,
        elements: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        in_common_type(elements, schema).map(PlannerResult::Original)
    }

    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op == BinaryOperator::StringConcat && is_open(&expr.left) && is_open(&expr.right) {
            for operand in [&mut expr.left, &mut expr.right] {
                if let Expr::Placeholder(placeholder) = operand {
                    let field = Arc::new(Field::new("", DataType::Utf8View, true));
                    let id = std::mem::take(&mut placeholder.id);
                    *placeholder = Placeholder::new_with_field(id, Some(field));
                }
            }
            return Ok(PlannerResult::Original(expr));
        }
        let (open, other, on_left) = match (is_open(&expr.left), is_open(&expr.right)) {
            (true, false) => (&mut expr.left, &expr.right, true),
            (false, true) => (&mut expr.right, &expr.left, false),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let Ok(beside) = other.get_type(schema) else { return Ok(PlannerResult::Original(expr)) };
        if takes_arrays(&expr.op)
            && let DataType::List(_) = &beside
        {
            *open = as_array(std::mem::take(open), &beside)?;
            return Ok(PlannerResult::Original(expr));
        }
        if let Some(wanted) = of_operator(&expr.op, type_of(other, schema), on_left) {
            *open = read_as(std::mem::take(open), &wanted)?;
            return Ok(PlannerResult::Original(expr));
        }
        let is_text = |known: &DataType| {
            matches!(known, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
        };
        let wanted = match (&expr.op, &beside) {
            (BinaryOperator::PGExp, known) if known.is_integer() => DataType::Float64,
            // `||` concatenates text with a value of any type.
            (BinaryOperator::StringConcat, known)
                if matches!(open, Expr::Placeholder(_)) && !is_text(known) && !known.is_null() =>
            {
                DataType::Utf8View
            }
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
        narrow_argument(expr.func.name(), &mut expr.args);
        expr.args = expr.args.into_iter().map(with_casts_named).collect();
        Ok(PlannerResult::Original(expr))
    }

    fn plan_window(&self, mut expr: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        narrow_argument(expr.func_def.name(), &mut expr.args);
        expr.args = expr.args.into_iter().map(with_casts_named).collect();
        expr.partition_by = expr.partition_by.into_iter().map(with_casts_named).collect();
        for order in &mut expr.order_by {
            order.expr = with_casts_named(std::mem::take(&mut order.expr));
        }
        Ok(PlannerResult::Original(expr))
    }
}

fn type_of(expr: &Expr, schema: &DFSchema) -> Option<ColumnType> {
    let (_, field) = expr.to_field(schema).ok()?;
    ColumnType::from_arrow_field(&field)
}

/// The type of an untyped operand, if the operator and the type `beside` of the other operand
/// determine it.
fn of_operator(
    op: &BinaryOperator,
    beside: Option<ColumnType>,
    on_left: bool,
) -> Option<ColumnType> {
    use BinaryOperator as Op;
    match (op, beside?) {
        (
            Op::HashArrow | Op::HashLongArrow | Op::HashMinus | Op::QuestionPipe | Op::QuestionAnd,
            ColumnType::Jsonb,
        ) if !on_left => Some(ColumnType::Array(Box::new(ColumnType::Text))),
        (Op::StringConcat | Op::AtArrow | Op::ArrowAt, ColumnType::Jsonb) => {
            Some(ColumnType::Jsonb)
        }
        (Op::StringConcat, ColumnType::Bytea) => Some(ColumnType::Bytea),
        (Op::Minus, ColumnType::Date) if !on_left => Some(ColumnType::Date),
        _ => None,
    }
}

/// Whether an operator requires arrays of the same type on both sides.
fn takes_arrays(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::StringConcat
            | BinaryOperator::AtArrow
            | BinaryOperator::ArrowAt
            | BinaryOperator::PGOverlap
            | BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

/// Gives an untyped operand the array type `beside` of the other operand.
fn as_array(open: Expr, beside: &DataType) -> Result<Expr> {
    let field = Field::new("", beside.clone(), true);
    match ColumnType::from_arrow_field(&field) {
        Some(column_type) => read_as(open, &column_type),
        None => Ok(open),
    }
}

/// Gives an untyped operand the type `column_type`.
fn read_as(open: Expr, column_type: &ColumnType) -> Result<Expr> {
    Ok(match open {
        Expr::Placeholder(Placeholder { id, .. }) => {
            let field = Arc::new(column_type.arrow_field("", true));
            Expr::Placeholder(Placeholder::new_with_field(id, Some(field)))
        }
        Expr::Literal(value, None) => match value.try_as_str().flatten() {
            Some(text) => literal::read_early(text, column_type)?,
            None => Expr::Literal(value, None),
        },
        other => other,
    })
}

/// Casts the elements of `ARRAY[…]` to their common type. Quoted constants get the type of the
/// other elements, and whole numbers become integers if their values fit.
///
/// # Errors
/// An error if no elements exist, if elements are arrays, or if the elements have no common type.
pub fn in_common_type(mut elements: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    if elements.is_empty() {
        return Err(to_datafusion(
            Error::new(ErrorKind::IndeterminateDatatype, "cannot determine type of empty array")
                .with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."),
        ));
    }
    let given: Vec<ValueType> =
        elements.iter().map(|element| ValueType::of(element, schema)).collect();
    if given.iter().any(|given| matches!(given, ValueType::Typed(ColumnType::Array(_), _))) {
        return Err(to_datafusion(Error::new(
            ErrorKind::FeatureNotSupported,
            "arrays of more than one dimension are not supported",
        )));
    }
    let Some(wanted) = common_type("ARRAY", &given)? else { return Ok(elements) };
    for (element, given) in elements.iter_mut().zip(&given) {
        *element = match std::mem::take(element) {
            Expr::Placeholder(Placeholder { id, field: None }) => {
                let field = Arc::new(wanted.arrow_field("", true));
                Expr::Placeholder(Placeholder::new_with_field(id, Some(field)))
            }
            element => match given {
                ValueType::Text(text) => literal::read_early(text, &wanted)?,
                given => in_type(element, given, &wanted, schema, &TextStyle::default())?,
            },
        };
    }
    Ok(elements)
}

/// Narrows a bigint constant to integer, if it is the argument of an aggregate that returns its
/// argument.
fn narrow_argument(function: &str, arguments: &mut [Expr]) {
    const GIVE_IT: [&str; 9] = [
        "array_agg",
        "first_value",
        "lag",
        "last_value",
        "lead",
        "max",
        "min",
        "mode",
        "nth_value",
    ];
    if GIVE_IT.contains(&function)
        && let Some(argument) = arguments.first_mut()
        && let Expr::Literal(ScalarValue::Int64(Some(value)), None) = argument
        && let Ok(value) = i32::try_from(*value)
    {
        *argument = Expr::Literal(ScalarValue::Int32(Some(value)), None);
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

/// Whether `expr` is a constant of PostgreSQL's type integer.
fn is_integer(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Int64(Some(value)), None) if i32::try_from(*value).is_ok())
}

/// Gives an expression that contains casts its full text as the name. Otherwise the planner would
/// give `sum(v)` and `sum(v::bigint)` the same name, and keep only one of them.
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
