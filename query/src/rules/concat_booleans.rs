//! Booleans in `concat`, written like in the protocol: `t` and `f`.

use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{Case, Expr, ExprSchemable, expr_rewriter::FunctionRewrite, lit},
};

/// Gives `concat` the text of booleans. Runs before type coercion.
#[derive(Debug)]
pub struct ConcatBooleans;

impl FunctionRewrite for ConcatBooleans {
    fn name(&self) -> &str {
        "concatenated_truths"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let mut changed = false;
        if matches!(call.name(), "concat" | "concat_ws") {
            for argument in &mut call.args {
                if matches!(argument.get_type(schema), Ok(DataType::Boolean)) {
                    *argument = letter(std::mem::take(argument));
                    changed = true;
                }
            }
        }
        let call = Expr::ScalarFunction(call);
        Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) })
    }
}

fn letter(truth: Expr) -> Expr {
    let choice = |truth: Expr, letter: &str| (Box::new(truth), Box::new(lit(letter)));
    let choices = vec![choice(truth.clone(), "t"), choice(!truth, "f")];
    Expr::Case(Case::new(None, choices, None))
}
