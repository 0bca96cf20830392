//! Calls of `replay` and `playback` in FROM, functions of this project that return the rows of a
//! table.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, TableFactor, Value, ValueWithSpan,
};
use stratalog_model::{Error, ErrorKind};

use super::fold;

/// True for the names `replay` and `playback`, in lower case.
pub fn is_replay(name: &str) -> bool {
    matches!(name, "replay" | "playback")
}

/// The table name in a call of `replay` or `playback` in FROM: `None` for other items of FROM,
/// `Some(None)` for a call whose table name is not a constant.
pub fn table_of(factor: &TableFactor) -> Option<Option<&str>> {
    let (name, args) = match factor {
        TableFactor::Table { name, args: Some(args), .. } => (name, &args.args),
        TableFactor::Function { name, args, .. } => (name, args),
        _ => return None,
    };
    let function = name.0.last().and_then(|part| part.as_ident())?;
    is_replay(&fold(function)).then(|| match args.first() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => text_of(expr),
        _ => None,
    })
}

/// The value of a quoted constant; `None` for other expressions.
pub fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

/// The error for WITH ORDINALITY after the function `called`.
pub fn no_ordinality(called: &str) -> Error {
    Error::new(
        ErrorKind::FeatureNotSupported,
        format!("WITH ORDINALITY of {called} is not supported"),
    )
    .with_hint("row_number() OVER () counts rows; _gsn is the place of an event in the log")
}
