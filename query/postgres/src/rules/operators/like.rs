//! LIKE and ILIKE for patterns that DataFusion's kernel does not handle well. The kernel turns a
//! pattern into a regular expression. Patterns with thousands of wildcards take minutes, a computed
//! pattern is compiled for each row, `ILIKE` lets `s` match `ſ`, and a final backslash counts as a
//! letter. The functions `like_match` and `ilike_match` match such patterns; the kernel matches
//! short constants.

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{
        Expr, ExprSchemable, Like, LogicalPlan, ScalarUDF,
        expr_rewriter::{FunctionRewrite, NamePreserver},
        utils::merge_schema,
    },
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};
use stratalog_functions::plan_walk::TreeWalk;

use crate::rules::subqueries::decorrelation::any_expression;

/// Maximum length of a pattern for the kernel, in bytes.
const KERNEL_BYTES_MAX: usize = 1 << 10;

/// Maximum number of wildcards in a pattern for the kernel.
const KERNEL_WILDCARDS_MAX: usize = 16;

/// ASCII letters that are also the lower or upper case of a character outside of ASCII.
const FOLDED: [char; 4] = ['s', 'S', 'k', 'K'];

/// Replaces LIKE and ILIKE by function calls, where the kernel is not suitable. Runs twice: during
/// the analysis for patterns in the statement, and before the optimization for patterns that are
/// parameter values. A secondary index supports both LIKE and the calls.
#[derive(Debug)]
pub struct LikeCalls {
    like: ScalarUDF,
    ilike: ScalarUDF,
}

impl Default for LikeCalls {
    fn default() -> Self {
        Self { like: stratalog_functions::like_match(), ilike: stratalog_functions::ilike_match() }
    }
}

impl LikeCalls {
    fn call(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let Expr::Like(like) = expr else { return Ok(Transformed::no(expr)) };
        let is_text =
            |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| data_type.is_string());
        if suits_kernel(&like) || !is_text(&like.expr) || !is_text(&like.pattern) {
            return Ok(Transformed::no(Expr::Like(like)));
        }
        let Like { negated, expr, pattern, case_insensitive, .. } = like;
        let function = if case_insensitive { &self.ilike } else { &self.like };
        let arguments = [*expr, *pattern].map(|expr| expr.cast_to(&DataType::Utf8View, schema));
        let matches = function.call(arguments.into_iter().collect::<Result<_>>()?);
        Ok(Transformed::yes(match negated {
            true => Expr::Not(Box::new(matches)),
            false => matches,
        }))
    }
}

impl FunctionRewrite for LikeCalls {
    fn name(&self) -> &str {
        "like_calls"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match &expr {
            Expr::Like(like) if !has_parameter(&like.pattern)? => self.call(expr, schema),
            _ => Ok(Transformed::no(expr)),
        }
    }
}

impl OptimizerRule for LikeCalls {
    fn name(&self) -> &str {
        "like_calls"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let is_like = |expr: &Expr| expr.exists(|part| Ok(matches!(part, Expr::Like(_))));
        if !any_expression(&plan, is_like)? {
            return Ok(Transformed::no(plan));
        }
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let called = expr.change_up(|expr| self.call(expr, &schema))?;
            Ok(called.update_data(|expr| name.restore(expr)))
        })
    }
}

fn has_parameter(expr: &Expr) -> Result<bool> {
    expr.exists(|part| Ok(matches!(part, Expr::Placeholder(_))))
}

/// True if the kernel matches the pattern fast, and with PostgreSQL's result.
fn suits_kernel(like: &Like) -> bool {
    // The parser has already replaced each valid escape character by a backslash.
    if like.escape_char.is_some_and(|escape| escape != '\\') {
        return true;
    }
    let Expr::Literal(pattern, _) = like.pattern.as_ref() else { return false };
    let Some(pattern) = pattern.try_as_str() else { return true };
    let Some(pattern) = pattern else { return true };
    let backslashes = pattern.bytes().rev().take_while(|byte| *byte == b'\\').count();
    let wildcards = pattern.bytes().filter(|byte| matches!(byte, b'%' | b'_')).count();
    let keeps_case = !like.case_insensitive || (pattern.is_ascii() && !pattern.contains(FOLDED));
    let is_short = pattern.len() <= KERNEL_BYTES_MAX && wildcards <= KERNEL_WILDCARDS_MAX;
    is_short && backslashes % 2 == 0 && keeps_case
}
