//! NULL among the values of IN, apart from them: `x IN (1, NULL)` says `x IN (1) OR NULL`.
//! DataFusion merges lists as if each value were one, and so loses that the result is
//! unknown: of `x NOT IN (1, NULL) OR x NOT IN (1, 2)` it makes `x <> 1`.

use datafusion::{
    common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{Expr, expr::InList, expr_rewriter::FunctionRewrite},
};

fn is_null(value: &Expr) -> bool {
    match value {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        Expr::TryCast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

/// Takes NULL out of lists.
#[derive(Debug)]
pub struct NullMembers;

impl FunctionRewrite for NullMembers {
    fn name(&self) -> &str {
        "null_members"
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        match expr {
            Expr::InList(InList { expr, mut list, negated }) if list.iter().any(is_null) => {
                list.retain(|value| !is_null(value));
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
