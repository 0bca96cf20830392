//! Writes CASE as a function call, in queries in which the planner would give CASE another type
//! than PostgreSQL. The planner uses the type of the first result, and ignores the SQL type jsonb:
//!
//! ```text
//!   (CASE WHEN a THEN j END) || b   ─►   $case(false, a, j, NULL) || b
//!   VALUES (CASE WHEN a THEN 1 ELSE 2.5 END), (3)
//! ```
//!
//! A query is planned with these calls only if its first plan contains a CASE with a wrong type,
//! because planning the calls takes longer. [`RestoredCases`] turns the calls back into CASE
//! expressions before other rules run.

use std::{ops::ControlFlow, sync::Arc};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{
        DFSchema, Result, ScalarValue,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    logical_expr::{
        Case, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
        ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        expr::ScalarFunction,
        expr_rewriter::FunctionRewrite,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
    sql::sqlparser::ast::{
        CaseWhen, Expr as Written, Function, Ident, ObjectName, Statement, Value,
    },
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{ColumnType, Error};

use super::common_types::{ValueType, common_type};
use crate::{
    errors::to_datafusion,
    parameters::input_schema,
    parse::call,
    walk::{self, Tree},
};

/// The name of the function. No statement can write this name.
const FUNCTION: &str = "$case";

/// Creates the function `$case`. The function is volatile, so that no rule computes a call before
/// the call becomes a CASE again.
pub fn function() -> Arc<ScalarUDF> {
    let signature = Signature::variadic_any(Volatility::Volatile);
    Arc::new(ScalarUDF::new_from_impl(CaseCall { signature }))
}

/// Whether a tree contains a CASE.
pub fn has_case(tree: &impl Tree) -> bool {
    let each = |expr: &Written| match expr {
        Written::Case { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    walk::expressions(tree, each).is_break()
}

/// Replaces each CASE of a statement by a call of `$case`.
pub fn as_calls(statement: &mut Statement) {
    let null = || Written::Value(Value::Null.into());
    let _ = walk::expressions_mut(statement, |expr| {
        let Written::Case { operand, conditions, else_result, .. } = expr else {
            return ControlFlow::Continue(());
        };
        let has_base = Written::Value(Value::Boolean(operand.is_some()).into());
        let mut arguments = vec![has_base];
        arguments.extend(operand.take().map(|base| *base));
        for CaseWhen { condition, result } in std::mem::take(conditions) {
            arguments.extend([condition, result]);
        }
        arguments.push(else_result.take().map_or_else(null, |other| *other));
        if let Some(Written::Function(function)) = call("case_of", arguments) {
            let name = ObjectName::from(vec![Ident::new(FUNCTION)]);
            *expr = Written::Function(Function { name, ..function });
        }
        ControlFlow::Continue(())
    });
}

/// Whether a CASE in the plan has a type that is not PostgreSQL's type.
///
/// # Errors
/// Errors of the plan traversal.
pub fn are_mistyped(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each_with_subqueries(|node| {
        let schema = input_schema(node);
        let in_values = matches!(node, LogicalPlan::Values(_));
        node.apply_expressions(|expr| {
            expr.each(|part| {
                found = found
                    || matches!(part, Expr::Case(case) if is_mistyped(case, part, &schema, in_values));
                Ok(match found {
                    true => TreeNodeRecursion::Stop,
                    false => TreeNodeRecursion::Continue,
                })
            })
        })
    })?;
    Ok(found)
}

fn is_mistyped(case: &Case, whole: &Expr, schema: &DFSchema, in_values: bool) -> bool {
    let results = || case.else_expr.iter().chain(case.when_then_expr.iter().map(|(_, then)| then));
    let given: Vec<ValueType> = results().map(|result| ValueType::of(result, schema)).collect();
    // If the types do not match, a later rule reports the error.
    let Ok(Some(wanted)) = common_type("CASE", &given) else { return false };
    let Ok((_, field)) = whole.to_field(schema) else { return false };
    match ColumnType::from_arrow_field(&field) {
        // The precision and scale must match too, because the planner derives the types of outer
        // functions from them.
        Some(planned) => {
            let is_settled_later = !in_values && is_narrowed(&planned, &wanted);
            planned != wanted && !(is_settled_later && results().all(|result| is_constant(result)))
        }
        None => true,
    }
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Negative(inner) => matches!(inner.as_ref(), Expr::Literal(..)),
        Expr::Case(inner) => inner
            .else_expr
            .iter()
            .chain(inner.when_then_expr.iter().map(|(_, then)| then))
            .all(|result| is_constant(result)),
        other => matches!(other, Expr::Literal(..)),
    }
}

/// Whether the types differ only because constants are still bigint: a later rule makes them
/// integers.
fn is_narrowed(planned: &ColumnType, wanted: &ColumnType) -> bool {
    matches!((planned, wanted), (ColumnType::BigInt, ColumnType::Integer))
}

/// The parts of the CASE that a call of `$case` represents.
pub struct CaseParts<'a> {
    /// The value that is compared with all conditions (`CASE v WHEN …`); `None` without such a
    /// value.
    pub base: Option<&'a Expr>,
    /// The pairs of a condition and its result.
    pub choices: &'a [[Expr; 2]],
    /// The result of ELSE.
    pub otherwise: &'a Expr,
}

/// The parts of a call of `$case`; `None` for calls of other functions.
pub fn parts(call: &ScalarFunction) -> Option<CaseParts<'_>> {
    if !call.func.inner().is::<CaseCall>() {
        return None;
    }
    let (first, rest) = call.args.split_first()?;
    let (otherwise, rest) = rest.split_last()?;
    let (base, rest) = match first {
        Expr::Literal(ScalarValue::Boolean(Some(true)), _) => {
            let (base, rest) = rest.split_first()?;
            (Some(base), rest)
        }
        _ => (None, rest),
    };
    let (choices, []) = rest.as_chunks::<2>() else { return None };
    Some(CaseParts { base, choices, otherwise })
}

/// Rewrite: turns each call of `$case` back into a CASE.
#[derive(Debug)]
pub struct RestoredCases;

impl FunctionRewrite for RestoredCases {
    fn name(&self) -> &str {
        "restored_cases"
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(call) = &expr else { return Ok(Transformed::no(expr)) };
        Ok(match restored_case(call) {
            Some(case) => Transformed::yes(case),
            None => Transformed::no(expr),
        })
    }
}

fn restored_case(call: &ScalarFunction) -> Option<Expr> {
    let CaseParts { base, choices, otherwise } = parts(call)?;
    let boxed = |expr: &Expr| Box::new(expr.clone());
    let choices = choices.iter().map(|[when, then]| (boxed(when), boxed(then))).collect();
    let otherwise = match otherwise {
        Expr::Literal(value, None) if value.data_type().is_null() => None,
        other => Some(boxed(other)),
    };
    Some(Expr::Case(Case::new(base.map(boxed), choices, otherwise)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CaseCall {
    signature: Signature,
}

impl ScalarUDFImpl for CaseCall {
    fn name(&self) -> &str {
        FUNCTION
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(to_datafusion(Error::internal("the type of CASE depends on its results")))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let has_base = matches!(
            arguments.scalar_arguments.first(),
            Some(Some(ScalarValue::Boolean(Some(true))))
        );
        let first = if has_base { 3 } else { 2 };
        let last = arguments.arg_fields.len().saturating_sub(1);
        let is_result = |at: &usize| *at == last || *at >= first && (*at - first).is_multiple_of(2);
        // Like PostgreSQL, considers the type of ELSE first.
        let results = || std::iter::once(last).chain((0..last).filter(is_result));
        let given: Vec<ValueType> = results()
            .filter_map(|at| {
                let constant = arguments.scalar_arguments.get(at).copied().flatten();
                let given = constant.and_then(ValueType::of_constant);
                Some(given.unwrap_or(ValueType::of_field(arguments.arg_fields.get(at)?)))
            })
            .collect();
        if let Some(wanted) = common_type("CASE", &given)? {
            return Ok(Arc::new(wanted.arrow_field(FUNCTION, true)));
        }
        let fields = results().filter_map(|at| arguments.arg_fields.get(at));
        let known = fields.into_iter().find(|field| !field.data_type().is_null());
        let data_type = known.map_or(DataType::Null, |field| field.data_type().clone());
        Ok(Arc::new(Field::new(FUNCTION, data_type, true)))
    }

    // Needed for the arguments of functions in FROM, which are computed during planning.
    fn simplify(&self, arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let call = ScalarFunction::new_udf(function(), arguments);
        Ok(match restored_case(&call) {
            Some(case) => ExprSimplifyResult::Simplified(case),
            None => ExprSimplifyResult::Original(call.args),
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(to_datafusion(Error::internal("a CASE was not put back in its place")))
    }
}
