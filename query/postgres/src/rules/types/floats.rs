//! Like in PostgreSQL, a numeric or an integer combined with a double precision or real becomes a
//! double precision. DataFusion would convert the float to a numeric, which is slow, rounds, and
//! fails for NaN; and an integer combined with a real to a real, which rounds.

use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Values,
        cast,
        expr_rewriter::NamePreserver,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
        utils::merge_schema,
    },
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
    sql::sqlparser::ast::BinaryOperator,
};
use stratalog_functions::literal::compares;
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};

use super::common_types::is_set_operation;

mod sets;

/// Rule: casts numbers to double precision like PostgreSQL. Runs before type coercion.
#[derive(Debug)]
pub struct FloatPromotion;

impl AnalyzerRule for FloatPromotion {
    fn name(&self) -> &str {
        "floats_win"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            schema.merge(plan.schema());
            let (plan, has_new_keys) = of_keys(plan);
            let names = NamePreserver::new(&plan);
            let changed = plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let changed = expr.change_up(|expr| of_expression(expr, &schema))?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })?;
            // The types of the nodes below may have changed too.
            let data = changed.data.recompute_schema()?;
            Ok(if changed.transformed || has_new_keys {
                Transformed::yes(data)
            } else {
                Transformed::no(data)
            })
        })
        .map(|plan| plan.data)
    }
}

/// Gives quotients of numerics their full number of decimal places already during planning. The
/// planning of a function that rounds a column of a subquery depends on this number.
#[derive(Debug)]
pub struct Quotients;

