//! Builds function calls as nodes of the parser's tree.

use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments};

/// A call of the function `name` with unnamed arguments.
pub fn call(name: &str, arguments: Vec<Expr>) -> Option<Expr> {
    let mut call = super::expression(&format!("{name}()")).ok()?;
    if let Expr::Function(function) = &mut call
        && let FunctionArguments::List(list) = &mut function.args
    {
        list.args = arguments
            .into_iter()
            .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)))
            .collect();
    }
    Some(call)
}
