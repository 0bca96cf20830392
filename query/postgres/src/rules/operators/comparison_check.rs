//! Refuses comparisons for which PostgreSQL has no operator, and conditions that are not boolean.
//! DataFusion would compare text with any other type as text, which makes `'10' < 9` true, and
//! would accept numbers as conditions.

use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::TreeNodeRecursion},
    logical_expr::{
        BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, expr::AggregateFunction,
        utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_functions::{function::sql_name, literal::compares};
use stratalog_model::{Error, ErrorKind};

use crate::errors::{no_operator, to_datafusion};

/// Refuses comparisons of text with other types, and conditions that are not boolean. Runs before
/// type coercion, while constants without a type are still text literals.
#[derive(Debug)]
pub struct ComparisonCheck;

impl AnalyzerRule for ComparisonCheck {
    fn name(&self) -> &str {
        "compared"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.each_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            if let LogicalPlan::Join(join) = node {
                for (left, right) in &join.on {
                    same_kind(left, right, "=", &schema)?;
                }
            }
            node.apply_expressions(|expr| {
                expr.each(|expr| check(expr, &schema).map(|()| TreeNodeRecursion::Continue))
            })
        })?;
        Ok(plan)
    }
}

/// Refuses bit operators for numbers other than integers, the remainder of floats, and `@>` of
/// numbers.
fn has_operator(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Result<()> {
    use Operator::{
        ArrowAt, AtArrow, BitwiseAnd, BitwiseOr, BitwiseShiftLeft, BitwiseShiftRight, BitwiseXor,
        Modulo,
    };
    let refused: fn(&DataType) -> bool = match op {
        BitwiseAnd | BitwiseOr | BitwiseXor | BitwiseShiftLeft | BitwiseShiftRight => {
            |of| of.is_floating() || of.is_decimal()
        }
        Modulo => DataType::is_floating,
        AtArrow | ArrowAt => |of| of.is_numeric() || *of == DataType::Boolean,
        _ => return Ok(()),
    };
    let (Ok(of_left), Ok(of_right)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok(());
    };
    if !refused(&of_left) && !refused(&of_right) {
        return Ok(());
    }
    let op = if op == BitwiseXor { "#".to_string() } else { op.to_string() };
    let (left, right) = (sql_name(&of_left), sql_name(&of_right));
    Err(to_datafusion(no_operator(&format!("{left} {op} {right}"))))
}

fn check(expr: &Expr, schema: &DFSchema) -> Result<()> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
            same_kind(left, right, &op.to_string(), schema)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => has_operator(left, *op, right, schema),
        Expr::IsTrue(value) => is_condition(value, "IS TRUE", schema),
        Expr::IsNotTrue(value) => is_condition(value, "IS NOT TRUE", schema),
        Expr::IsFalse(value) => is_condition(value, "IS FALSE", schema),
        Expr::IsNotFalse(value) => is_condition(value, "IS NOT FALSE", schema),
        Expr::IsUnknown(value) => is_condition(value, "IS UNKNOWN", schema),
        Expr::IsNotUnknown(value) => is_condition(value, "IS NOT UNKNOWN", schema),
        Expr::Between(between) => {
            same_kind(&between.expr, &between.low, ">=", schema)?;
            same_kind(&between.expr, &between.high, "<=", schema)
        }
        Expr::InList(list) => {
            list.list.iter().try_for_each(|value| same_kind(&list.expr, value, "=", schema))
        }
        Expr::InSubquery(set) => match set.subquery.subquery.schema().fields().first() {
            Some(field) => mixes(&kind(&set.expr, schema), field.data_type(), "="),
            None => Ok(()),
        },
        Expr::SetComparison(set) => match set.subquery.subquery.schema().fields().first() {
            Some(field) => mixes(&kind(&set.expr, schema), field.data_type(), &set.op.to_string()),
            None => Ok(()),
        },
        Expr::Case(Case { expr: None, when_then_expr, .. }) => {
            when_then_expr.iter().try_for_each(|(when, _)| is_condition(when, "CASE/WHEN", schema))
        }
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            has_extremes(func.name(), &params.args, schema)?;
            joins_text(func.name(), &params.args, schema)?;
            match &params.filter {
                Some(filter) => is_condition(filter, "FILTER", schema),
                None => Ok(()),
            }
        }
        Expr::WindowFunction(call) => {
            has_extremes(call.fun.name(), &call.params.args, schema)?;
            joins_text(call.fun.name(), &call.params.args, schema)
        }
        _ => Ok(()),
    }
}

/// Refuses `min` and `max` of uuids, which PostgreSQL does not have. The planner would compare the
/// bytes.
fn has_extremes(name: &str, arguments: &[Expr], schema: &DFSchema) -> Result<()> {
    let of_uuids = arguments
        .iter()
        .any(|argument| matches!(kind(argument, schema), DataType::FixedSizeBinary(_)));
    if !matches!(name, "min" | "max") || !of_uuids {
        return Ok(());
    }
    let message = format!("function {name}(uuid) does not exist");
    Err(to_datafusion(
        Error::new(ErrorKind::UndefinedFunction, message).with_hint("cast the uuid to text"),
    ))
}

/// Refuses `string_agg` of bytes: the planner would concatenate the text of the bytes.
fn joins_text(name: &str, arguments: &[Expr], schema: &DFSchema) -> Result<()> {
    let of_bytes = arguments.first().is_some_and(|argument| {
        matches!(
            kind(argument, schema),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView
        )
    });
    if name != "string_agg" || !of_bytes {
        return Ok(());
    }
    Err(to_datafusion(
        Error::not_yet("string_agg() of bytea")
            .with_hint("join the text: decode(string_agg(encode(v, 'hex'), ''), 'hex')"),
    ))
}

/// The type of an expression. `Null` means an unknown type, or an expression without a type of its
/// own, for example a quoted constant.
fn kind(expr: &Expr, schema: &DFSchema) -> DataType {
    match expr {
        Expr::Literal(value, _) if value.try_as_str().is_some() => DataType::Null,
        Expr::Placeholder(_) => DataType::Null,
        Expr::Alias(alias) => kind(&alias.expr, schema),
        other => other.get_type(schema).unwrap_or(DataType::Null),
    }
}

fn same_kind(left: &Expr, right: &Expr, operator: &str, schema: &DFSchema) -> Result<()> {
    mixes(&kind(left, schema), &kind(right, schema), operator)
}

/// Refuses an operator with text on one side and another type on the other side. Object ids can be
/// compared with text, because they have names.
fn mixes(left: &DataType, right: &DataType, operator: &str) -> Result<()> {
    let other = |data_type: &DataType| {
        data_type.is_signed_integer()
            || data_type.is_floating()
            || data_type.is_decimal()
            || data_type.is_temporal()
            || *data_type == DataType::Boolean
            || *data_type == DataType::FixedSizeBinary(16)
    };
    if left.is_string() && other(right) || other(left) && right.is_string() {
        let (left, right) = (sql_name(left), sql_name(right));
        return Err(to_datafusion(
            Error::new(
                ErrorKind::UndefinedFunction,
                format!("operator does not exist: {left} {operator} {right}"),
            )
            .with_hint("cast one side to the type of the other"),
        ));
    }
    Ok(())
}

fn is_condition(expr: &Expr, place: &str, schema: &DFSchema) -> Result<()> {
    match kind(expr, schema) {
        DataType::Boolean | DataType::Null => Ok(()),
        given => Err(to_datafusion(Error::new(
            ErrorKind::DatatypeMismatch,
            format!("argument of {place} must be type boolean, not type {}", sql_name(&given)),
        ))),
    }
}