impl ExprPlanner for Quotients {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let types = (expr.left.get_type(schema), expr.right.get_type(schema));
        if let (BinaryOperator::Divide, (Ok(dividend), Ok(divisor))) = (&expr.op, types)
            && let Some(wide) = dividend_type(&dividend, &divisor)
            && wide != dividend
        {
            expr.left = cast(expr.left, wide);
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Plans arithmetic of a real with an integer or numeric in double precision, so that outer
/// expressions get the right types.
#[derive(Debug)]
pub struct RealOperands;

impl ExprPlanner for RealOperands {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let computes = matches!(
            expr.op,
            BinaryOperator::Plus
                | BinaryOperator::Minus
                | BinaryOperator::Multiply
                | BinaryOperator::Divide
        );
        if computes
            && let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema))
            && in_doubles(&left, &right)
        {
            expr.left = in_double(expr.left, &left);
            expr.right = in_double(expr.right, &right);
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// The type to which the dividend of a numeric division is cast; `None` if the quotient is not a
/// numeric.
fn dividend_type(dividend: &DataType, divisor: &DataType) -> Option<DataType> {
    if is_numeric(dividend) && (is_numeric(divisor) || divisor.is_integer()) {
        Some(with_fraction(dividend))
    } else if dividend.is_integer() && is_numeric(divisor) {
        Some(DataType::Decimal128(38, QUOTIENT_DIGITS))
    } else {
        None
    }
}

fn is_numeric(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(_, _) | DataType::Decimal256(_, _))
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

fn is_exact(data_type: &DataType) -> bool {
    is_numeric(data_type) || data_type.is_integer()
}

/// Whether PostgreSQL casts both operands to double precision, but DataFusion would not.
fn in_doubles(left: &DataType, right: &DataType) -> bool {
    let meet = |exact: &DataType, float: &DataType| match float {
        DataType::Float32 => is_exact(exact),
        DataType::Float64 => is_numeric(exact),
        _ => false,
    };
    meet(left, right) || meet(right, left)
}

/// Casts a number to double precision. Other values stay unchanged.
fn in_double(expr: Expr, given: &DataType) -> Expr {
    match given {
        DataType::Float32 => cast(expr, DataType::Float64),
        exact if is_exact(exact) => float(expr),
        _ => expr,
    }
}

/// The integer or numeric constant as a real; `None` if the type real would round it. The
/// comparison of a real with such a constant has the same result in both types, and a scan can
/// evaluate conditions on columns but not on casts.
fn in_real(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(value, metadata) = expr else { return None };
    if !is_exact(&value.data_type()) {
        return None;
    }
    let text = value.cast_to(&DataType::Utf8).ok()?;
    let text = text.try_as_str()??;
    let (real, double) = (text.parse::<f32>().ok()?, text.parse::<f64>().ok()?);
    let same = f64::from(real).to_bits() == double.to_bits();
    same.then(|| Expr::Literal(ScalarValue::Float32(Some(real)), metadata.clone()))
}

/// Casts the sides of a comparison whose types [`in_doubles`] accepts.
fn comparison_in_doubles(left: (Expr, &DataType), right: (Expr, &DataType)) -> (Expr, Expr) {
    if *left.1 == DataType::Float32
        && let Some(real) = in_real(&right.0)
    {
        return (left.0, real);
    }
    if *right.1 == DataType::Float32
        && let Some(real) = in_real(&left.0)
    {
        return (real, right.0);
    }
    (in_double(left.0, left.1), in_double(right.0, right.1))
}

/// Casts the keys of a join to the type in which PostgreSQL compares them. The flag is true if a
/// key changed. The keys of INTERSECT and EXCEPT already have common types.
fn of_keys(plan: LogicalPlan) -> (LogicalPlan, bool) {
    let LogicalPlan::Join(mut join) = plan else { return (plan, false) };
    if is_set_operation(&join) {
        return (LogicalPlan::Join(join), false);
    }
    let mut changed = false;
    for (left, right) in &mut join.on {
        let types = (left.get_type(join.left.schema()), right.get_type(join.right.schema()));
        if let (Ok(left_type), Ok(right_type)) = types
            && in_doubles(&left_type, &right_type)
        {
            *left = in_double(std::mem::take(left), &left_type);
            *right = in_double(std::mem::take(right), &right_type);
            changed = true;
        }
    }
    (LogicalPlan::Join(join), changed)
}

/// Whether the types include a numeric and a float.
fn meet<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> bool {
    types.clone().any(is_numeric) && types.clone().any(is_float)
}

/// Casts `expr` to double precision. A numeric constant is parsed again from its text, without an
/// intermediate rounding.
pub fn float(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(value, metadata) if is_numeric(&value.data_type()) => {
            let text = value.cast_to(&DataType::Utf8).ok();
            let number = text
                .as_ref()
                .and_then(|text| text.try_as_str().flatten())
                .and_then(|text| text.parse::<f64>().ok());
            match number {
                Some(number) => Expr::Literal(ScalarValue::Float64(Some(number)), metadata),
                None => cast(Expr::Literal(value, metadata), DataType::Float64),
            }
        }
        // The planner added this cast to numeric.
        Expr::Cast(Cast { expr, field }) if is_numeric(field.data_type()) && is_constant(&expr) => {
            float(*expr)
        }
        Expr::Alias(mut alias) => {
            alias.expr = Box::new(float(*alias.expr));
            Expr::Alias(alias)
        }
        other => cast(other, DataType::Float64),
    }
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(_, _))
}

/// Gives the numbers in an expression their final types.
///
/// # Errors
/// Errors from the types of the operands.
pub fn settled(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(expr.change_up(|expr| of_expression(expr, schema))?.data)
}

