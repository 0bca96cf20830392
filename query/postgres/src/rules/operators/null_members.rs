//! Separates NULL from the other values of IN: `x IN (1, NULL)` becomes `x IN (1) OR NULL`.
//! DataFusion treats NULL like a value when it merges lists, and then loses the unknown result
//! (NULL). For example, it would turn `x NOT IN (1, NULL) OR x NOT IN (1, 2)` into `x <> 1`, and a
//! search in a constant array, `2 = ANY ('{1,NULL}')`, into false. DataFusion would also replace a
//! CASE in the list by its ELSE.

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema, Result, ScalarValue,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    functions_nested::{empty::array_empty_udf, position::array_position_udf},
    logical_expr::{
        Expr, ExprSchemable,
        expr::{InList, ScalarFunction},
        expr_rewriter::FunctionRewrite,
        lit, when,
    },
};

fn is_null(value: &Expr) -> bool {
    match value {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        Expr::TryCast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

/// Whether an expression contains a subquery.
pub fn has_subquery(expr: &Expr) -> bool {
    let is_one = |part: &Expr| {
        matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_))
    };
    expr.exists(|part| Ok(is_one(part))).unwrap_or(true)
}

/// Whether DataFusion could mistake a value of a list for a constant. DataFusion evaluates each
/// value without rows, and a CASE then returns its ELSE.
fn looks_constant(value: &Expr) -> bool {
    value.any_column_refs()
        && value
            .exists(|part| Ok(matches!(part, Expr::Case(_) | Expr::ScalarFunction(_))))
            .unwrap_or(true)
}

/// Rewrites `array_has(array, value)` of constants so that the result is NULL, and not false, if
/// the value is missing but the array contains a NULL.
fn or_unknown(call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let [array, value] = call.args.as_slice() else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    let element = match array.get_type(schema) {
        Ok(DataType::List(element)) => element,
        _ => return Ok(Transformed::no(Expr::ScalarFunction(call))),
    };
    let is_constant =
        |expr: &Expr| !expr.any_column_refs() && !expr.is_volatile() && !has_subquery(expr);
    if !is_constant(array) || !is_constant(value) {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    let null = Expr::Literal(ScalarValue::try_new_null(element.data_type())?, None);
    let has_null = array_position_udf().call(vec![array.clone(), null]).is_not_null();
    let is_empty = array_empty_udf().call(vec![array.clone()]);
    let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
    let otherwise = when(has_null, unknown).otherwise(lit(false))?;
    // An empty array contains nothing, and the result is false even for NULL.
    let found = when(is_empty, lit(false)).otherwise(Expr::ScalarFunction(call).or(otherwise))?;
    Ok(Transformed::yes(found))
}

/// Moves NULL out of IN lists.
#[derive(Debug)]
pub struct NullMembers;

impl FunctionRewrite for NullMembers {
    fn name(&self) -> &str {
        "null_members"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match expr {
            Expr::ScalarFunction(call) if call.name() == "array_has" => or_unknown(call, schema),
            Expr::InList(InList { expr, mut list, negated })
                if list.iter().any(looks_constant) && !expr.is_volatile() =>
            {
                let others = list.extract_if(.., |value| looks_constant(value)).collect::<Vec<_>>();
                let constants = match list.is_empty() {
                    true => lit(negated),
                    false => Expr::InList(InList::new(expr.clone(), list, negated)),
                };
                let all = others.into_iter().fold(constants, |all, value| match negated {
                    false => all.or(expr.as_ref().clone().eq(value)),
                    true => all.and(expr.as_ref().clone().not_eq(value)),
                });
                Ok(Transformed::yes(all))
            }
            Expr::InList(InList { expr, mut list, negated }) if list.iter().any(is_null) => {
                list.retain(|value| !is_null(value));
                // Keeps the list as a list. PostgreSQL compares a real with a list as reals, but
                // with a single value in double precision.
                if let [one] = list.as_slice()
                    && expr.get_type(schema)? == DataType::Float32
                {
                    list.push(one.clone());
                }
                let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
                Ok(Transformed::yes(match (list.is_empty(), negated) {
                    (true, _) => unknown,
                    (false, false) => Expr::InList(InList::new(expr, list, false)).or(unknown),
                    (false, true) => Expr::InList(InList::new(expr, list, true)).and(unknown),
                }))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}