fn of_expression(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let type_of = |expr: &Expr| expr.get_type(schema).unwrap_or(DataType::Null);
    let float_if_numeric = |expr: Expr| {
        let numeric = is_numeric(&type_of(&expr));
        if numeric { float(expr) } else { expr }
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, right })
            if let Some(wide) = dividend_type(&type_of(&left), &type_of(&right)) =>
        {
            let changed = wide != type_of(&left);
            let left = if changed { Box::new(cast(*left, wide)) } else { left };
            let divided = Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, right });
            Ok(if changed { Transformed::yes(divided) } else { Transformed::no(divided) })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_of_numbers(op) => {
            let types = (type_of(&left), type_of(&right));
            if !in_doubles(&types.0, &types.1) {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
            let (left, right) = match compares(op) {
                true => comparison_in_doubles((*left, &types.0), (*right, &types.1)),
                false => (in_double(*left, &types.0), in_double(*right, &types.1)),
            };
            let (left, right) = (Box::new(left), Box::new(right));
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
        }
        Expr::Between(between) => Ok(sets::of_between(between, schema)),
        Expr::InList(list) => Ok(sets::of_list(list, schema)),
        Expr::InSubquery(mut set) => {
            let changed = sets::of_subquery(&mut set.expr, &mut set.subquery, schema)?;
            Ok(Transformed::new_transformed(Expr::InSubquery(set), changed))
        }
        Expr::SetComparison(mut set) => {
            let changed = sets::of_subquery(&mut set.expr, &mut set.subquery, schema)?;
            Ok(Transformed::new_transformed(Expr::SetComparison(set), changed))
        }
        Expr::ScalarFunction(mut call) if call.name() == "array_has" => {
            let changed = sets::of_array(&mut call.args, schema);
            Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
        }
        Expr::Case(case) => {
            let Transformed { data: mut case, transformed, .. } = sets::of_case(case, schema);
            let mut results: Vec<DataType> =
                case.when_then_expr.iter().map(|(_, then)| type_of(then)).collect();
            results.extend(case.else_expr.iter().map(|expr| type_of(expr)));
            if !meet(results.iter()) {
                return Ok(Transformed::new_transformed(Expr::Case(case), transformed));
            }
            for (_, then) in &mut case.when_then_expr {
                **then = float_if_numeric(std::mem::take(then));
            }
            case.else_expr = case.else_expr.map(|expr| Box::new(float_if_numeric(*expr)));
            Ok(Transformed::yes(Expr::Case(case)))
        }
        Expr::ScalarFunction(mut call)
            if matches!(call.name(), "coalesce" | "greatest" | "least" | "nullif")
                && meet(call.args.iter().map(type_of).collect::<Vec<_>>().iter()) =>
        {
            call.args = call.args.into_iter().map(float_if_numeric).collect();
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Decimal places of a dividend. The quotient has four decimal places more.
const QUOTIENT_DIGITS: i8 = 12;

/// The type of a dividend with enough decimal places for a quotient with 16 decimal places,
/// PostgreSQL's minimum, or with as many as fit in 38 digits.
fn with_fraction(dividend: &DataType) -> DataType {
    match dividend {
        DataType::Decimal128(precision, scale) if *scale < QUOTIENT_DIGITS => {
            let more = QUOTIENT_DIGITS.saturating_sub(*scale).cast_unsigned();
            // The planner gives `ceil(9.5)` the type of 9.5, which has no digit for the 10.
            let carry = 1;
            let more = more.min(38_u8.saturating_sub(*precision).saturating_sub(carry));
            DataType::Decimal128(
                precision.saturating_add(more).saturating_add(carry).min(38),
                scale.saturating_add(more.cast_signed()),
            )
        }
        other => other.clone(),
    }
}

fn is_of_numbers(op: Operator) -> bool {
    op.is_numerical_operators() || compares(op)
}

/// Casts each column of VALUES that contains both a numeric and a float to double precision; the
/// planner has cast all its values to numeric. Must run on the planner's original plan, before
/// casts become functions.
pub fn values_in_doubles(mut values: Values) -> Result<Transformed<LogicalPlan>> {
    let none = DFSchema::empty();
    let given = |expr: &Expr| match expr {
        Expr::Cast(Cast { expr, .. }) => expr.get_type(&none),
        other => other.get_type(&none),
    };
    let mut changed = false;
    for at in 0..values.schema.fields().len() {
        let numeric =
            values.schema.fields().get(at).is_some_and(|field| is_numeric(field.data_type()));
        let mut cells = values.values.iter().filter_map(|row| row.get(at));
        if !numeric || !cells.any(|cell| given(cell).is_ok_and(|given| is_float(&given))) {
            continue;
        }
        changed = true;
        for row in &mut values.values {
            if let Some(cell) = row.get_mut(at) {
                *cell = match std::mem::take(cell) {
                    Expr::Cast(Cast { expr, .. })
                        if expr.get_type(&none).is_ok_and(|given| is_float(&given)) =>
                    {
                        *expr
                    }
                    other => float(other),
                };
            }
        }
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Values(values)));
    }
    LogicalPlanBuilder::values(values.values)?.build().map(Transformed::yes)
}
